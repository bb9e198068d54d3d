"""The network 'arms': evidence as noise, on top of a factor Gaussian."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from diffts import DiffusionPrior, Evidence, learn_prior
from diffts.bandits import History
from diffts.bandits.actions import TopK
from diffts.bandits.policies import DiffTS
from diffts.diffusion import SAMPLERS
from diffts.diffusion.exact import Gaussian
from diffts.diffusion.exact_denoisers import GaussianDenoiser
from diffts.diffusion.factor_gaussian import FactorGaussian, inverse
from diffts.diffusion.networks.arm_network import LEVELS, ArmDenoiser
from diffts.diffusion.observation import ConditionalDenoiser, Doubt, Marginals, Observation
from diffts.diffusion.schedule import Schedule
from diffts.diffusion.units import Units
from diffts.errors import InvalidInputError
from diffts.learning import Procedure
from diffts.learning.play import play, turns_until

K, RANK = 6, 2
RNG = np.random.default_rng(0)
MEAN, LOADINGS = RNG.normal(size=K), RNG.normal(size=(K, RANK))
OWN = RNG.uniform(0.05, 0.5, K)
LAW = Gaussian(MEAN, LOADINGS @ LOADINGS.T + np.diag(OWN))
SMALL = {"width": 8, "n_blocks": 1, "code": 2, "own": 2, "hidden": 8}
SHORT = Procedure.named(
    "arms",
    warmup_steps=60,
    rounds=1,
    inner_steps=40,
    score_every=50,
    play_tasks=20,
    play_rounds=30,
    judged_tasks=10,
)
# Nothing, one arm, several, all; from hardly known to pulled ten thousand times.
PRECISIONS = [
    np.zeros(K),
    np.eye(K)[1] * 4.0,
    np.array([0.0, 1.0, 0.1, 100.0, 0.0, 10.0]),
    np.array([1e6, 0.0, 1e-3, 1.0, 1e6, 0.0]),
]


def untrained(**options):
    return ArmDenoiser(FactorGaussian(MEAN, LOADINGS, OWN), **(SMALL | options))


def observed(precision, seed=0):
    """An observation of a task of the law, and the same as evidence."""
    rng = np.random.default_rng(seed)
    task = rng.multivariate_normal(MEAN, LAW.covariance)
    std = 1.0 / np.sqrt(np.where(precision > 0, precision, 1.0))
    mean = np.where(precision > 0, task + std * rng.standard_normal(K), 0.0)
    observation = Observation(jnp.asarray(mean, jnp.float32), jnp.asarray(precision, jnp.float32))
    return observation, Evidence(mean, std, precision > 0)


class TestObservation:
    def test_two_observations_of_an_arm_are_one(self):
        one = Observation(jnp.array([1.0, 0.0, 2.0]), jnp.array([1.0, 0.0, 3.0]))
        other = Observation(jnp.array([3.0, 5.0, 0.0]), jnp.array([3.0, 2.0, 0.0]))
        merged = one.merged(other)
        np.testing.assert_allclose(merged.mean, [2.5, 5.0, 2.0])
        np.testing.assert_allclose(merged.precision, [4.0, 2.0, 3.0])

    def test_a_latent_is_an_observation_of_the_task(self):
        level = Schedule.linear().level(30)
        seen = Observation.of_latent(level.signal * jnp.arange(3.0), level)
        np.testing.assert_allclose(seen.mean, [0, 1, 2], rtol=1e-6)
        np.testing.assert_allclose(1 / seen.precision, (level.noise / level.signal) ** 2, rtol=1e-5)

    def test_evidence_without_noise_is_as_precise_as_can_be(self):
        seen = Observation.of_evidence(Evidence([1.0, np.nan], std=0.0))
        assert seen.precision[0] == pytest.approx(1e10)
        assert seen.precision[1] == 0.0

    def test_marginals_at_their_levels_between_them_and_beyond(self):
        levels = (-1.0, 0.0, 2.0)
        known = Marginals(jnp.zeros(1), jnp.full(1, 0.5), jnp.array([[-3.0, 1.0, 2.0]]), levels)
        for deviate, value in ((-1, -3.0), (0, 1.0), (1, 1.5), (2, 2.0), (3, 2.5), (-2, -3.5)):
            assert float(known.at(jnp.full(1, float(deviate)))[0]) == pytest.approx(value)

    @pytest.mark.parametrize(
        ("std", "last", "value"), [(0.5, 1.2, 1.3), (0.5, 1.0, 1.025), (0.1, 2.0, 2.1)]
    )
    def test_tails_go_on_as_quantiles_did_never_flat_never_wider_than_a_gaussian(
        self, std, last, value
    ):
        levels = (-1.0, 0.0, 2.0)
        known = Marginals(jnp.zeros(1), jnp.full(1, std), jnp.array([[-3.0, 1.0, last]]), levels)
        assert float(known.at(jnp.full(1, 3.0))[0]) == pytest.approx(value)


class TestDoubt:
    """A law that is right with some probability widens quantiles as a mixture's would be."""

    def test_a_quantile_is_that_of_the_mixture_at_least_and_never_inside(self):
        sure = Marginals(jnp.zeros(1), jnp.full(1, 0.1))
        doubt = Doubt(jnp.full(1, 1.0), jnp.full(1, 0.5), weight=0.2)
        known = Marginals(sure.mean, sure.std, doubts=(doubt,))
        for level in (0.001, 0.01, 0.05, 0.3, 0.7, 0.95, 0.99, 0.999):
            value = float(known.quantile(jnp.float32(level))[0])
            own = float(sure.quantile(jnp.float32(level))[0])
            assert value >= own if level > 0.5 else value <= own
            # No more than the tail lies beyond, whichever law is right: P(net) + 0.2 P(doubt).
            share = norm.sf(value, 1.0, 0.5) if level > 0.5 else norm.cdf(value, 1.0, 0.5)
            tail = min(level, 1.0 - level)
            assert 0.2 * share <= tail + 1e-4 or tail >= 0.1

    def test_in_a_sum_moments_count_and_doubts_as_well(self):
        coin = jnp.array([[0.0, 1.0, 1.0]])  # at levels 0.16, 0.5 and 0.98: likely 1, or else 0
        known = Marginals(jnp.full(1, 0.6), jnp.full(1, 0.5), coin, (-1.0, 0.0, 2.0))
        level = jnp.float32(norm.cdf(0.6))
        assert float(known.quantile(level)[0]) == pytest.approx(1.0)
        assert float(known.normal_quantile(level)[0]) == pytest.approx(0.9)
        level = jnp.float32(norm.cdf(-0.4))
        assert float(known.normal_quantile(level)[0]) == pytest.approx(0.4)
        assert float(known.quantile(level)[0]) == pytest.approx(0.6)
        doubt = Doubt(jnp.full(1, 5.0), jnp.ones(1), weight=0.1)
        doubted = Marginals(known.mean, known.std, coin, known.levels, doubts=(doubt,))
        wide = float(doubted.normal_quantile(jnp.float32(0.99))[0])
        assert wide == pytest.approx(5.0 + norm.ppf(0.9), abs=1e-3)

    def test_it_says_nothing_before_its_median_and_moves_with_the_units(self):
        doubt = Doubt(jnp.full(1, 5.0), jnp.ones(1), weight=0.1)
        known = Marginals(jnp.zeros(1), jnp.ones(1), doubts=(doubt,))
        assert float(known.quantile(jnp.float32(0.9))[0]) == pytest.approx(norm.ppf(0.9), abs=1e-4)
        wide = float(known.quantile(jnp.float32(0.99))[0])
        assert wide == pytest.approx(5.0 + norm.ppf(0.9), abs=1e-3)
        moved = known.scaled(2.0, 3.0).shifted(jnp.full(1, 1.0)).clipped(-100.0, 100.0)
        assert float(moved.quantile(jnp.float32(0.99))[0]) == pytest.approx(
            3.0 + 3.0 * wide, abs=1e-3
        )
        assert float(moved.mean[0]) == pytest.approx(3.0)

    def test_an_arm_that_the_network_writes_off_is_looked_at_in_the_long_run(self):
        network = untrained()
        sure_and_wrong = eqx.tree_at(
            lambda n: n.third.bias, network, jnp.full_like(network.third.bias, -8.0)
        )
        observation, _ = observed(PRECISIONS[0])
        q = [sure_and_wrong.given(observation).quantile(jnp.float32(u)) for u in (0.95, 0.9999)]
        independent_std = np.sqrt(np.diag(LAW.covariance))
        assert (np.asarray(q[1]) >= MEAN + 3.0 * independent_std - 1e-3).all()
        assert (np.asarray(q[0]) < np.asarray(q[1])).all()


class TestFactorGaussian:
    def test_the_inverse_is_one(self):
        root = RNG.normal(size=(7, 7))
        matrix = np.eye(7) + root @ root.T
        np.testing.assert_allclose(
            inverse(jnp.asarray(matrix, jnp.float32)), np.linalg.inv(matrix), atol=2e-5
        )

    @pytest.mark.parametrize("precision", PRECISIONS)
    def test_it_is_the_exact_posterior(self, precision):
        observation, evidence = observed(precision)
        exact = LAW.posterior(evidence)
        got = FactorGaussian(MEAN, LOADINGS, OWN).given(observation)
        # float32 next to float64, in exact standard deviations.
        np.testing.assert_allclose((got.mean - exact.mean) / exact.std, 0.0, atol=2e-3)
        np.testing.assert_allclose(got.std / exact.std, 1.0, atol=2e-3)


class TestArmDenoiser:
    @pytest.mark.parametrize("sees_arms", [False, True])
    def test_untrained_it_is_the_gaussian(self, sees_arms):
        observation, evidence = observed(PRECISIONS[2])
        exact = LAW.posterior(evidence)
        got = untrained(sees_arms=sees_arms).given(observation)
        np.testing.assert_allclose(got.mean, exact.mean, atol=1e-4)
        np.testing.assert_allclose(got.std, exact.std, rtol=1e-4)
        for level in (*LEVELS, 0.3, 0.9999):
            deviate = norm.ppf(level)
            wanted = exact.mean + deviate * exact.std
            np.testing.assert_allclose(got.at(jnp.full(K, deviate)), wanted, atol=2e-3)

    @pytest.mark.slow(seconds=4)
    @pytest.mark.parametrize("which", range(len(PRECISIONS)))
    def test_its_draws_are_those_of_the_posterior(self, which):
        n = 4000
        evidence = observed(PRECISIONS[which])[1]
        exact = LAW.posterior(evidence)
        prior = DiffusionPrior(untrained(), np.zeros((100, K)))
        draws = prior.posterior_sample(evidence, n=n, steps=100, seed=1)
        # Draws err by 1/√n and 1/√2n of a standard deviation; 100 steps by a few hundredths (the
        # variance of a step is that of each arm by itself).
        error = (draws.mean(0) - exact.mean) / exact.std
        assert np.abs(error).max() < 0.05 + 4.5 / np.sqrt(n)
        assert np.abs(draws.std(0) / exact.std - 1).max() < 0.06 + 4.5 / np.sqrt(2 * n)

    def test_quantiles_never_decrease(self):
        network = untrained()
        moved = jax.tree.map(
            lambda leaf: leaf + 3.0 * jax.random.normal(jax.random.key(1), leaf.shape),
            network.third,
        )
        wild = jax.tree.map(lambda leaf: leaf, network)
        object.__setattr__(wild, "third", moved)
        quantiles = np.asarray(wild.given(observed(PRECISIONS[2])[0]).quantiles)
        assert (np.diff(quantiles, axis=1) >= 0).all()
        assert (np.diff(quantiles, axis=1) > 0).any()

    def test_saved_and_loaded_it_says_the_same(self, tmp_path):
        prior = DiffusionPrior(untrained(sees_arms=True), np.zeros((100, K)))
        prior.save(tmp_path / "prior")
        loaded = DiffusionPrior.load(tmp_path / "prior")
        evidence = observed(PRECISIONS[2])[1]
        said = [jax.tree.leaves(one.marginals(evidence)) for one in (prior, loaded)]
        for a, b in zip(*said, strict=True):
            np.testing.assert_array_equal(a, b)

    @pytest.mark.parametrize("attention", [{}, {"attention": False}, {"attention": True}])
    def test_on_a_grid_with_attention_or_without(self, attention, tmp_path):
        grid = {"height": 2, "width": 3, "channels": (4,), **attention}
        denoiser = untrained(grid=grid)
        has_it = denoiser.over.body.bottom.attention is not None
        assert has_it == attention.get("attention", True)
        prior = DiffusionPrior(denoiser, np.zeros((100, K)))
        prior.save(tmp_path / "prior")
        observation = observed(PRECISIONS[2])[0]
        again = DiffusionPrior.load(tmp_path / "prior").denoiser.given(observation)
        np.testing.assert_array_equal(again.mean, denoiser.given(observation).mean)

    def test_its_jacobian_is_that_of_the_gaussian(self):
        level = jax.tree.map(jnp.asarray, Schedule.linear().level(30))
        exact = GaussianDenoiser(LAW)
        x = jnp.asarray(RNG.normal(size=K), jnp.float32)
        ours, theirs = (jax.jacobian(lambda z, d=d: d(z, level))(x) for d in (untrained(), exact))
        np.testing.assert_allclose(ours, theirs, atol=1e-4)

    def test_samplers_and_steps_that_suit_a_prior(self):
        old = DiffusionPrior.gaussian([0.0], [[1.0]])
        assert old.how_to_draw() == (SAMPLERS["paper"], 100)
        arms = DiffusionPrior(untrained(), np.zeros((100, K)))
        assert arms.how_to_draw() == arms.how_to_draw("merged") == (SAMPLERS["merged"], 12)
        assert arms.how_to_draw("merged-late") == (SAMPLERS["merged-late"], 12)
        assert arms.how_to_draw("paper") == (SAMPLERS["paper"], 100)
        with pytest.raises(InvalidInputError, match="steps"):
            arms.how_to_draw("merged", 101)

    def test_marginals_in_the_users_units(self):
        units = Units(10.0, 2.0, -100.0, 100.0)
        prior = DiffusionPrior(untrained(), np.zeros((100, K)), units=units)
        observation, evidence = observed(PRECISIONS[2])
        plain = untrained().given(observation)
        seen = Evidence(10.0 + 2.0 * evidence.mean, 2.0 * evidence.std, evidence.mask)
        known = prior.marginals(seen)
        np.testing.assert_allclose(known.mean, 10.0 + 2.0 * plain.mean, rtol=1e-5)
        np.testing.assert_allclose(known.std, 2.0 * plain.std, rtol=1e-4)
        np.testing.assert_allclose(known.quantiles, 10.0 + 2.0 * plain.quantiles, rtol=1e-4)

    def test_what_was_seen_beyond_the_limits_counts_for_its_own_arm(self):
        prior = DiffusionPrior(untrained(), np.zeros((100, K)), units=Units(0.0, 1.0, -9.0, 9.0))
        wild, edge = (
            Evidence(np.where(np.arange(K) == 1, value, np.nan), std=0.01) for value in (50.0, 9.0)
        )
        mean, at_the_edge = (np.asarray(prior.marginals(one).mean) for one in (wild, edge))
        assert mean[1] == pytest.approx(50.0, abs=0.1)
        others = np.arange(K) != 1
        np.testing.assert_allclose(mean[others], at_the_edge[others], rtol=1e-5)
        draws = prior.posterior_sample(wild, n=20)
        # The last latent, about as precise as the evidence, was kept within the limits.
        assert np.abs(draws[:, 1] - 50.0).max() < 1.0
        assert np.abs(draws[:, others]).max() <= 9.0

    def test_half_of_the_room(self, tmp_path):
        prior = DiffusionPrior(untrained(hidden=64), np.zeros((100, K)))
        prior.save(tmp_path / "whole")
        prior.save(tmp_path / "half", half=True)
        whole, half = (
            sum(f.stat().st_size for f in (tmp_path / name).glob("*.safetensors"))
            for name in ("whole", "half")
        )
        assert half < 0.8 * whole
        evidence = observed(PRECISIONS[2])[1]
        loaded = DiffusionPrior.load(tmp_path / "half").marginals(evidence)
        np.testing.assert_allclose(loaded.mean, prior.marginals(evidence).mean, atol=1e-3)

    def test_other_networks_say_plainly_that_they_take_no_evidence(self):
        from diffts.diffusion import build_denoiser

        plain = DiffusionPrior(build_denoiser("residual-mlp", K, width=8), np.zeros((100, K)))
        assert plain.marginals(Evidence.none(K)) is None
        with pytest.raises(InvalidInputError, match="'merged' needs a denoiser"):
            plain.posterior_sample(Evidence.none(K), sampler="merged", steps=2)


class TestBelief:
    def test_rules_that_look_at_quantiles_need_one_pass(self):
        prior = DiffusionPrior(untrained(), np.zeros((100, K)))
        belief = DiffTS(prior, 0.5).belief
        history = History.empty(K).add(jnp.arange(K) == 2, jnp.full(K, 1.5))
        state = belief.resume(history)
        none = jnp.full((2, K), jnp.nan)  # draws are not read
        known = prior.marginals(history.evidence(jnp.full(K, 0.5)))
        mean, std = belief.moments(state, none)
        np.testing.assert_array_equal(mean, known.mean)
        np.testing.assert_array_equal(std, known.std)
        np.testing.assert_array_equal(
            belief.quantile(state, jnp.float32(0.95), none), known.quantile(jnp.float32(0.95))
        )
        for level in (0.8, 0.99):
            got = belief.normal_quantile(state, jnp.float32(level), none)
            np.testing.assert_array_equal(got, known.normal_quantile(jnp.float32(level)))

    def test_with_another_sampler_they_are_those_of_draws(self):
        prior = DiffusionPrior(untrained(), np.full((100, K), 0.1))
        belief = DiffTS(prior, 0.5, sampler="paper", steps=5).belief
        draws = jnp.stack([jnp.zeros(K), jnp.ones(K)])
        np.testing.assert_allclose(belief.moments(belief.init(), draws)[0], 0.5)


class TestPlay:
    def test_turns_are_longer_and_longer(self):
        pulls = turns_until(200)
        assert sum(pulls) == 200
        assert list(pulls[:-1]) == sorted(pulls[:-1])
        assert pulls[0] == 1

    def test_what_is_seen_of_an_arm_is_its_mean_and_noise(self):
        tasks = jnp.asarray(RNG.multivariate_normal(MEAN, LAW.covariance, 300), jnp.float32)
        noise = jnp.full(300, 0.5)
        played = play(untrained(), tasks, noise, jax.random.key(0), 60, batch=128)
        pulls = np.asarray(played.precision[-1]) * 0.25
        np.testing.assert_allclose(pulls.sum(1), 60, rtol=1e-4)
        # In units of its own standard deviation every mean errs by one, on average; an arm that is
        # pulled again because it looked good, and left because it did not, by a little more.
        seen = pulls > 0
        error = ((np.asarray(played.mean[-1]) - tasks) * np.sqrt(played.precision[-1]))[seen]
        assert np.sqrt((error**2).mean()) == pytest.approx(1.0, abs=0.25)
        assert (np.asarray(played.mean[-1])[~seen] == 0).all()
        assert (np.asarray(played.regret) >= -1e-5).all()

    def test_only_what_is_on_offer_is_pulled(self):
        tasks = jnp.asarray(RNG.multivariate_normal(MEAN, LAW.covariance, 20), jnp.float32)
        offered = jnp.asarray(RNG.random((20, K)) < 0.4).at[:, 0].set(True)
        for actions in (None, TopK(K, 3)):  # of sets, only these give rewards
            played = play(untrained(), tasks, jnp.ones(20), jax.random.key(0), 20, actions, offered)
            assert (np.asarray(played.precision[-1])[~np.asarray(offered)] == 0).all()
            assert np.isfinite(played.regret).all()
            assert (np.asarray(played.regret) >= -1e-5).all()

    def test_arms_of_a_set_are_judged_by_their_moments(self):
        """A denoiser whose quantiles and moments disagree about which arms are good."""

        class Split(ConditionalDenoiser):
            n_arms: int = K

            def given(self, observation):
                del observation
                rising = jnp.arange(K, dtype=jnp.float32)
                flat = jnp.broadcast_to(-rising[:, None], (K, 2))
                return Marginals(rising, jnp.ones(K), flat, (-3.0, 3.0))

            def recipe(self):
                return {}

        tasks = jnp.zeros((1, K))
        for actions, best in ((TopK(K, 2), [K - 2, K - 1]), (None, [0])):
            played = play(Split(), tasks, jnp.ones(1), jax.random.key(0), 5, actions)
            assert np.flatnonzero(played.precision[-1][0]).tolist() == best

    def test_sets_of_arms_are_the_best_ones(self):
        tasks = jnp.asarray(RNG.multivariate_normal(MEAN, LAW.covariance, 4), jnp.float32)
        played = play(untrained(), tasks, jnp.full(4, 0.01), jax.random.key(0), 50, TopK(K, 3))
        np.testing.assert_allclose(np.asarray(played.precision[-1]).sum(1) * 1e-4, 150, rtol=1e-3)
        assert np.asarray(played.regret).max() < 0.5


class TestLearning:
    TASKS = 0.5 + 0.2 * RNG.multivariate_normal(MEAN, LAW.covariance, 240)

    @pytest.mark.slow(seconds=10)
    def test_from_exact_means_by_decisions(self, tmp_path):
        how = {"network": "arms", "procedure": SHORT, "options": SMALL, "seed": 3}
        prior = learn_prior(self.TASKS, **how, checkpoint=tmp_path / "state")
        told = prior.metadata["learning"]
        assert [score["step"] for score in told["scores"]] == [50, 60, 100]
        best = min(told["scores"], key=lambda score: score["regret"])
        assert told["kept_step"] == best["step"]
        assert told["held_out_crps"] is None
        assert told["held_out_regret"] == best["regret"] > 0
        # Gaussian tasks: what was learned must not have gone far from the Gaussian.
        evidence = Evidence(np.where(np.arange(K) < 2, self.TASKS[0], np.nan), std=0.1)
        exact = Gaussian(self.TASKS.mean(0), np.cov(self.TASKS.T)).posterior(evidence)
        known = prior.marginals(evidence)
        assert np.abs((known.mean - exact.mean) / exact.std).max() < 0.5
        # A finished run that is called again learns nothing more, and says the same.
        again = learn_prior(self.TASKS, **how, checkpoint=tmp_path / "state")
        np.testing.assert_array_equal(again.marginals(evidence).mean, known.mean)

    @pytest.mark.slow(seconds=8)
    def test_from_evidence_by_decisions_among_what_was_observed(self):
        seen = RNG.random(self.TASKS.shape) < 0.6
        logged = np.where(seen, self.TASKS + 0.1 * RNG.normal(size=self.TASKS.shape), np.nan)
        prior = learn_prior(
            Evidence(logged, std=0.1), network="arms", procedure=SHORT, options=SMALL
        )
        assert prior.metadata["data"]["kind"] == "imperfect"
        assert prior.metadata["learning"]["held_out_regret"] > 0
        assert np.isfinite(prior.sample(5)).all()

    def test_what_does_not_go_together_is_refused(self):
        with pytest.raises(InvalidInputError, match="has its own"):
            learn_prior(self.TASKS, network="arms", procedure="paper")
        with pytest.raises(InvalidInputError, match="that of the network 'arms'"):
            learn_prior(self.TASKS, network="residual-mlp", procedure="arms")
        with pytest.raises(InvalidInputError, match="Gaussian below it already"):
            learn_prior(self.TASKS, network="arms", predicts="residual", procedure=SHORT)
        with pytest.raises(InvalidInputError, match="no final_steps"):
            Procedure.named("arms", final_steps=10)
        with pytest.raises(InvalidInputError, match="play_tasks"):
            Procedure.named("arms", play_tasks=0)
        with pytest.raises(InvalidInputError, match="options of arms"):
            learn_prior(self.TASKS, network="arms", procedure=SHORT, options={"wide": 3})
