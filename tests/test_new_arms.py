"""Arms that a log has never seen: their law, what other tasks tell of them, and their belief."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from diffts import InvalidInputError
from diffts.bandits.beliefs import IndependentBelief, MixtureBelief, NewArmsBelief
from diffts.bandits.history import History
from diffts.bandits.noise import BernoulliNoise, FixedNoise, PooledNoise
from diffts.decisions.new_arms import law_of_new_arm
from diffts.decisions.store import Elsewhere, Totals
from diffts.diffusion import Gaussian
from diffts.fitting import NewArms, estimate_new_arms

LAW = NewArms(mean=0.4, between=0.25, within=0.1)
NOISE = 0.2


def log_of(tasks, arms, seed, law=LAW, noise=NOISE, pulls=4):
    """Counts, some of them 0, and means; NaN where there are none."""
    rng = np.random.default_rng(seed)
    over_tasks = law.mean + law.between * rng.standard_normal(arms)
    means = over_tasks + law.within * rng.standard_normal((tasks, arms))
    counts = rng.poisson(pulls, (tasks, arms)).astype(float)
    counts[0, 0] = max(counts[0, 0], 1)
    seen = means + noise / np.sqrt(np.maximum(counts, 1)) * rng.standard_normal((tasks, arms))
    return counts, np.where(counts > 0, seen, np.nan)


# --- the law of arms over arms ------------------------------------------------------------


def restricted_likelihood(counts, means, between, within):
    """Minus twice its logarithm, from covariance matrices, for an oracle."""
    total, precision, weighted = 0.0, 0.0, 0.0
    parts = []
    for arm in range(counts.shape[1]):
        rows = counts[:, arm] > 0
        noise = np.diag(NOISE**2 / counts[rows, arm])
        covariance = between**2 + within**2 * np.eye(rows.sum()) + noise
        inverse = np.linalg.inv(covariance)
        ones, y = np.ones(rows.sum()), means[rows, arm]
        total += np.linalg.slogdet(covariance)[1]
        precision += ones @ inverse @ ones
        weighted += ones @ inverse @ y
        parts.append((y, inverse))
    centre = weighted / precision
    total += sum((y - centre) @ inverse @ (y - centre) for y, inverse in parts)
    return total + np.log(precision)


@pytest.mark.slow
def test_with_many_arms_and_tasks_it_is_that_of_restricted_maximum_likelihood():
    counts, means = log_of(60, 120, seed=0)
    law = estimate_new_arms(counts, means, NOISE)

    def loss(stds):
        return restricted_likelihood(counts, means, *np.exp(stds))

    best = np.exp(minimize(loss, np.log([0.2, 0.2]), method="Nelder-Mead").x)
    # The posterior of a standard deviation from 120 arms is as wide as 1/√240 of it, and its mean
    # square above the most likely one by about twice the square of that.
    assert abs(law.between / best[0] - 1) < 0.02
    assert abs(law.within / best[1] - 1) < 0.01


@pytest.mark.slow
def test_over_many_logs_it_covers_the_arms_that_come():
    """New arms, standardised by the law of each log, vary as much as the law says, or less."""
    rng, squares = np.random.default_rng(1), []
    for seed in range(300):
        law = estimate_new_arms(*log_of(12, 8, seed), NOISE)
        truth = LAW.mean + LAW.std * rng.standard_normal()
        squares.append(((truth - law.mean) / law.std) ** 2)
    # Eight arms tell little: a law of the likeliest spread would be too narrow, by t of 7 degrees.
    assert np.mean(squares) < 1 + 4.5 * np.std(squares) / np.sqrt(len(squares))
    assert np.mean(squares) > 0.4  # and not as wide as the sea


@pytest.mark.parametrize(("tasks", "arms"), [(1, 1), (30, 1), (30, 2), (1, 3)])
def test_where_little_is_known_it_is_wide(tasks, arms):
    """At least as wide as what the entries themselves vary by."""
    counts, means = log_of(tasks, arms, seed=3)
    law = estimate_new_arms(counts, means, NOISE)
    assert law.std > max(np.nanstd(means), NOISE / np.sqrt(np.max(counts)))
    assert np.nanmin(means) <= law.mean <= np.nanmax(means)


def test_constant_rewards_leave_room_for_others():
    law = estimate_new_arms(np.ones((6, 4)), np.full((6, 4), 2.0), 0.3)
    assert law.mean == pytest.approx(2.0)
    assert 0.05 < law.std < 1.0


def test_units_do_not_matter():
    counts, means = log_of(20, 10, seed=4)
    law = estimate_new_arms(counts, means, NOISE)
    scaled = estimate_new_arms(counts, 1e4 * means + 7e5, 1e4 * NOISE)
    np.testing.assert_allclose(
        scaled, [1e4 * law.mean + 7e5, *(1e4 * np.array(law[1:]))], rtol=1e-6
    )


@pytest.mark.parametrize(
    ("counts", "means", "noise", "message"),
    [
        ([[0.0, 0.0]], [[0.0, 0.0]], 0.1, "counts: no rewards"),
        ([[1.0, 1.0]], [[0.0]], 0.1, "means: expected shape"),
        ([[1.0, 1.0]], [[0.0, np.nan]], 0.1, "means: 1 value"),
        ([[1.0, 1.0]], [[0.0, 1.0]], 0.0, "noise_std: must be above 0"),
    ],
)
def test_logs_that_tell_nothing_are_refused(counts, means, noise, message):
    with pytest.raises(InvalidInputError, match=message):
        estimate_new_arms(counts, means, noise)


# --- what other tasks have seen -----------------------------------------------------------


@pytest.mark.parametrize("own", [None, 1], ids=["untried", "tried"])
def test_what_others_have_seen_is_the_posterior_of_all_tasks_together(own):
    """The mean rewards of one arm in five tasks are one Gaussian; the last task is the one asked.

    What it has seen itself comes later, and is not to count twice.
    """
    pulls, rewards = np.array([1, 1, 3, 7]), np.array([0.1, 0.9, 0.5, 0.3])
    n = len(pulls) + 1
    prior = Gaussian(np.full(n, LAW.mean), LAW.between**2 + LAW.within**2 * np.eye(n))
    gain = prior.covariance[:, :-1] @ np.linalg.inv(
        prior.covariance[:-1, :-1] + np.diag(NOISE**2 / pulls)
    )
    mean = prior.mean + gain @ (rewards - LAW.mean)
    variance = prior.covariance[-1, -1] - gain[-1] @ prior.covariance[:-1, -1]

    elsewhere = [Elsewhere(1, 2, 1.0), Elsewhere(3, 1, 0.5), Elsewhere(7, 1, 0.3)]
    seen = None
    if own is not None:
        seen = Totals(2, 1.6, 0.0)
        elsewhere.append(Elsewhere(2, 1, 0.8))
    law = law_of_new_arm(LAW, NOISE, elsewhere, seen)
    np.testing.assert_allclose(law, [mean[-1], np.sqrt(variance)], rtol=1e-12)


def test_arms_that_are_all_alike_stay_so():
    law = law_of_new_arm(NewArms(0.5, 0.0, 0.1), NOISE, [Elsewhere(5, 100, 0.0)])
    assert law == pytest.approx((0.5, 0.1))


# --- the belief ---------------------------------------------------------------------------

KNOWN = Gaussian([0.2, 0.5, 0.1], 0.05 * (0.4 * np.eye(3) + 0.6))
MEANS, STDS = np.array([0.4, 0.3]), np.array([0.3, 0.2])
ALL = Gaussian(
    [*KNOWN.mean, *MEANS],
    np.block([[KNOWN.covariance, np.zeros((3, 2))], [np.zeros((2, 3)), np.diag(STDS**2)]]),
)
PULLS = [(0, 0.3), (3, 0.9), (3, 0.7), (1, 0.2), (4, 0.1), (3, 0.8), (0, 0.4)]


def after(belief, pulls=PULLS):
    state = belief.init()
    for arm, reward in pulls:
        action = jnp.arange(5) == arm
        state = belief.update(state, action, jnp.where(action, reward, jnp.nan))
    return state


@pytest.mark.slow
@pytest.mark.parametrize("noise", [FixedNoise(0.2), PooledNoise(0.2), BernoulliNoise(0.4)])
@pytest.mark.parametrize("single_arm", [True, False], ids=["arm", "set"])
def test_beside_a_gaussian_it_is_one_gaussian_of_all_arms(noise, single_arm):
    """With a number for the noise; else known arms tell the noise by themselves."""
    belief = NewArmsBelief(MixtureBelief(KNOWN, noise, single_arm=single_arm), MEANS, STDS)
    whole = MixtureBelief(ALL, noise, single_arm=single_arm)
    pulls = PULLS if noise.constant else PULLS[1:3] + PULLS[4:6]  # of new arms alone
    state, expected = after(belief, pulls), after(whole, pulls)
    draws = jnp.zeros((2, 5))
    for one, other in zip(
        belief.moments(state, draws), whole.moments(expected, draws), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=2e-5)
    level = jnp.float32(0.8)
    np.testing.assert_allclose(
        belief.quantile(state, level, draws), whole.quantile(expected, level, draws), atol=2e-5
    )
    np.testing.assert_allclose(
        belief.noise_std(state)[3:], whole.noise_std(expected)[3:], rtol=1e-5
    )


def test_a_history_says_the_same_as_the_pulls_that_made_it():
    belief = NewArmsBelief(MixtureBelief(KNOWN, 0.2), MEANS, STDS)
    state = after(belief)
    resumed = belief.resume(state.history)
    for one, other in zip(jax.tree.leaves(state), jax.tree.leaves(resumed), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_draws_of_known_arms_are_those_without_new_ones():
    known = MixtureBelief(KNOWN, 0.2)
    pulls = [(arm, reward) for arm, reward in PULLS if arm < 3]
    counts, sums = np.zeros(5), np.zeros(5)
    for arm, reward in pulls:
        counts[arm], sums[arm] = counts[arm] + 1, sums[arm] + reward
    history = [jnp.asarray(x, jnp.float32) for x in (counts, sums, np.zeros(5))]
    of_known = known.resume(History(*(x[:3] for x in history), jnp.int32(3)))
    belief = NewArmsBelief(known, MEANS, STDS)
    drawn = belief.draw(jax.random.key(0), belief.resume(History(*history, jnp.int32(3))), 9)
    expected = known.draw(jax.random.key(0), of_known, 9)
    np.testing.assert_allclose(drawn[:, :3], expected, atol=1e-6)


def test_rewards_from_0_to_1_keep_new_arms_there():
    belief = NewArmsBelief(IndependentBelief(KNOWN, "bernoulli"), [0.9, 0.1], [0.8, 0.8])
    draws = belief.draw(jax.random.key(0), belief.init(), 200)
    assert float(draws.min()) == 0.0
    assert float(draws.max()) == 1.0
    assert float(belief.quantile(belief.init(), jnp.float32(0.9), draws)[3]) == 1.0
