"""Problems: one contract for all of them, then the structure of each.

Statistical checks compare with the exact law; tolerances are multiples of the standard error of
the statistic. Tests that need the real iPinYou data read it from ``DIFFTS_DATA_DIR``.
"""

import bz2
import csv
import dataclasses
import json
import os
import random
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffts.diffusion.networks import PREDICTIONS
from diffts.errors import InvalidInputError
from diffts.problems import PROBLEMS, Bidding, LabeledArms, get_problem
from diffts.problems.bidding import WinLoseRewards, mean_rewards, payoffs, win_rates_from_counts
from diffts.problems.groups import hide, recall_precision
from diffts.problems.ipinyou_logs import COLUMNS, EXTRA_LEADING_COLUMNS, read_slot_prices
from diffts.problems.maze import (
    DESTINATION,
    EDGES,
    IMAGE_SIDE,
    OPEN,
    PIXELS,
    SIDE,
    SOURCE,
    WALL,
    covering_paths,
    from_image,
    to_image,
)
from diffts.problems.simulated_slots import FLOORS, simulate_price_cdfs

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

    def test_rewards_have_the_stated_mean_and_variance(self, problem):
        n = 20_000
        means = problem.sample(1, seed=1)[0]
        arms = np.linspace(0, problem.n_arms - 1, 6).astype(int)
        rewards = problem.draw_rewards(
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
                return carry, jax.vmap(problem.draw_rewards)(keys, means, arms)

            return jax.lax.scan(round_, 0, jax.random.split(key, 4))[1]

        rewards = play(jax.random.key(0))
        assert rewards.shape == (4, 3, 2)
        assert rewards.dtype == jnp.float32
        np.testing.assert_array_equal(rewards, play(jax.random.key(0)))
        assert problem.draw_rewards(jax.random.key(0), means[0], jnp.array(5)).shape == ()

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
    tasks = problem.sample(300, seed=0)

    def test_arms_hold_seven_of_fifty_labels(self):
        assert self.problem.arm_labels.shape == (500, 50)
        assert (self.problem.arm_labels.sum(axis=1) == 7).all()
        assert len(np.unique(self.problem.arm_labels, axis=0)) > 490

    def test_tasks_are_scaled_together_or_each_by_itself(self):
        apart = LabeledArms(scaling="task").sample(300, seed=0)
        assert (apart.min(axis=1) == 0).all()
        assert (apart.max(axis=1) == 1).all()
        # One scale for all: undone, the two are the same up to each task's shift and stretch.
        stretched = self.tasks - self.tasks.min(axis=1, keepdims=True)
        stretched /= stretched.max(axis=1, keepdims=True)
        np.testing.assert_allclose(stretched, apart, atol=1e-5)
        assert ((self.tasks == 0) | (self.tasks == 1)).mean() < 1e-5  # hardly ever clipped
        with pytest.raises(InvalidInputError, match="scaling"):
            LabeledArms(scaling="none")

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


def reference_maze(rng):
    """The generator's rule word by word, one maze at a time: the set of open passages."""
    opened, passages = set(), set()
    stack = [(rng.randrange(SIDE), rng.randrange(SIDE))]
    while stack:
        row, column = stack.pop()
        sides = [(row, column + 1), (row, column - 1), (row + 1, column), (row - 1, column)]
        fresh = [
            cell
            for cell in sides
            if 0 <= cell[0] < SIDE and 0 <= cell[1] < SIDE and cell not in opened
        ]
        if fresh:
            chosen = rng.choice(fresh)
            opened.add(chosen)
            passages.add(frozenset([(row, column), chosen]))
            stack += [(row, column), chosen]
    return passages


class TestMaze:
    problem = get_problem("maze")
    tasks = problem.sample(6000, seed=0)
    is_open = tasks == np.float32(OPEN)

    def test_edges_join_neighbouring_cells_once(self):
        assert EDGES.shape == (180, 2)
        assert len(np.unique(EDGES, axis=0)) == 180
        (row_0, column_0), (row_1, column_1) = (np.divmod(end, SIDE) for end in EDGES.T)
        assert (np.abs(row_0 - row_1) + np.abs(column_0 - column_1) == 1).all()
        assert (row_0[:90] == row_1[:90]).all()
        assert (column_0[90:] == column_1[90:]).all()

    def test_an_edge_is_open_or_a_wall(self):
        assert set(np.unique(self.tasks)) == {np.float32(OPEN), np.float32(WALL)}

    def test_every_cell_can_be_reached(self):
        reached = np.zeros((len(self.tasks), SIDE * SIDE), bool)
        reached[:, SOURCE] = True
        for _ in range(SIDE * SIDE):
            before = reached.copy()
            for edge, (low, high) in enumerate(EDGES):
                either = (reached[:, low] | reached[:, high]) & self.is_open[:, edge]
                reached[:, low] |= either
                reached[:, high] |= either
            if (before == reached).all():
                break
        assert reached.all()

    def test_trees_or_one_loop_in_the_known_share(self):
        # A connected graph on 100 cells is a tree with 99 edges; each further edge is a loop.
        passages = self.is_open.sum(axis=1)
        assert set(np.unique(passages)) == {99, 100}
        # 0.718 ± 0.002 was measured on 40,000 mazes, 0.720 ± 0.004 with the reference above.
        error = np.hypot(np.sqrt(0.72 * 0.28 / len(passages)), 0.0022)
        assert abs((passages == 100).mean() - 0.718) < 4 * error

    def test_same_law_as_the_rule_taken_word_by_word(self):
        rng = random.Random(0)
        number_of = {frozenset(map(tuple, np.stack(np.divmod(edge, SIDE), 1).tolist())): index
                     for index, edge in enumerate(EDGES)}  # fmt: skip
        n = 1500
        reference = np.zeros((n, 180), bool)
        for maze in range(n):
            reference[maze, [number_of[passage] for passage in reference_maze(rng)]] = True

        def statistics(passages):
            degree = np.zeros((len(passages), SIDE * SIDE))
            for edge, (low, high) in enumerate(EDGES):
                degree[:, low] += passages[:, edge]
                degree[:, high] += passages[:, edge]
            corners = degree[:, [0, 9, 90, 99]].mean(axis=1)
            border = passages[:, :9].mean(axis=1)
            loops = passages.sum(axis=1) - 99
            ends, forks = (degree == 1).mean(axis=1), (degree >= 3).mean(axis=1)
            return np.stack([corners, border, loops, ends, forks], axis=1)

        ours, theirs = statistics(self.is_open), statistics(reference)
        error = np.sqrt(ours.var(axis=0) / len(ours) + theirs.var(axis=0) / len(theirs))
        assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < STANDARD_ERRORS * error).all()

    def test_thousands_of_mazes_take_seconds(self):
        start = time.perf_counter()
        self.problem.split()
        assert time.perf_counter() - start < 5.0

    def test_image_round_trip_and_background(self):
        images = to_image(self.tasks[:6].reshape(2, 3, 180))
        assert images.shape == (2, 3, 20, 20)
        np.testing.assert_array_equal(from_image(images), self.tasks[:6].reshape(2, 3, 180))
        assert np.allclose(images[..., :19:2, :19:2], OPEN)  # cells
        assert (images[..., 1:19:2, 1:19:2] == WALL).all()  # pillars
        assert (images[..., 19, :] == WALL).all()
        assert (images[..., :, 19] == WALL).all()
        row, column = 3, 4
        one_edge = np.zeros(180)
        one_edge[9 * row + column] = 5.0  # from (3, 4) to (3, 5)
        assert np.argwhere(to_image(one_edge) == 5.0).tolist() == [[6, 9]]

    def test_network_hint_fits_the_image(self):
        options = self.problem.suggested_network.options
        image = np.array(options["background"])
        assert len(image) == options["height"] * options["width"] == IMAGE_SIDE**2
        image[list(options["pixels"])] = self.tasks[0]
        np.testing.assert_allclose(image.reshape(20, 20), to_image(self.tasks[0]), rtol=1e-6)
        np.testing.assert_array_equal(options["pixels"], PIXELS)

    def test_images_of_other_shapes_are_refused(self):
        with pytest.raises(InvalidInputError, match=r"^values: "):
            to_image(np.zeros(181))
        with pytest.raises(InvalidInputError, match=r"^image: "):
            from_image(np.zeros((19, 19)))

    def test_covering_paths_are_simple_paths_that_use_every_edge(self):
        paths = covering_paths()
        assert paths.shape == (2, 180)
        assert paths.dtype == bool
        assert paths.any(axis=0).all()
        for used in paths:
            ends_at = {}
            for low, high in EDGES[used].tolist():
                ends_at.setdefault(low, []).append(high)
                ends_at.setdefault(high, []).append(low)
            visited = [SOURCE]
            while visited[-1] != DESTINATION:
                onward = [cell for cell in ends_at[visited[-1]] if cell not in visited[-2:-1]]
                assert len(onward) == 1
                visited.append(onward[0])
            assert len(visited) == len(set(visited)) == used.sum() + 1


class TestSimulatedBidding:
    problem = get_problem("bidding")
    tasks = problem.sample(1000, seed=0)
    wins = tasks / payoffs()

    def test_says_that_it_is_simulated(self):
        assert self.problem.is_simulated
        assert "simulated" in self.problem.source

    def test_means_are_payoff_times_a_distribution_function(self):
        assert self.tasks.shape == (1000, 300)
        assert (np.diff(self.wins, axis=1) > -1e-6).all()
        assert self.wins.min() >= 0
        assert self.wins.max() <= 1 + 1e-6

    def test_prices_start_at_the_floor(self):
        cdfs = simulate_price_cdfs(500, np.random.default_rng(0))
        first = (cdfs > 0).argmax(axis=1)
        assert set(first.tolist()) <= {5, *FLOORS.tolist()}
        # The floor with its highest mark-up: in some slots nobody bids more, in others everybody.
        at_floor = cdfs[np.arange(500), first * 110 // 100]
        assert at_floor.min() < 0.02
        assert at_floor.max() > 0.98

    def test_slots_differ_as_the_real_ones_do(self):
        # E[price] = Σ_b P(price > b); the real slots' 5%, 50% and 95% quantiles, roughly.
        mean_price = (1 - np.clip(self.wins, 0, 1)).sum(axis=1)
        low, middle, high = np.quantile(mean_price, [0.05, 0.5, 0.95])
        assert abs(low - 20) < 10
        assert abs(middle - 68) < 15
        assert abs(high - 178) < 30

    def test_rewards_are_nothing_or_the_payoff(self):
        arms = jnp.arange(300)
        rewards = np.asarray(WinLoseRewards()(jax.random.key(0), jnp.asarray(self.tasks[0]), arms))
        won = rewards > 0
        np.testing.assert_allclose(rewards[won], payoffs()[won], rtol=1e-6)
        assert not won[self.tasks[0] == 0].any()

    def test_certain_wins_and_losses(self):
        arms = jnp.tile(jnp.arange(300), (200, 1))
        always = WinLoseRewards()(jax.random.key(0), jnp.asarray(payoffs()), arms)
        np.testing.assert_allclose(always.mean(axis=0), payoffs(), rtol=1e-5)
        assert not WinLoseRewards()(jax.random.key(0), jnp.zeros(300), arms).any()


# Two slots with known prices; a third is unknown, a fourth too rare.
PRICES = {"slot_a": [20] * 6 + [70] * 2, "slot_b": [0, 299, 300, 5], "null": [1] * 9, "rare": [9]}


def log_rows(extra=False):
    rows = []
    for slot, prices in PRICES.items():
        for number, price in enumerate(prices):
            row = dict.fromkeys(COLUMNS, "x")
            row |= {"bidid": f"{slot}{number}", "slotid": slot, "payprice": str(price)}
            leading = ["0", "2", "13"] if extra else []
            rows.append([*leading, *(row[name] for name in COLUMNS)])
    random.Random(0).shuffle(rows)
    return rows


def as_text(rows):
    return "".join("\t".join(row) + "\n" for row in rows)


def write_original(folder):
    (folder / "imp.20130606.txt").write_text(as_text(log_rows()))


def write_original_bz2(folder):
    rows = log_rows()
    (folder / "imp.20130606.txt.bz2").write_bytes(bz2.compress(as_text(rows[:7]).encode()))
    (folder / "deeper").mkdir()
    rest = bz2.compress(as_text(rows[7:]).encode())
    (folder / "deeper" / "imp.20130607.txt.bz2").write_bytes(rest)


def write_with_leading_columns(folder):
    (folder / "train.log.txt").write_text(as_text(log_rows(extra=True)))


def write_with_header(folder):
    header = [EXTRA_LEADING_COLUMNS + COLUMNS]
    (folder / "train.log.txt").write_text(as_text(header + log_rows(extra=True)))


def write_windows_line_ends(folder):
    (folder / "imp.txt").write_bytes(as_text(log_rows()).replace("\n", "\r\n").encode())


def write_csv(folder):
    with open(folder / "prices.csv", "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["payprice", "note", "slotid"])
        writer.writerows([price, 'a, "b"', slot] for slot in PRICES for price in PRICES[slot])


WRITERS = [
    write_original,
    write_original_bz2,
    write_with_leading_columns,
    write_with_header,
    write_windows_line_ends,
    write_csv,
]


class TestRealLogs:
    @pytest.mark.parametrize("write", WRITERS)
    def test_every_layout_gives_the_same_slots(self, tmp_path, write):
        write(tmp_path)
        found = read_slot_prices(tmp_path, min_prices=4)
        assert found.slots == ("slot_a", "slot_b")
        assert found.counts.shape == (2, 301)
        expected = [np.bincount(PRICES[slot], minlength=301) for slot in found.slots]
        np.testing.assert_array_equal(found.counts, expected)
        assert read_slot_prices(tmp_path, min_prices=1).slots == ("rare", "slot_a", "slot_b")

    def test_a_single_file_can_be_named(self, tmp_path):
        write_original(tmp_path)
        assert Bidding.from_logs(str(tmp_path / "imp.20130606.txt"), 8).win_rates.shape == (1, 300)

    def test_other_files_in_the_folder_are_left_alone(self, tmp_path):
        write_original(tmp_path)
        write_csv(tmp_path)  # would count the same auctions again
        (tmp_path / "NOTES.txt").write_text("Logs of won auctions.\nSee\tthere.\n")
        (tmp_path / "clk.20130606.txt").write_text(as_text(log_rows()))
        (tmp_path / "bid.20130606.txt").write_text("21\tcolumns\tand\tno\tprice\n")
        assert read_slot_prices(tmp_path, min_prices=1).counts.sum() == 8 + 4 + 1

    def test_means_of_a_known_slot(self, tmp_path):
        write_original(tmp_path)
        problem = Bidding.from_logs(tmp_path, min_prices=8)
        assert not problem.is_simulated
        assert problem.source == f"1 real ad slots from {tmp_path.name}"
        means = problem.sample(1, seed=0)[0]
        bids = np.arange(300)
        wins = np.where(bids >= 70, 1.0, np.where(bids >= 20, 6 / 8, 0.0))
        np.testing.assert_allclose(means, wins * (300 - bids) / 300, rtol=1e-6)

    def test_a_price_of_300_or_more_is_never_won(self):
        counts = np.zeros((1, 301))
        counts[0, [0, 300]] = 1, 3
        assert (win_rates_from_counts(counts) == 1 / 4).all()

    def test_prices_above_300_count_as_300(self, tmp_path):
        rows = [row for row in log_rows() if "slot_a" in row]
        rows[0][COLUMNS.index("payprice")] = "1234"
        (tmp_path / "imp.txt").write_text(as_text(rows))
        assert read_slot_prices(tmp_path, min_prices=1).counts[0, 300] == 1

    def test_a_folder_without_logs(self, tmp_path):
        with pytest.raises(InvalidInputError, match="has no iPinYou logs"):
            Bidding.from_logs(tmp_path)
        (tmp_path / "NOTES.txt").write_text("nothing here\n")
        with pytest.raises(InvalidInputError, match="has no iPinYou logs"):
            Bidding.from_logs(tmp_path)
        with pytest.raises(InvalidInputError, match="no file or folder"):
            Bidding.from_logs(tmp_path / "absent")
        (tmp_path / "prices.parquet").write_bytes(b"PAR1")
        with pytest.raises(InvalidInputError, match=r"not a \.txt, \.txt\.bz2 or \.csv file"):
            Bidding.from_logs(tmp_path / "prices.parquet")

    def test_a_missing_column(self, tmp_path):
        (tmp_path / "imp.txt").write_text(as_text([row[:-1] for row in log_rows()]))
        with pytest.raises(InvalidInputError, match=r"has 23 columns, expected 24 or 27"):
            Bidding.from_logs(tmp_path)

    @pytest.mark.parametrize("name", ["slotid", "payprice"])
    def test_a_missing_named_column(self, tmp_path, name):
        header = [column for column in EXTRA_LEADING_COLUMNS + COLUMNS if column != name]
        (tmp_path / "a.log.txt").write_text("\t".join(header) + "\n")
        with pytest.raises(InvalidInputError, match=f"has no column {name}"):
            Bidding.from_logs(tmp_path)
        other = "payprice" if name == "slotid" else "slotid"
        (tmp_path / "a.csv").write_text(f"{other},bidid\n1,2\n")
        with pytest.raises(InvalidInputError, match=f"has no column {name}"):
            Bidding.from_logs(tmp_path / "a.csv")

    def test_a_short_row_is_named(self, tmp_path):
        rows = log_rows()
        rows[3] = rows[3][:20]
        (tmp_path / "imp.txt").write_text(as_text(rows))
        with pytest.raises(InvalidInputError, match="line 4: 20 columns, expected 24"):
            Bidding.from_logs(tmp_path)

    @pytest.mark.parametrize("price", ["-1", "free", "", "1.5", "1_0"])
    def test_a_price_that_is_no_number_is_named(self, tmp_path, price):
        rows = [row for row in log_rows() if "null" not in row]
        rows[2][COLUMNS.index("payprice")] = price
        (tmp_path / "imp.txt").write_text(as_text(rows))
        with pytest.raises(InvalidInputError, match=r"line 3: payprice .* is not a whole number"):
            Bidding.from_logs(tmp_path)

    def test_a_damaged_archive(self, tmp_path):
        packed = bz2.compress(as_text(log_rows() * 50).encode())
        (tmp_path / "imp.txt.bz2").write_bytes(packed[: len(packed) // 2])
        with pytest.raises(InvalidInputError, match="cannot read"):
            Bidding.from_logs(tmp_path, min_prices=1)
        (tmp_path / "imp.txt.bz2").write_text("not packed at all")
        with pytest.raises(InvalidInputError, match="cannot read"):
            Bidding.from_logs(tmp_path, min_prices=1)

    def test_too_few_prices(self, tmp_path):
        write_original(tmp_path)
        with pytest.raises(InvalidInputError, match=r"none of 3 slot\(s\).* the most is 8"):
            Bidding.from_logs(tmp_path)
        with pytest.raises(InvalidInputError, match=r"^min_prices: "):
            Bidding.from_logs(tmp_path, min_prices=0)


class TestRealSlots:
    """A set of real slots is finite: tasks are dealt out without replacement."""

    rates = np.cumsum(np.random.default_rng(0).dirichlet(np.ones(301), size=30), axis=1)[:, :300]
    problem = Bidding(rates.clip(0, 1), source="30 made-up slots")

    def test_no_slot_is_in_two_sets(self):
        sets = self.problem.split(train=15, calibration=10, test=5, seed=1)
        assert [len(tasks) for tasks in sets] == [15, 10, 5]
        dealt = np.concatenate(sets)
        assert len(np.unique(dealt, axis=0)) == 30
        everything = mean_rewards(self.problem.win_rates)
        np.testing.assert_array_equal(np.unique(dealt, axis=0), np.unique(everything, axis=0))

    def test_the_test_set_does_not_depend_on_the_rest(self):
        small = self.problem.split(train=2, calibration=2, test=5, seed=1)
        large = self.problem.split(train=15, calibration=10, test=5, seed=1)
        np.testing.assert_array_equal(small.test, large.test)

    def test_too_few_slots(self):
        with pytest.raises(InvalidInputError, match="1352 tasks asked for, but there are only 30"):
            self.problem.split()
        with pytest.raises(InvalidInputError, match="31 tasks asked for, but there are only 30"):
            self.problem.sample(31, seed=0)

    def test_win_rates_are_checked(self):
        with pytest.raises(InvalidInputError, match="never fall"):
            Bidding(self.rates[:, ::-1])
        with pytest.raises(InvalidInputError, match="expected shape"):
            Bidding(self.rates[:, :299])


DATA = os.environ.get("DIFFTS_DATA_DIR")


@pytest.mark.skipif(not DATA, reason="DIFFTS_DATA_DIR (folder of the real data) is not set")
class TestRealData:
    folder = Path(DATA or ".")

    def test_merged_csv_has_ninety_slots_with_fifty_prices(self):
        problem = Bidding.from_logs(self.folder / "ipinyou_slots" / "merged_slot_prices.csv", 50)
        assert problem.win_rates.shape == (90, 300)
        mean_prices = (1 - problem.win_rates).sum(axis=1)
        assert mean_prices.min() == pytest.approx(7.5, abs=0.1)
        assert mean_prices.max() == pytest.approx(214.6, abs=0.1)

    def test_log_in_the_original_columns(self):
        found = read_slot_prices(self.folder / "ipinyou_slots", min_prices=1)
        assert found.counts.sum() == 8355

    def test_simulated_prices_resemble_the_campaigns(self):
        counts = np.zeros(301)
        for campaign in (1458, 3358, 3386, 3427, 3476):
            info = self.folder / "ipinyou_campaigns" / f"{campaign}.info.json"
            counts += json.loads(info.read_text())["price_counter_train"]
        cdf = simulate_price_cdfs(4000, np.random.default_rng(0)).mean(axis=0)
        real_cdf = np.cumsum(counts / counts.sum())
        assert np.abs(cdf - real_cdf).sum() < 4.0  # Wasserstein-1, in units of price
        assert 0.5 * np.abs(np.diff(cdf - real_cdf, prepend=0)).sum() < 0.16
