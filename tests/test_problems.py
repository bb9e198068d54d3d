"""Problems: one contract for all of them, then the structure of each.

Statistical checks compare with the exact law; tolerances are multiples of the standard error of
the statistic.
"""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffts.diffusion.networks import PREDICTIONS
from diffts.errors import InvalidInputError
from diffts.problems import PROBLEMS, get_problem
from diffts.problems.groups import hide, recall_precision
from diffts.reproduction.digests import fingerprint

# Training, calibration and test tasks of seed 0. To be changed together with a problem's version.
PUBLISHED = {
    "popular-niche": ("7d5fb00ec385", "34de309f668f", "b764c5966584"),
    "labeled-arms": ("991ac712d0d0", "df899cd6494e", "7816198f4e02"),
    "labeled-arms-common": ("a9b5c35b7764", "b9304d9fd2ef", "a2fb8f269f24"),
    "maze": ("dcebbe3481c4", "ba5f50eae69d", "2e127e6ef3bf"),
    "bidding": ("005ef87492e5", "a42d1de10ddd", "1ad64e326786"),
    "groups": ("6f0bd3e77119", "5315a6ec91d1", "1117c4315a48"),
}
STANDARD_ERRORS = 5.0  # of a normal statistic, passed by chance once in 1.7 million checks


@pytest.fixture(params=sorted(PROBLEMS))
def problem(request):
    return get_problem(request.param)


class TestContract:
    def test_is_registered_under_its_own_name_and_frozen(self, problem):
        assert problem is not None
        assert PROBLEMS[problem.name]().name == problem.name
        with pytest.raises(dataclasses.FrozenInstanceError):
            problem.n_arms = 3

    def test_tasks_have_the_right_shape_type_and_range(self, problem):
        tasks = problem.sample(64, seed=0)
        assert tasks.shape == (64, problem.n_arms)
        assert tasks.dtype == np.float32
        low, high = (-1.0, 0.0) if problem.name == "maze" else (0.0, 1.0)
        assert low <= tasks.min() <= tasks.max() <= high
        assert len(np.unique(tasks, axis=0)) > 1

    def test_no_tasks_is_an_empty_set(self, problem):
        assert problem.sample(0, seed=0).shape == (0, problem.n_arms)

    @pytest.mark.parametrize("n", [-1, 2.0, True, "3", None])
    def test_a_bad_number_of_tasks_is_refused(self, problem, n):
        with pytest.raises(InvalidInputError, match=r"^n: "):
            problem.sample(n, seed=0)

    def test_a_bad_seed_or_size_is_refused(self, problem):
        with pytest.raises(InvalidInputError, match=r"^seed: "):
            problem.sample(1, seed="monday")
        with pytest.raises(InvalidInputError, match=r"^calibration: "):
            problem.split(train=1, calibration=-1, test=1)

    def test_a_seed_decides_the_tasks(self, problem):
        first = problem.sample(20, seed=7)
        np.testing.assert_array_equal(first, problem.sample(20, seed=7))
        np.testing.assert_array_equal(first, problem.sample(20, seed=jax.random.key(7)))
        assert (first != problem.sample(20, seed=8)).any()
        generator = np.random.default_rng(7)
        assert (problem.sample(20, generator) != problem.sample(20, generator)).any()

    def test_default_sizes_are_the_papers(self, problem):
        expected = (1200, 100, 52) if problem.name == "bidding" else (5000, 1000, 100)
        assert tuple(len(tasks) for tasks in problem.split()) == expected

    def test_one_sets_size_does_not_change_the_other_sets(self, problem):
        small = problem.split(train=5, calibration=6, test=7, seed=3)
        large = problem.split(train=50, calibration=6, test=7, seed=3)
        np.testing.assert_array_equal(small.calibration, large.calibration)
        np.testing.assert_array_equal(small.test, large.test)
        assert (len(small.train), len(large.train)) == (5, 50)

    def test_sets_are_independent(self, problem):
        n = 400
        sets = problem.split(train=n, calibration=n, test=n, seed=11)
        centre = problem.sample(4000, seed=12).mean(axis=0)
        for one, other in [(0, 1), (0, 2), (1, 2)]:
            products = ((sets[one] - centre) * (sets[other] - centre)).sum(axis=1)
            error = products.std() / np.sqrt(n)
            assert abs(products.mean()) < STANDARD_ERRORS * error
        if problem.name != "groups":  # whose vectors are few, so that they do repeat
            assert len(np.unique(np.concatenate(sets), axis=0)) == 3 * n

    def test_development_tasks_have_a_stream_of_their_own(self, problem):
        sets = problem.split(train=200, calibration=200, test=200, seed=11)
        tasks = problem.development(200, seed=11, beside=sets)
        assert tasks.shape == (200, problem.n_arms)
        np.testing.assert_array_equal(tasks, problem.development(200, seed=11, beside=sets))
        assert (tasks != problem.development(200, seed=12, beside=sets)).any()
        for other in sets:
            assert (tasks != other).any()
        roots = np.random.default_rng([0, 11]).integers(2**63, size=4)
        own = np.random.default_rng(int(roots[3]))  # after the streams of the three sets
        np.testing.assert_array_equal(tasks, problem.sample(200, own))
        assert len(problem.development()) == problem.default_sizes[2]
        with pytest.raises(InvalidInputError, match=r"^n: "):
            problem.development(-1)

    def test_sets_are_those_that_the_published_results_were_made_with(self, problem):
        """Each set from the stream of its place, whatever sets have come since."""
        sets = problem.split(seed=0)
        roots = np.random.default_rng([0, 0]).integers(2**63, size=3)
        for tasks, root in zip(sets, roots, strict=True):
            again = problem.sample(len(tasks), np.random.default_rng(int(root)))
            np.testing.assert_array_equal(tasks, again)
        if problem.name in PUBLISHED:
            assert tuple(fingerprint(tasks) for tasks in sets) == PUBLISHED[problem.name]

    def test_choices_are_made_on_development_tasks(self, problem):
        sets, usual = problem.sets_for_choices(seed=0), problem.split(seed=0)
        np.testing.assert_array_equal(sets.train, usual.train)
        np.testing.assert_array_equal(sets.calibration, usual.calibration)
        np.testing.assert_array_equal(sets.test, problem.development(seed=0))
        assert (sets.test != usual.test).any()

    def test_rewards_have_the_stated_mean_and_variance(self, problem):
        n = 20_000
        means = problem.sample(1, seed=1)[0]
        arms = np.linspace(0, problem.n_arms - 1, 6).astype(int)
        rewards = problem.rewards(
            jax.random.key(2), jnp.asarray(means), jnp.tile(jnp.asarray(arms), (n, 1))
        )
        rewards = np.asarray(rewards, np.float64)
        assert rewards.shape == (n, len(arms))
        for arm, drawn in zip(arms, rewards.T, strict=True):
            mean = float(means[arm])
            variance, fourth = central_moments(problem, mean, arm)
            error = np.sqrt(variance / n)
            assert abs(drawn.mean() - mean) <= STANDARD_ERRORS * error + 1e-6
            squares = (drawn - mean) ** 2
            error = np.sqrt((fourth - variance**2) / n)
            assert abs(squares.mean() - variance) <= STANDARD_ERRORS * error + 1e-6

    def test_rewards_work_in_compiled_loops_and_batches(self, problem):
        means = jnp.asarray(problem.sample(3, seed=0))
        arms = jnp.array([[0, 1], [2, 3], [4, 5]])

        @jax.jit
        def play(key):
            def round_(carry, key):
                keys = jax.random.split(key, 3)
                return carry, jax.vmap(problem.rewards)(keys, means, arms)

            return jax.lax.scan(round_, 0, jax.random.split(key, 4))[1]

        rewards = play(jax.random.key(0))
        assert rewards.shape == (4, 3, 2)
        assert rewards.dtype == jnp.float32
        np.testing.assert_array_equal(rewards, play(jax.random.key(0)))
        assert problem.rewards(jax.random.key(0), means[0], jnp.array(5)).shape == ()

    def test_assumed_noise_is_the_papers(self, problem):
        assert problem.noise_std == (0.2 if problem.name == "bidding" else 0.1)
        assert problem.horizon >= 1

    def test_suggested_network_can_be_written_as_json(self, problem):
        network = problem.suggested_network
        expected = {"maze": "unet-2d", "bidding": "unet-1d"}.get(problem.name, "residual-mlp")
        assert network.name == expected
        assert network.predicts in PREDICTIONS
        assert json.loads(json.dumps(dict(network.options))).keys() == network.options.keys()

    def test_an_unknown_name_lists_the_known_ones(self):
        with pytest.raises(InvalidInputError, match="unknown 'maize'; choose from bidding, groups"):
            get_problem("maize")


def central_moments(problem, mean, arm):
    """Exact variance and fourth central moment of one reward."""
    if problem.name != "bidding":
        return 0.1**2, 3 * 0.1**4
    payoff = (300 - arm) / 300
    win = mean / payoff
    law = np.array([win, 1 - win])
    deviations = np.array([payoff - mean, -mean])
    return law @ deviations**2, law @ deviations**4


class TestGroups:
    tasks = get_problem("groups").sample(6000, seed=0)
    groups = tasks.reshape(-1, 20, 10)

    def test_groups_are_whole_blocks_of_ones(self):
        assert set(np.unique(self.tasks)) == {0.0, 1.0}
        assert (self.groups.min(axis=2) == self.groups.max(axis=2)).all()

    def test_number_of_active_groups_is_uniform_on_one_to_six(self):
        share = np.bincount(self.groups[:, :, 0].sum(axis=1).astype(int), minlength=21) / 6000
        error = np.sqrt(1 / 6 * 5 / 6 / 6000)
        assert np.abs(share[1:7] - 1 / 6).max() < STANDARD_ERRORS * error
        assert share[0] == share[7:].sum() == 0

    def test_every_group_is_as_likely(self):
        expected = 3.5 / 20
        error = np.sqrt(expected * (1 - expected) / 6000)
        assert np.abs(self.groups[:, :, 0].mean(axis=0) - expected).max() < STANDARD_ERRORS * error

    def test_hiding_keeps_the_asked_share_exactly_as_it_was(self):
        evidence = hide(self.tasks[:100], seed=1, missing=0.3)
        mask = np.asarray(evidence.mask)
        assert abs(mask.mean() - 0.7) < STANDARD_ERRORS * np.sqrt(0.7 * 0.3 / mask.size)
        np.testing.assert_array_equal(np.asarray(evidence.mean)[mask], self.tasks[:100][mask])
        assert (np.asarray(evidence.std) == 0).all()
        np.testing.assert_array_equal(mask, hide(self.tasks[:100], seed=1, missing=0.3).mask)
        assert not hide(self.tasks[:2], seed=1, missing=1.0).mask.any()

    @pytest.mark.parametrize("missing", [-0.1, 1.5, float("nan")])
    def test_hiding_refuses_what_is_no_probability(self, missing):
        with pytest.raises(InvalidInputError, match=r"^missing: "):
            hide(self.tasks[:1], seed=0, missing=missing)

    def test_recall_and_precision_by_hand(self):
        truth, draws = np.zeros((2, 20, 10)), np.zeros((2, 20, 10))
        truth[0, [0, 1]] = truth[1, [5, 6, 7, 8]] = 1
        draws[0, [1, 2]] = 0.81  # one of two found, one of two right
        draws[0, 0, :9] = 1.0  # nine of ten features are not enough
        draws[1, 5] = 0.81  # one of four found, and right
        draws[1, 6] = 0.8  # must exceed the threshold
        flat = truth.reshape(2, 200), draws.reshape(2, 200)
        assert recall_precision(*flat) == pytest.approx(((1 / 2 + 1 / 4) / 2, (1 / 2 + 1) / 2))
        assert recall_precision(*flat, threshold=0.7)[0] == pytest.approx((1 / 2 + 2 / 4) / 2)

    def test_recall_and_precision_refuse_other_shapes(self):
        with pytest.raises(InvalidInputError, match=r"^draws: expected shape"):
            recall_precision(self.tasks[:2], self.tasks[:2, :100])
        with pytest.raises(InvalidInputError, match=r"^draws: expected one for each"):
            recall_precision(self.tasks[:2], self.tasks[:3])


class TestPopularNiche:
    problem = get_problem("popular-niche")
    tasks = problem.sample(4000, seed=0)

    def by_group(self):
        order = np.argsort(self.problem.group_of_arm, kind="stable")
        return self.tasks[:, order].reshape(-1, 40, 5)

    def test_forty_groups_of_five_half_of_them_niche_in_mixed_order(self):
        assert (np.bincount(self.problem.group_of_arm) == 5).all()
        assert self.problem.is_niche.sum() == 100
        np.testing.assert_array_equal(self.problem.is_niche, self.problem.group_of_arm < 20)
        assert (np.diff(self.problem.group_of_arm) < 0).any()
        with pytest.raises(ValueError, match="read-only"):
            self.problem.group_of_arm[0] = 1

    def test_fifteen_to_seventeen_popular_groups_at_eight_tenths(self):
        popular = self.by_group()[:, 20:].mean(axis=2)  # 0.04 or 0.8, each ± 0.05
        chosen = (popular > 0.4).sum(axis=1)
        share = np.bincount(chosen, minlength=21) / len(chosen)
        error = np.sqrt(1 / 3 * 2 / 3 / len(chosen))
        assert np.abs(share[15:18] - 1 / 3).max() < STANDARD_ERRORS * error
        assert share[15:18].sum() == 1
        assert self.tasks[:, ~self.problem.is_niche].max() == np.float32(0.95)

    def test_share_of_liked_niche_items(self):
        # Expected liked arms: 2 groups of 5 with probability 0.7; 0.5 is 5 deviations from both.
        liked = (self.tasks[:, self.problem.is_niche] > 0.5).sum(axis=1)
        second_moment = np.mean([5 * g * 0.21 + (3.5 * g) ** 2 for g in (1, 2, 3)])
        error = np.sqrt((second_moment - 7.0**2) / len(liked))
        assert abs(liked.mean() - 7.0) < STANDARD_ERRORS * error
        groups = (self.by_group()[:, :20] > 0.5).any(axis=2).sum(axis=1)
        assert groups.max() == 3

    def test_values_are_a_clipped_normal_around_their_level(self):
        popular = self.by_group()[:, 20:]
        at_level = popular[popular.mean(axis=2) > 0.4].ravel()
        # min(N(0.8, 0.1²), 0.95): the mean loses 0.1 (φ(1.5) - 1.5 Φ(-1.5)) = 0.1 · 0.02931.
        error = 0.1 / np.sqrt(at_level.size)
        assert abs(at_level.mean() - (0.8 - 0.002931)) < STANDARD_ERRORS * error
        assert abs((at_level == np.float32(0.95)).mean() - 0.0668) < 0.0668 * 0.05

    def test_the_best_arm_is_niche_if_any_item_is_liked(self):
        best = self.problem.is_niche[self.tasks.argmax(axis=1)]
        assert best.mean() > 0.95


class TestLabeledArms:
    problem = get_problem("labeled-arms")
    common = get_problem("labeled-arms-common")
    tasks = common.sample(300, seed=0)  # one scale for all, easy to undo

    def test_arms_hold_seven_of_fifty_labels(self):
        assert self.problem.arm_labels.shape == (500, 50)
        assert (self.problem.arm_labels.sum(axis=1) == 7).all()
        assert len(np.unique(self.problem.arm_labels, axis=0)) > 490

    def test_tasks_are_scaled_each_by_itself_or_together(self):
        apart = self.problem.sample(300, seed=0)
        assert (apart.min(axis=1) == 0).all()
        assert (apart.max(axis=1) == 1).all()
        # One scale for all: undone, the two are the same up to each task's shift and stretch.
        stretched = self.tasks - self.tasks.min(axis=1, keepdims=True)
        stretched /= stretched.max(axis=1, keepdims=True)
        np.testing.assert_allclose(stretched, apart, atol=1e-5)
        assert ((self.tasks == 0) | (self.tasks == 1)).mean() < 1e-5  # hardly ever clipped
        # The law of this name was the common one before.
        assert self.problem.version > self.common.version

    def test_values_follow_the_number_of_common_labels(self):
        labels = self.problem.arm_labels.astype(float)
        # Labels of good arms are the task's labels: regress the task on the arms' labels.
        effect, *_ = np.linalg.lstsq(labels, self.tasks.T - self.tasks.mean(axis=1), rcond=None)
        chosen = np.argsort(-effect, axis=0)[:7].T
        common = np.stack([labels[:, row].sum(axis=1) for row in chosen])
        signal = 1 - 0.25**common
        noise = []
        for x, y in zip(signal, self.tasks, strict=True):
            slope, intercept = np.polyfit(x, y, 1)
            noise.append(np.std(y - slope * x - intercept, ddof=2) / slope)
        # One task's estimate of 0.1 has the error 0.1/√1000; the median of 300 a tenth of that.
        assert abs(np.median(noise) - 0.1) < STANDARD_ERRORS * 0.1 / np.sqrt(1000) / 10
