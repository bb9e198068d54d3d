"""Noise that nobody has to know: levels from rewards, variances of clicks, and what they bound."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate
from scipy.stats import norm

from diffts import DiffusionPrior, Evidence, InvalidInputError
from diffts.bandits import Agent, History, TopK, simulate
from diffts.bandits.beliefs import (
    DiffusionBelief,
    EmpiricalBelief,
    IndependentBelief,
    MixtureBelief,
)
from diffts.bandits.identity import identity
from diffts.bandits.noise import BernoulliNoise, FixedNoise, PooledNoise, as_noise
from diffts.bandits.policy import Policy
from diffts.bandits.rewards import GaussianRewards, RewardModel
from diffts.bandits.rules import ThompsonRule
from diffts.diffusion import Gaussian, GaussianMixture

K = 4
MEAN = np.array([0.3, 0.5, 0.4, 0.6])
COVARIANCE = 0.02 * (0.4 * np.eye(K) + 0.6)
GAUSSIAN = Gaussian(MEAN, COVARIANCE)
MIXTURE = GaussianMixture([0.3, 0.7], [MEAN, MEAN[::-1]], [COVARIANCE, 0.03 * np.eye(K) + 0.01])
ARMS = [0, 2, 2, 1, 0, 2, 2, 2, 0]
REWARDS = [1.0, 0.0, 0.0, 0.5, 0.25, 1.0, 0.0, 0.0, 0.5]
WORDS = ["auto", "bernoulli"]


def diffusion(noise):
    return DiffusionBelief(DiffusionPrior.gaussian(MEAN, COVARIANCE), noise, steps=10)


BELIEFS = {
    "mixture": lambda noise: MixtureBelief(MIXTURE, noise),
    "mixture of sets": lambda noise: MixtureBelief(MIXTURE, noise, single_arm=False),
    "gaussian": lambda noise: MixtureBelief(GAUSSIAN, noise),
    "independent": lambda noise: IndependentBelief(GAUSSIAN, noise),
    "empirical": lambda noise: EmpiricalBelief(K, noise),
    "diffusion": diffusion,
}


class Clicks(RewardModel):
    """1 with the chance that the mean says, else 0."""

    bounds = (0.0, 1.0)

    def __call__(self, key, means, arms):
        expected = jnp.asarray(means)[arms]
        return jnp.float32(jax.random.uniform(key, expected.shape) < expected)


def one_arm(arm):
    return jnp.arange(K) == arm


def history_of(arms=ARMS, rewards=REWARDS, n_arms=K):
    history = History.empty(n_arms)
    for arm, reward in zip(arms, rewards, strict=True):
        history = history.add(jnp.arange(n_arms) == arm, jnp.full(n_arms, reward))
    return history


def squares_of(arms, rewards, arm):
    own = np.asarray([r for a, r in zip(arms, rewards, strict=True) if a == arm])
    return float(((own - own.mean()) ** 2).sum()) if len(own) else 0.0


def played(belief, arms=ARMS, rewards=REWARDS):
    state = belief.init()
    for arm, reward in zip(arms, rewards, strict=True):
        state = belief.update(state, one_arm(arm), jnp.full(K, jnp.float32(reward)))
    return state


def test_pooled_noise_is_the_formula():
    squares = sum(squares_of(ARMS, REWARDS, arm) for arm in range(K))
    repeats = len(ARMS) - len(set(ARMS))
    expected = np.sqrt((3 * 0.2**2 + squares) / (3 + repeats))
    std = PooledNoise(start=0.2, weight=3.0).std(history_of())
    np.testing.assert_allclose(std, np.full(K, expected), rtol=1e-6)


def test_bernoulli_noise_is_the_formula():
    squares = np.array([squares_of(ARMS, REWARDS, arm) for arm in range(K)])
    repeats = np.maximum(np.bincount(ARMS, minlength=K) - 1, 0)
    pooled = (3 * 0.2**2 + squares.sum()) / (3 + repeats.sum())
    expected = np.sqrt((5 * pooled + squares) / (5 + repeats))
    std = BernoulliNoise(start=0.2, weight=3.0, strength=5.0).std(history_of())
    np.testing.assert_allclose(std, expected, rtol=1e-6)


@pytest.mark.parametrize("start", [0.01, 10.0, None])
def test_pooled_noise_finds_the_level(start):
    """The root of a mean of R squares has a relative standard error of 1/√(2R)."""
    n, sigma, repeats = 2000, 0.3, 5 * 2000 - 5
    rewards = np.linspace(-5, 5, 5)[:, None] + sigma * np.random.default_rng(0).normal(size=(5, n))
    means = rewards.mean(1)
    squares = ((rewards - means[:, None]) ** 2).sum(1)
    history = History(
        jnp.full(5, float(n)), jnp.float32(n * means), jnp.float32(squares), jnp.int32(5 * n)
    )
    found = float(PooledNoise(start).std(history)[0])
    # What is left of the start: start² in so many squares; without one, at most the spread.
    bias = ((4.0 if start is None else start) / sigma) ** 2 / (2 * repeats)
    assert abs(found / sigma - 1) < 4 / np.sqrt(2 * repeats) + bias
    assert bias < 0.06


def test_bernoulli_noise_finds_the_variance_of_each_arm():
    """``n p̂(1-p̂)`` of 0 and 1; the estimate of a variance v = pq has an error √(v(1-4v)/n)."""
    chances, n = np.array([0.02, 0.5, 0.9]), 5000
    hits = np.random.default_rng(0).binomial(n, chances)
    share = hits / n
    history = History(
        jnp.full(3, float(n)),
        jnp.float32(hits),
        jnp.float32(n * share * (1 - share)),
        jnp.int32(3 * n),
    )
    variance = np.asarray(BernoulliNoise().std(history)) ** 2
    true = chances * (1 - chances)
    error = np.sqrt(true * (1 - 4 * true) / n)
    shrinkage = 4 * 0.25 / (n + 3)  # strength × the largest variance
    assert (np.abs(variance - true) < 4 * error + 2 * shrinkage).all()


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("rewards", [[], [0.0], [1.0], [0.0] * 8, [1.0] * 8, [0.5, 0.5]])
def test_few_rewards_never_give_certainty(word, rewards):
    for make in BELIEFS.values():
        belief = make(word)
        for arms in ([0] * len(rewards), [i % K for i in range(len(rewards))]):
            std = np.asarray(belief.noise.std(history_of(arms, rewards)))
            assert np.isfinite(std).all()
            assert (std > 0.02).all()


@pytest.mark.parametrize("noise", [PooledNoise(), PooledNoise(0.3), BernoulliNoise()])
def test_luck_changes_no_weight(noise):
    """A first win and a first loss say the same of the noise; so do many."""
    for n in (1, 10):
        wins, losses = (noise.under(MEAN, GAUSSIAN.std).std(history_of([1] * n, [r] * n))
                        for r in (1.0, 0.0))  # fmt: skip
        np.testing.assert_array_equal(wins, losses)


def test_a_start_comes_from_the_prior():
    spread = float(np.sqrt(np.mean(GAUSSIAN.std**2)))
    empty = History.empty(K)
    for make in (BELIEFS["gaussian"], BELIEFS["independent"]):
        np.testing.assert_allclose(make("auto").noise.std(empty), spread, rtol=1e-3)
        clicks = np.sqrt(np.mean(MEAN * (1 - MEAN) - GAUSSIAN.std**2))
        np.testing.assert_allclose(make("bernoulli").noise.std(empty), clicks, rtol=1e-3)
    belief = diffusion("auto")
    np.testing.assert_allclose(belief.noise.std(empty), belief.prior.scale, rtol=1e-3)
    given = MixtureBelief(GAUSSIAN, PooledNoise(start=0.07)).noise.std(empty)
    np.testing.assert_allclose(given, 0.07, rtol=1e-6)


def test_without_a_prior_the_start_is_the_spread_of_all_rewards():
    rewards = 100 * np.array([0.3, 0.9, 0.5])
    arms = [0, 1, 2]
    expected = np.sqrt((np.sum((rewards - rewards.mean()) ** 2) + rewards.mean() ** 2) / 3)
    found = EmpiricalBelief(K, "auto").noise.std(history_of(arms, rewards))
    np.testing.assert_allclose(found, np.full(K, expected), rtol=1e-5)


def test_squares_that_were_not_kept_do_not_count():
    history = history_of()
    lost = History(history.counts, history.sums, jnp.full(K, jnp.nan), history.rounds)
    np.testing.assert_allclose(PooledNoise(0.3).std(lost), 0.3, rtol=1e-6)
    most = np.asarray(history.sums * (1 - history.means))
    kept = History(history.counts, history.sums, jnp.float32(most), history.rounds)
    np.testing.assert_array_equal(BernoulliNoise().std(lost), BernoulliNoise().std(kept))


def clipped_mean(mean, std):
    """The mean of a Gaussian of which all beyond 0 and 1 is put there: the area above its cdf."""
    points = np.linspace(0, 1, 2001)
    return integrate.trapezoid(norm.sf(points[:, None, None], mean, std), points, axis=0)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("prior", [GAUSSIAN, MIXTURE])
@pytest.mark.parametrize("single_arm", [True, False])
def test_exact_posterior_with_noise_of_each_arm(word, prior, single_arm):
    belief = MixtureBelief(prior, word, single_arm=single_arm)
    state = played(belief)
    history = state.history
    pulls = np.maximum(np.asarray(history.counts), 1)
    evidence = Evidence(
        np.asarray(history.means),
        np.asarray(belief.noise_std(state)) / np.sqrt(pulls),
        np.asarray(history.counts) > 0,
    )
    exact = GaussianMixture.of(prior).posterior(evidence)
    means = np.stack([component.mean for component in exact.components])
    stds = np.stack([component.std for component in exact.components])
    mean = exact.weights @ means
    std = np.sqrt(exact.weights @ (stds**2 + (means - mean) ** 2))
    draws = belief.draw(jax.random.key(0), state, 20_000)
    found = belief.moments(state, draws)
    np.testing.assert_allclose(found[0], mean, atol=1e-5)
    np.testing.assert_allclose(found[1], std, rtol=1e-4)
    np.testing.assert_allclose(np.exp(state.log_weights), exact.weights, atol=1e-5)
    covariances = np.stack([component.covariance for component in exact.components])
    np.testing.assert_allclose(belief.component_covariances(state), covariances, atol=1e-6)
    # Draws: 4.5 standard errors. Those of clicks end at the bounds 0 and 1.
    if word == "bernoulli":
        mean = exact.weights @ clipped_mean(means, stds)
    np.testing.assert_allclose(draws.mean(0), mean, atol=4.5 * std.max() / np.sqrt(20_000))


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("name", BELIEFS)
def test_a_resumed_state_is_the_played_one(name, word):
    belief = BELIEFS[name](word)
    state = played(belief)
    resumed = belief.resume(state.history)
    assert jax.tree.structure(state) == jax.tree.structure(resumed)
    for one, other in zip(jax.tree.leaves(state), jax.tree.leaves(resumed), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", BELIEFS)
def test_clicks_keep_every_value_in_bounds(name):
    belief = BELIEFS[name]("bernoulli")
    state = played(belief, [0, 1], [0.0, 1.0])
    draws = belief.draw(jax.random.key(0), state, 50)
    values = [
        draws,
        belief.draw(jax.random.key(1), state, 1),
        belief.moments(state, draws)[0],
        belief.quantile(state, jnp.float32(0.999), draws),
        belief.quantile(state, jnp.float32(0.001), draws),
    ]
    for value in values:
        assert float(value.min()) >= 0.0
        assert float(value.max()) <= 1.0
    free = BELIEFS[name](1.0)
    wide = free.draw(jax.random.key(0), played(free, [0, 1], [0.0, 30.0]), 50)
    assert float(wide.max()) > 1.0  # without the word, nothing is cut off


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("name", BELIEFS)
def test_an_agent_and_its_saved_state(name, word, tmp_path):
    policy = Policy(BELIEFS[name](word), ThompsonRule())
    actions = TopK(K, 2) if name == "mixture of sets" else None
    first, second = (Agent(policy, actions=actions, seed=3) for _ in range(2))
    for _ in range(3):
        chosen = first.choose()
        first.update(chosen, [1.0, 0.0] if actions else 1.0)
    first.save(tmp_path)
    second.load(tmp_path)
    assert [first.choose() for _ in range(3)] == [second.choose() for _ in range(3)]
    assert (
        identity(policy)["belief.noise_std"]
        != identity(Policy(BELIEFS[name](0.1), ThompsonRule()))["belief.noise_std"]
    )


def test_a_reward_outside_is_refused_with_all_of_its_batch():
    agent = Agent(Policy(IndependentBelief(GAUSSIAN, "bernoulli"), ThompsonRule()), seed=0)
    for bad in (1.5, -0.1):
        with pytest.raises(InvalidInputError, match=f"reward: must be from 0 to 1 .*{bad}"):
            agent.update([0, 1], [0.5, bad])
    assert sum(agent.pulls.values()) == 0
    agent.update([0, 1], [0.0, 1.0])
    assert sum(agent.pulls.values()) == 2
    Agent(Policy(IndependentBelief(GAUSSIAN, "auto"), ThompsonRule()), seed=0).update(0, 1.5)


# Agents with every belief and both words are above; here each belief has one, and ours both.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "word"), [*zip(BELIEFS, 3 * WORDS, strict=True), ("diffusion", "auto")]
)
def test_simulated_play(name, word):
    rewards = Clicks() if word == "bernoulli" else GaussianRewards(0.1)
    tasks = np.clip(np.random.default_rng(0).multivariate_normal(MEAN, COVARIANCE, 20), 0, 1)
    policy = Policy(BELIEFS[name](word), ThompsonRule())
    run = simulate(policy, tasks, rewards, horizon=60)
    aimless = 60 * (tasks.max(1) - tasks.mean(1))  # uniform play
    gap = aimless - run.regret[-1]
    assert gap.mean() > 3 * gap.std(ddof=1) / np.sqrt(len(gap))


def test_words_and_numbers():
    assert isinstance(as_noise("auto"), PooledNoise)
    assert isinstance(as_noise("bernoulli"), BernoulliNoise)
    assert isinstance(as_noise(0.1), FixedNoise)
    noise = PooledNoise(0.1)
    assert as_noise(noise) is noise
    for bad in ("gaussian", "", -1.0, float("nan"), None, True):
        with pytest.raises(InvalidInputError, match="noise"):
            as_noise(bad)
    for kind in (PooledNoise, BernoulliNoise):
        with pytest.raises(InvalidInputError, match="start"):
            kind(start=0.0)
        with pytest.raises(InvalidInputError, match="weight"):
            kind(weight=-1.0)


def test_a_number_keeps_the_quick_update():
    assert MixtureBelief(GAUSSIAN, 0.1).init().covariance is not None
    for word in WORDS:
        state = MixtureBelief(GAUSSIAN, word).init()
        assert state.covariance is None
        assert state.factor is not None
