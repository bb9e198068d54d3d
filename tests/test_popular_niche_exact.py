"""The exact posterior of Popular and Niche, against the float64 enumeration beside these tests."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from scipy.stats import truncnorm

from diffts.bandits import History, Policy, simulate
from diffts.bandits.rules import TopTwoRule
from diffts.problems import PopularNiche
from diffts.problems.popular_niche_exact import (
    ExactPopularNicheBelief,
    GroupLaw,
    draw_groups,
    group_chances,
    group_law,
)
from diffts.problems.truncated_gaussian import Truncated
from popular_niche_oracle import (
    N_GROUPS_OF_A_KIND,
    Enumerated,
    ExactThompson,
    chances_by_enumeration,
    subsets,
)

NOISE = 0.1
PROBLEM = PopularNiche()
BELIEF = ExactPopularNicheBelief(NOISE)
ORACLE = ExactThompson(PROBLEM, NOISE)
# A popular arm at its cap and a niche arm at its own, both in one task.
TASK = PROBLEM.sample(20, seed=3)[np.argmax(PROBLEM.sample(20, seed=3).max(1) == 1.0)]
AT_NICHE_CAP = int(np.argmax(TASK == 1.0))
AT_POPULAR_CAP = int(np.argmax(np.where(PROBLEM.is_niche, 0.0, TASK) == np.float32(0.95)))


def pulls_of(name):
    """Pulls of each arm of the task, in a history of that name."""
    counts, rng = np.zeros(200), np.random.default_rng(5)
    if name == "a few":
        counts[rng.choice(200, 12, replace=False)] = 1
    elif name == "one niche arm 300 times":
        counts[AT_NICHE_CAP] = 300
    elif name == "a popular arm at its cap":
        counts[AT_POPULAR_CAP] = 40
    elif name == "a whole game":
        counts += rng.multinomial(150, np.full(200, 1 / 200))
        counts[AT_NICHE_CAP] += 850
    return counts


NAMES = ("none", "a few", "one niche arm 300 times", "a popular arm at its cap", "a whole game")


def history_of(name):
    """The history as numbers ``(counts, sums)``, and as a state of the belief."""
    counts, rng = pulls_of(name), np.random.default_rng(7)
    sums = counts * TASK + np.sqrt(counts) * NOISE * rng.standard_normal(200)
    sums = sums.astype(np.float32).astype(np.float64)  # the same rewards for both
    history = History(
        jnp.asarray(counts, jnp.float32),
        jnp.asarray(sums, jnp.float32),
        jnp.zeros(200),
        jnp.int32(counts.sum()),
    )
    return counts, sums, BELIEF.resume(history)


POSTERIOR = jax.jit(lambda state: BELIEF.posterior(state))
NO_DRAWS = jnp.zeros((0, 200))
MOMENTS = jax.jit(lambda state: BELIEF.moments(state, NO_DRAWS))
ESTIMATE = jax.jit(lambda state: BELIEF.estimate(state, NO_DRAWS))
DRAWS = 4000
DRAW = jax.jit(lambda key, state: BELIEF.draw(key, state, DRAWS))


def most_by_chance(variance, draws, comparisons, bound=1.0):
    """What the mean of draws in an interval of this length may err by, in all comparisons.

    Bernstein's inequality, so that rare values are allowed for; at a chance of 1e-6.
    """
    logs = np.log(2 * comparisons / 1e-6)
    return np.sqrt(2 * variance * logs / draws) + bound * logs / (3 * draws)


# --- one history -----------------------------------------------------------------------------


def test_the_task_has_arms_at_both_caps():
    assert TASK[AT_NICHE_CAP] == 1.0
    assert PROBLEM.is_niche[AT_NICHE_CAP]
    assert TASK[AT_POPULAR_CAP] == np.float32(0.95)
    assert not PROBLEM.is_niche[AT_POPULAR_CAP]


@pytest.mark.parametrize("name", NAMES)
def test_the_evidence_of_each_arm_is_the_enumerations(name):
    counts, sums, state = history_of(name)
    enumerated, posterior = Enumerated(ORACLE, counts, sums), POSTERIOR(state)
    # The log density of the mean reward at its own peak is left out.
    peak = np.where(counts > 0, 0.5 * np.log(np.maximum(counts, 1) / (2 * np.pi * NOISE**2)), 0.0)
    expected = np.stack([enumerated.log_low, enumerated.log_high]) - peak
    np.testing.assert_allclose(posterior.arms.log_evidence, expected, rtol=1e-5, atol=1e-4)
    for row, (total, logs, *_) in enumerate(enumerated.parts):
        chances = np.exp(logs - total)[:, 0]
        np.testing.assert_allclose(posterior.arms.chances[:, row], chances, atol=1e-4)
    np.testing.assert_allclose(posterior.high_if_chosen, enumerated.high_if_chosen, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_the_chance_of_each_group_is_the_enumerations(name):
    counts, sums, state = history_of(name)
    chances = group_chances(POSTERIOR(state).groups)
    np.testing.assert_allclose(chances, Enumerated(ORACLE, counts, sums).groups, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_means_and_deviations_are_in_closed_form(name):
    counts, sums, state = history_of(name)
    mean, std = MOMENTS(state)
    expected_mean, expected_std, _ = Enumerated(ORACLE, counts, sums).moments()
    np.testing.assert_allclose(mean, expected_mean, atol=1e-4)
    np.testing.assert_allclose(std, expected_std, atol=1e-4)
    np.testing.assert_allclose(ESTIMATE(state), expected_mean, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_draws_have_the_moments_and_the_atoms_of_the_posterior(name):
    counts, sums, state = history_of(name)
    draws = np.asarray(DRAW(jax.random.key(1), state), np.float64)
    mean, std, at_cap = Enumerated(ORACLE, counts, sums).moments()
    caps = np.asarray(BELIEF.caps)
    assert draws.min() >= 0.0
    assert (draws <= caps).all()
    error = np.abs(draws.mean(0) - mean)
    assert (error <= most_by_chance(std**2, DRAWS, 200)).all()
    squares = (draws - mean) ** 2
    error = np.abs(squares.mean(0) - std**2)
    assert (error <= most_by_chance(squares.var(0), DRAWS, 200)).all()
    error = np.abs((draws == caps).mean(0) - at_cap)
    assert (error <= most_by_chance(at_cap * (1 - at_cap), DRAWS, 200)).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["none", "a whole game"])
def test_draws_are_jointly_those_of_the_enumeration(name):
    """The best value of a draw, its arm's kind, and the number of good arms: all arms at once."""
    counts, sums, state = history_of(name)
    ours = np.asarray(DRAW(jax.random.key(2), state), np.float64)
    rng, repeated = np.random.default_rng(2), (100, 200)
    theirs = np.concatenate(
        [
            ORACLE.draw(np.broadcast_to(counts, repeated), np.broadcast_to(sums, repeated), rng)
            for _ in range(10)
        ]
    )

    def summary(draws):
        return np.stack(
            [
                draws.max(1),
                PROBLEM.is_niche[draws.argmax(1)],
                (draws[:, PROBLEM.is_niche] > 0.6).sum(1) / 15,
                (draws[:, ~PROBLEM.is_niche] > 0.4).sum(1) / 100,
                ((draws[:, PROBLEM.is_niche] > 0.6).sum(1) / 15) ** 2,
            ]
        )

    ours, theirs = summary(ours), summary(theirs)
    error = np.abs(ours.mean(1) - theirs.mean(1))
    allowed = most_by_chance(ours.var(1), ours.shape[1], 5)
    allowed += most_by_chance(theirs.var(1), theirs.shape[1], 5)
    assert (error <= allowed).all()


def test_quantiles_are_those_of_draws():
    state, draws = BELIEF.init(), np.random.default_rng(0).random((50, 200), np.float32)
    quantile = BELIEF.quantile(state, jnp.float32(0.9), jnp.asarray(draws))
    np.testing.assert_allclose(quantile, np.quantile(draws, 0.9, axis=0), atol=1e-5)


@pytest.mark.parametrize("reward", [-0.1, 1.1])
def test_rewards_beyond_all_belief_give_finite_draws(reward):
    """A hundred noise levels beyond what any mean can explain: the nearest mean, then."""
    counts = jnp.where(jnp.arange(200) == AT_NICHE_CAP, 1e4, 0.0)
    state = BELIEF.resume(History(counts, counts * reward, jnp.zeros(200), jnp.int32(1e4)))
    draws, (mean, std) = DRAW(jax.random.key(0), state), MOMENTS(state)
    assert all(jnp.isfinite(found).all() for found in (draws, mean, std))
    nearest = np.clip(reward, 0.0, 1.0)
    np.testing.assert_allclose(draws[:, AT_NICHE_CAP], nearest, atol=1e-3)
    np.testing.assert_allclose(mean[AT_NICHE_CAP], nearest, atol=1e-3)


# --- which groups, any odds ------------------------------------------------------------------


def random_odds(spread):
    log_odds = spread * np.random.default_rng(0).standard_normal((2, N_GROUPS_OF_A_KIND))
    return log_odds, group_law(jnp.asarray(log_odds, jnp.float32), BELIEF.log_sizes)


@pytest.mark.parametrize("spread", [0.0, 1.0, 20.0, 300.0])
def test_the_table_of_sizes_gives_the_chances_of_all_subsets(spread):
    log_odds, law = random_odds(spread)
    tables = (subsets(range(1, 4)), subsets(range(15, 18)))
    expected = [
        chances_by_enumeration(table, odds)[0]
        for table, odds in zip(tables, log_odds.astype(np.float32).astype(float), strict=True)
    ]
    # Sums of 17 log odds, in float32.
    tolerance = 1e-5 + 17 * spread * 2e-7
    np.testing.assert_allclose(group_chances(law), np.concatenate(expected), atol=tolerance)


def test_drawn_groups_have_the_sizes_and_the_pairs_of_the_enumeration():
    log_odds, law = random_odds(1.0)
    keys = jax.random.split(jax.random.key(4), DRAWS)
    drawn = np.asarray(jax.jit(jax.vmap(lambda key: draw_groups(key, law)))(keys)).reshape(
        -1, 2, 20
    )
    for kind, sizes in enumerate([range(1, 4), range(15, 18)]):
        chosen = drawn[:, kind].astype(float)
        assert set(chosen.sum(1)) == set(sizes)
        _, pairs = chances_by_enumeration(subsets(sizes), log_odds[kind])
        error = np.abs(chosen.T @ chosen / DRAWS - pairs)
        assert (error <= most_by_chance(pairs * (1 - pairs), DRAWS, 2 * 400)).all()


def test_a_size_without_weight_is_never_drawn():
    """Rounding may leave the cumulative chances below 1, or below the largest uniform number."""
    sizes = jnp.zeros((2, 18)).at[:, 1].set(0.9)
    law = GroupLaw(sizes, jnp.zeros((20, 2, 18)).at[0, :, 1].set(1.0))
    drawn = jax.vmap(lambda key: draw_groups(key, law))(jax.random.split(jax.random.key(0), 200))
    assert (drawn.reshape(-1, 2, 20).sum(2) == 1).all()


# --- truncated Gaussians ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high"), [(-30.0, 30.0), (-1.0, 9.0), (2.0, 12.0), (5.0, 20.0), (-15.0, -5.0)]
)
def test_truncated_gaussians_are_scipys(low, high):
    ends = jnp.float32(low), jnp.float32(high)
    law = Truncated.between(*ends)
    mean, variance = law.moments()
    expected_mean, expected_variance = truncnorm.stats(low, high)
    np.testing.assert_allclose(mean, expected_mean, atol=1e-5)
    np.testing.assert_allclose(variance, expected_variance, atol=1e-5)
    shares = np.linspace(0.001, 0.999, 99)
    found = jax.vmap(law.at)(jnp.asarray(shares, jnp.float32))
    np.testing.assert_allclose(found, truncnorm.ppf(shares, low, high), atol=1e-4)


# --- many draws, and play --------------------------------------------------------------------


def sizes_of(jaxpr, primitives):
    """Number of elements that each use of these functions gives, in sub-programs too."""
    found = []
    for equation in jaxpr.eqns:
        if equation.primitive.name in primitives:
            found += [variable.aval.size for variable in equation.outvars]
        for inner in jaxprs_in_params(equation.params):
            found += sizes_of(inner, primitives)
    return found


def test_many_draws_share_what_the_history_decides():
    """Evidence and the law of groups take these functions, and nothing that a draw adds does."""
    key, state = jax.random.key(0), BELIEF.init()
    one = jax.make_jaxpr(lambda key: BELIEF.draw(key, state, 1))(key)
    many = jax.make_jaxpr(lambda key: BELIEF.draw(key, state, 64))(key)
    for function in ("log1p", "logistic", "erfc"):
        assert sizes_of(one.jaxpr, [function])
        assert sizes_of(one.jaxpr, [function]) == sizes_of(many.jaxpr, [function])


@pytest.mark.slow
def test_its_play_is_that_of_the_enumeration():
    """Thompson sampling, of equals the first arm, 20 tasks: the same regret but for chance."""
    tasks = PROBLEM.development(20)
    first_of_equals = Policy(BELIEF, TopTwoRule(beta=1.0, redraws=1))
    ours = simulate(first_of_equals, tasks, PROBLEM.rewards, horizon=60).regret[-1]
    theirs = ORACLE.play(tasks, horizon=60, seed=1)[:, -1]
    difference = ours - theirs
    assert abs(difference.mean()) <= 4.5 * difference.std(ddof=1) / np.sqrt(len(tasks))
