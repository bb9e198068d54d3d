"""What goes side by side gives what it gives one by one."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffts import DiffusionPrior, InvalidInputError
from diffts.bandits.policies import UCB1, DiffTS, MixtureTS, Uniform
from diffts.bandits.simulate import simulate, simulate_side_by_side
from diffts.diffusion import Gaussian
from diffts.diffusion.networks.convolution import convolve
from diffts.learning import (
    PROCEDURES,
    Lesson,
    OurProcedure,
    TrainingConfig,
    fit_start,
    learn_prior,
    learn_priors,
)
from diffts.problems import Corruption, GaussianRewards
from diffts.stacking import layout, stack, unstack

RNG = np.random.default_rng(0)
TASKS = RNG.standard_normal((40, 6)).cumsum(1)
OTHER = RNG.standard_normal((20, 6)).cumsum(1)
MLP = {"network": "residual-mlp", "options": {"width": 16, "n_blocks": 1, "embedding_size": 8}}
UNET = {"network": "unet-1d", "options": {"channels": (4,), "embedding_size": 8}}


def assert_same(one, other, tolerance=2e-4):
    """The same weights and errors but for rounding, which Adam's division can magnify."""
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    for a, b in leaves:
        if eqx.is_inexact_array(a):
            np.testing.assert_allclose(a, b, atol=tolerance, rtol=tolerance)


# The last block is a shorter one, and compiled for itself: once is enough.
@pytest.mark.slow
@pytest.mark.parametrize(("network", "steps"), [(MLP, 7), (UNET, 6)], ids=["mlp", "unet"])
def test_trainings_side_by_side_are_the_trainings_one_by_one(network, steps):
    config = TrainingConfig(steps=steps, block=3, batch_size=8, ema_decay=0.9, ema_every=2)
    lessons = [Lesson(TASKS, OTHER, config=config, seed=seed) for seed in (0, 5)]
    together = learn_priors(lessons, **network)
    for seed, prior in zip((0, 5), together, strict=True):
        assert_same(prior, learn_prior(TASKS, OTHER, seed=seed, config=config, **network))
    assert not np.allclose(together[0].tau, together[1].tau)


@pytest.mark.parametrize(
    ("stop", "every", "done"),
    # Of six steps in blocks of two. An interrupt keeps the last state, an error what was saved.
    [(KeyboardInterrupt, 6, [2, 4, 6]), (RuntimeError, 2, [2, 4, 4, 6])],
)
def test_a_stopped_training_side_by_side_goes_on_from_its_states(tmp_path, stop, every, done):
    config = TrainingConfig(steps=6, block=2, batch_size=8)
    lessons = [Lesson(TASKS, OTHER, config=config, seed=seed) for seed in (0, 5)]
    how = {"checkpoints": [tmp_path / "0", tmp_path / "5"], "checkpoint_every": every, **MLP}
    told = []

    def stop_at_four(now):
        told.append(now.done)
        if now.done == 4:
            raise stop

    with pytest.raises(stop):
        learn_priors(lessons, on_progress=stop_at_four, **how)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "5"]
    again = learn_priors(lessons, on_progress=lambda now: told.append(now.done), **how)
    assert told == done
    for one, other in zip(again, learn_priors(lessons, **MLP), strict=True):
        assert_same(one, other, 0.0)


def test_each_lesson_has_a_checkpoint_of_its_own(tmp_path):
    with pytest.raises(InvalidInputError, match="checkpoints: one for each of 1 lessons, got 2"):
        learn_priors([Lesson(TASKS, OTHER)], checkpoints=[tmp_path / "0", tmp_path / "1"])


# One set of data and of sizes for all lessons, so that their programs are compiled once.
SEEN = Corruption().observe(TASKS, 1), Corruption().observe(OTHER, 2)
SHORT = {
    "warmup_steps": 8, "rounds": 1, "inner_steps": 4, "score_every": 4,
    "training": TrainingConfig(batch_size=8, block=4),
}  # fmt: skip
PAPER = dataclasses.replace(PROCEDURES["paper"], **SHORT)


@pytest.mark.slow
def test_lessons_side_by_side_are_the_lessons_one_by_one():
    seen, paper = SEEN, PAPER
    ours = OurProcedure(sampler_steps=5, **SHORT)
    less = dataclasses.replace(paper, sure=0.0)
    fitted = fit_start(*seen)  # what lessons would fit themselves
    lessons = [Lesson(*seen, ours), Lesson(*seen, ours, seed=3, start=fitted),
               Lesson(*seen, paper), Lesson(*seen, less)]  # fmt: skip
    ended = []
    together = learn_priors(
        lessons, on_phase=lambda number, phase, _: ended.append((number, phase)), **MLP
    )
    for lesson, prior in zip(lessons, together, strict=True):
        alone = learn_prior(*seen, procedure=lesson.procedure, seed=lesson.seed, **MLP)
        assert_same(prior, alone, 2e-3)
    assert sorted(ended) == [(i, name) for i in range(4) for name in ("round 1", "warm-up")]


@pytest.mark.slow
def test_the_prior_of_a_phase_is_that_of_a_shorter_procedure():
    """How the third image model is had: the one before it is kept on the way."""
    longer = dataclasses.replace(PAPER, rounds=2, inner_steps=(4, 4), sure=(0.1, 0.1, 1.0))
    kept = {}
    learn_priors(
        [Lesson(*SEEN, longer)], on_phase=lambda _, phase, prior: kept.update({phase: prior}), **MLP
    )
    shorter = dataclasses.replace(PAPER, sure=0.1)
    alone = learn_prior(*SEEN, procedure=shorter, **MLP)
    assert_same(kept["round 1"], alone, 2e-3)


@pytest.mark.slow
def test_a_repeat_can_draw_some_of_the_tasks():
    some = dataclasses.replace(PAPER, tasks_per_round=10)
    few, many = (learn_prior(*SEEN, procedure=p, **MLP) for p in (some, PAPER))
    assert not np.allclose(few.tau, many.tau)
    assert np.isfinite(few.tau).all()


def test_convolutions_with_several_weights_and_their_gradients():
    x = jnp.asarray(RNG.standard_normal((3, 2, 5, 4, 2)), jnp.float32)
    weight = jnp.asarray(RNG.standard_normal((3, 3, 3, 2, 4)), jnp.float32)

    def loss(x, weight):
        return jnp.sum(jnp.sin(convolve(x, weight)))

    together = jax.vmap(jax.value_and_grad(loss, argnums=(0, 1)))(x, weight)
    for i in range(3):
        alone = jax.value_and_grad(loss, argnums=(0, 1))(x[i], weight[i])
        for a, b in zip(jax.tree.leaves(alone), jax.tree.leaves(together), strict=True):
            np.testing.assert_allclose(a, b[i], rtol=1e-4, atol=1e-4)


def gaussian_priors():
    return [DiffusionPrior.gaussian(np.full(5, m), s * np.eye(5)) for m, s in ((0, 1), (1, 0.2))]


def policies(kind):
    if kind == "diffts":
        return [DiffTS(p, s, steps=4) for p in gaussian_priors() for s in (0.1, 0.3)]
    if kind == "mixture":
        return [MixtureTS(Gaussian(np.zeros(5), s * np.eye(5)), 0.1) for s in (1.0, 0.1)]
    return [UCB1(5, s) for s in (0.1, 0.5)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["diffts", "mixture", "ucb1"])
def test_simulations_side_by_side_are_the_simulations_one_by_one(kind):
    tasks = np.random.default_rng(1).random((7, 5))
    # The last rounds are a shorter block, and compiled for itself: once is enough.
    horizon, seeds = 25 if kind == "ucb1" else 20, [3, 4, 3, 4][: len(policies(kind))]
    settings = {"horizon": horizon, "record_every": 10}
    rewards = GaussianRewards(std=0.1)
    together = simulate_side_by_side(policies(kind), tasks, rewards, seeds=seeds, **settings)
    assert len({run.regret[-1].sum() for run in together}) == len(together)
    for policy, seed, run in zip(policies(kind), seeds, together, strict=True):
        alone = simulate(policy, tasks, rewards, seed=seed, **settings)
        np.testing.assert_array_equal(run.rounds, alone.rounds)
        np.testing.assert_array_equal(run.chosen, alone.chosen)
        np.testing.assert_allclose(run.regret, alone.regret, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(run.simple_regret, alone.simple_regret, atol=1e-5)
        # Of 64 draws; a tie that rounding decides is one of them.
        np.testing.assert_allclose(run.chance_right, alone.chance_right, atol=1.5 / 64)


def test_only_policies_of_one_kind_go_side_by_side():
    tasks = np.zeros((2, 5))
    for given in ([UCB1(5, 0.1), Uniform(5)], []):
        with pytest.raises(InvalidInputError, match="policies"):
            simulate_side_by_side(given, tasks, GaussianRewards(std=0.1), horizon=2)
    given, rewards = [UCB1(5, 0.1), UCB1(5, 0.5)], GaussianRewards(std=0.1)
    with pytest.raises(InvalidInputError, match="seeds: 1 for 2"):
        simulate_side_by_side(given, tasks, rewards, horizon=2, seeds=[0])


def test_trees_are_stacked_and_unstacked():
    trees = [{"a": jnp.full(2, float(i)), "b": "static"} for i in range(3)]
    stacked = stack(trees)
    assert stacked["a"].shape == (3, 2)
    assert stacked["b"] == "static"
    for tree, again in zip(trees, unstack(stacked, 3), strict=True):
        np.testing.assert_array_equal(tree["a"], again["a"])
    assert layout(trees[0]) == layout(trees[1])
    assert layout(trees[0]) != layout({"a": jnp.zeros(3), "b": "static"})
