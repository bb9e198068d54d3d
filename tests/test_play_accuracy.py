"""Accuracy after play: what is said of draws, and that exact ones have no error but chance."""

import jax
import numpy as np
import pytest

from diffts.experiments.denoiser_excess import excess_by_step
from diffts.experiments.play_accuracy import (
    Beliefs,
    draw_many,
    errors,
    exact_draws,
    exact_moments,
    histories,
    measure_after_play,
)
from diffts.problems import PopularNiche
from diffts.problems.popular_niche_exact import ExactPopularNicheBelief
from diffts.problems.popular_niche_prior import exact_prior

GROUP = PopularNiche.group_of_arm


@pytest.fixture(scope="module")
def prior():
    return exact_prior(draws=2)


def test_what_is_said_of_draws():
    draws = np.zeros((4, 200))
    first, second = np.flatnonzero(GROUP == 3)[:2]
    draws[0, first] = draws[1, first] = 1.0
    draws[1, second] = 1.0  # equals share
    draws[2, first], draws[3, second] = 0.4, 0.9
    found = Beliefs.of([draws, draws[::-1]])
    np.testing.assert_allclose(found.best[0, [first, second]], [2.5 / 4, 1.5 / 4])
    np.testing.assert_allclose(found.groups[1], np.where(np.arange(40) == 3, 0.75, 0.0))
    np.testing.assert_allclose(found.mean[0, first], 0.6)
    np.testing.assert_allclose(found.sd[1], draws.std(0))
    assert errors(found, found) == dict.fromkeys(
        ("mean_error", "sd_error", "group_error", "best_error"), 0.0
    )


def test_errors_are_counted_in_exact_deviations():
    draws = np.random.default_rng(0).random((50, 200))
    exact = Beliefs.of([draws])
    found = errors(Beliefs.of([draws + 0.01]), exact)
    assert found["mean_error"] == pytest.approx(np.sqrt(np.mean((0.01 / draws.std(0)) ** 2)))
    assert found["sd_error"] == pytest.approx(0.0, abs=1e-9)
    flipped = errors(Beliefs.of([1.0 - draws]), exact)
    assert flipped["best_error"] > 0.5


def test_histories_grow_with_the_rounds():
    played = histories(2, (3, 20), seed=0)
    for rounds, states in played.items():
        np.testing.assert_array_equal(states.history.counts.sum(1), [rounds, rounds])
        np.testing.assert_array_equal(states.history.rounds, [rounds, rounds])
    assert (played[20].history.counts >= played[3].history.counts).all()
    tasks = PopularNiche().development(2, seed=0)
    seen = np.asarray(played[20].history.counts) > 0
    missed = (np.asarray(played[20].history.means) - tasks)[seen]
    deviations = missed * np.sqrt(np.asarray(played[20].history.counts)[seen]) / 0.1
    assert np.abs(deviations).max() < 4.5  # rewards of the task that they are said to be of


def test_merged_draws_with_the_exact_denoiser_have_the_exact_moments(prior):
    """After 20 rounds of play, 20 steps: the mean of each arm and the chance of each group."""
    n, belief = 1000, ExactPopularNicheBelief()
    state = jax.tree.map(lambda leaf: leaf[0], histories(1, (20,), seed=1)[20])
    evidence = state.history.evidence(belief.noise_std(state))
    mean, sd = (np.asarray(a, np.float64) for a in exact_moments(belief, state))
    drawn = Beliefs.of([draw_many(prior, evidence, jax.random.key(0), n, "merged", 20)])
    # 5% of an sd for the short chain, 0.01 where an sd is nearly 0.
    tolerance = (0.05 + 4.5 / np.sqrt(n)) * np.maximum(sd, 0.01)
    assert (np.abs(drawn.mean[0] - mean) < tolerance).all()
    exact = Beliefs.of([exact_draws(belief, state, jax.random.key(1), 4 * n)])
    chance = exact.groups[0]
    noise = np.sqrt(np.maximum(chance * (1 - chance), 1 / n) * (1 / n + 1 / (4 * n)))
    assert (np.abs(drawn.groups[0] - chance) < 0.02 + 4.5 * noise).all()


def test_the_exact_denoiser_has_no_excess(prior):
    for row in excess_by_step(prior, steps=(2, 40), tasks=20):
        assert row["exact_tau"] == row["learned_tau"]
        assert (row["excess"], row["excess_stderr"]) == (0.0, 0.0)


@pytest.mark.parametrize("wrong", [{"steps": 101}, {"samples": 1}, {"samplers": ["gibbs"]}])
def test_what_cannot_be_measured_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong)).rstrip("s")):
        next(measure_after_play(**wrong))
