"""Policies: closed forms, and the agent for people. Their contract is in ``test_contract.py``."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from diffts import ArtifactError, DiffusionPrior, Evidence, InvalidInputError
from diffts.bandits import Agent, BestArm, ThompsonSampling, TopK
from diffts.bandits.policies import (
    UCB1,
    BayesUCB,
    DiagonalGTS,
    DiffTS,
    GaussianGreedy,
    Ingredients,
    MixtureTS,
    make_policy,
)
from diffts.diffusion import Gaussian, GaussianMixture
from four_arms import (
    ARMS,
    COVARIANCE,
    EVIDENCE,
    GAUSSIAN,
    MEAN,
    MIXTURE,
    NOISE,
    REWARDS,
    K,
    Values,
    after,
    agent_of,
    ingredients,
    play,
)

# --- closed forms --------------------------------------------------------------------------


def moments(policy, state):
    """In closed form: no draws are read."""
    return policy.belief.moments(state, jnp.full((2, policy.n_arms), jnp.nan))


@pytest.mark.slow
@pytest.mark.parametrize("single_arm", [True, False])
@pytest.mark.parametrize("prior", [GAUSSIAN, MIXTURE], ids=["gts-full", "gmmts"])
def test_posteriors_are_the_closed_form(single_arm, prior):
    policy = MixtureTS(prior, NOISE, single_arm=single_arm)
    state, exact = after(policy), GaussianMixture.of(prior).posterior(EVIDENCE)
    covariances = policy.belief.component_covariances(state)
    np.testing.assert_allclose(covariances, exact.covariances, atol=1e-6)
    # The marginal likelihoods of rewards and of their means differ by a common factor only.
    np.testing.assert_allclose(np.exp(state.log_weights), exact.weights, atol=1e-5)
    mean, std = moments(policy, state)
    np.testing.assert_allclose(mean, exact.mean, atol=1e-5)
    np.testing.assert_allclose(std, exact.std, atol=1e-5)
    assert policy.advise(state, BestArm(K)).action.tolist() == BestArm(K).best(mean).tolist()


def test_gts_diag_posterior_is_the_closed_form():
    policy = DiagonalGTS(GAUSSIAN, NOISE)
    exact = Gaussian(MEAN, np.diag(np.diag(COVARIANCE))).posterior(EVIDENCE)
    mean, std = moments(policy, after(policy))
    np.testing.assert_allclose(mean, exact.mean, atol=1e-6)
    np.testing.assert_allclose(std, exact.std, atol=1e-6)
    advised = policy.advise(after(policy), BestArm(K)).action
    assert advised.tolist() == BestArm(K).best(mean).tolist()


@pytest.mark.parametrize(("prior", "single_arm"), [(GAUSSIAN, True), (MIXTURE, False)])
def test_draws_have_the_exact_posteriors_moments(prior, single_arm):
    policy, n = MixtureTS(prior, NOISE, single_arm=single_arm), 40_000
    state, exact = after(policy), prior.posterior(EVIDENCE)
    draws = np.asarray(policy.belief.draw(jax.random.key(0), state, n), np.float64)
    assert (np.abs(draws.mean(0) - exact.mean) < 4.5 * exact.std / np.sqrt(n)).all()
    # Kurtosis of a mixture is at most moderate: twice the Gaussian error of a variance.
    assert (np.abs(draws.var(0) / exact.std**2 - 1) < 2 * 4.5 * np.sqrt(2 / n)).all()
    if isinstance(prior, Gaussian):
        error = 4.5 * np.outer(exact.std, exact.std) * np.sqrt(2 / n)
        assert (np.abs(np.cov(draws.T) - exact.covariance) < error).all()


def test_rank_one_updates_stay_exact_for_thousands_of_pulls():
    """Float32 all the way: a posterior variance of 1e-6 is still right to a percent."""
    policy = MixtureTS(GAUSSIAN, 0.05)
    rng = np.random.default_rng(0)
    arms = rng.choice(K, 3000, p=[0.9, 0.05, 0.04, 0.01])
    rewards = 0.3 + 0.05 * rng.standard_normal(3000)

    @jax.jit
    def play(arms, rewards):
        def step(state, pull):
            action = jnp.arange(K) == pull[0]
            return policy.update(state, action, jnp.where(action, pull[1], 0.0)), None

        return jax.lax.scan(step, policy.init(), (arms, rewards))[0]

    state = play(jnp.asarray(arms), jnp.asarray(rewards, jnp.float32))
    exact = GAUSSIAN.posterior(Evidence.from_history(arms, rewards, K, 0.05))
    np.testing.assert_allclose(np.diag(state.covariance[0]), exact.std**2, rtol=0.01)
    mean, _ = moments(policy, state)
    np.testing.assert_allclose(mean, exact.mean, atol=0.02 * exact.std.min())


def values_of(policy, state):
    return policy.select(jax.random.key(0), state, Values())


def test_bayes_ucb_and_greedy_use_the_exact_posterior():
    exact = GAUSSIAN.posterior(EVIDENCE)
    greedy, bayes = GaussianGreedy(GAUSSIAN, NOISE), BayesUCB(GAUSSIAN, NOISE)
    np.testing.assert_allclose(values_of(greedy, after(greedy)), exact.mean, atol=1e-5)
    expected = exact.mean + norm.ppf(1 - 1 / (len(ARMS) + 2)) * exact.std
    np.testing.assert_allclose(values_of(bayes, after(bayes)), expected, atol=1e-4)


def test_ucb_indices():
    means = np.array([2.5 / 3, 0.3, 0.5 / 5, 0.0])
    counts = np.array([3, 1, 5, 1])
    state = after(UCB1(K, NOISE))
    got = values_of(UCB1(K, NOISE), state)
    np.testing.assert_allclose(got[:3], (means + NOISE / np.sqrt(counts))[:3], rtol=1e-5)
    standard = values_of(UCB1(K, NOISE, "standard"), state)
    expected = means + NOISE * np.sqrt(2 * np.log(len(ARMS)) / counts)
    np.testing.assert_allclose(standard[:3], expected[:3], rtol=1e-5)


@pytest.mark.slow
def test_diffts_draws_are_the_priors_posterior_draws():
    """Inside a policy the same law as outside: moments of its draws and of posterior_sample."""
    given, n = ingredients(), 20_000
    policy = make_policy("diffts", given)
    values = policy.belief.draw(jax.random.key(0), after(policy), n)
    draws = given.prior().posterior_sample(EVIDENCE, n=n, steps=10, seed=1)
    sd = draws.std(0)
    assert (np.abs(np.mean(values, 0) - draws.mean(0)) < 4.5 * sd * np.sqrt(2 / n)).all()
    assert (np.abs(np.std(values, 0) - sd) < 4.5 * sd * np.sqrt(1 / n)).all()


# --- the agent for people ------------------------------------------------------------------


def thompson(**changes):
    prior = DiffusionPrior.gaussian(MEAN, COVARIANCE)
    return ThompsonSampling(
        prior, NOISE, **{"steps": 20, "sampler": "moment", "seed": 0, **changes}
    )


@pytest.mark.slow
def test_probabilities_are_those_of_the_posterior():
    agent, draws = thompson(arms=list("abcd"), steps=100), 4000
    agent.update([list("abcd")[arm] for arm in ARMS], REWARDS)
    got = agent.probabilities(draws)
    assert got.draws == draws
    assert sum(got.by_arm.values()) == pytest.approx(1)
    exact = GAUSSIAN.posterior(EVIDENCE)
    sample = np.random.default_rng(0).multivariate_normal(exact.mean, exact.covariance, 200_000)
    share = np.bincount(sample.argmax(1), minlength=K) / 200_000
    error = 4.5 * np.sqrt(share * (1 - share) / draws) + 0.01  # the sampler's own error is 1%
    assert (np.abs(np.array(list(got.by_arm.values())) - share) < error).all()


@pytest.mark.slow
def test_probabilities_do_not_change_what_comes_next():
    left, right = thompson(), thompson()
    left.probabilities(10)
    assert play(left, 4) == play(right, 4)


def test_delayed_rewards():
    agent = thompson()
    first, second = agent.choose(), agent.choose()
    agent.update(second, 0.4)
    agent.update(first, 0.1)
    assert sum(agent.pulls.values()) == 2


def test_a_reward_of_an_arm_that_was_not_on_offer_is_taken():
    """Before and after the first choice alike: somebody else may have played it."""
    agent = thompson(arms=list("abcd"))
    agent.update("a", 1.0)
    agent.choose(among=["b", "d"])
    agent.update("a", 0.9)
    assert agent.pulls == {"a": 2, "b": 0, "c": 0, "d": 0}


def test_new_agents_do_not_all_start_alike():
    """Without a seed each takes a fresh one; with one, all are the same."""
    prior = DiffusionPrior.gaussian(np.zeros(50), np.eye(50))
    fresh = {ThompsonSampling(prior, NOISE, steps=2).choose() for _ in range(30)}
    assert len(fresh) > 10  # fewer of 30 uniform draws from 50: less than once in 1e9
    assert len({ThompsonSampling(prior, NOISE, steps=2, seed=0).choose() for _ in range(3)}) == 1


def test_top_two_challenges_within_what_is_on_offer():
    """Its own rule is used with ``among``, too: a sure leader is challenged half of the time."""
    given = ingredients()
    sure = {"mean": np.array([5.0, 1.0, 0.9, 9.0]), "cov": 0.01 * np.eye(K)}
    sure_of = Ingredients(
        actions=given.actions, noise=NOISE, prior=given.prior, mixture=given.mixture,
        gaussian=lambda: Gaussian(sure["mean"], sure["cov"]),
    )  # fmt: skip
    agent = Agent(make_policy("gts-top-two", sure_of), seed=0)
    chosen = [agent.choose(among=[1, 2]) for _ in range(60)]
    # Of two arms 0.1 apart with sd 0.1 each, plain Thompson sampling plays the second 24% of the
    # time; top-two nearer to half, since eight redraws nearly always find a challenger.
    share = chosen.count(2) / 60
    assert abs(share - 0.43) < 4 * np.sqrt(0.43 * 0.57 / 60)
    assert share > 0.24 + 2 * np.sqrt(0.24 * 0.76 / 60)


@pytest.mark.parametrize("name", ["ucb1", "ucb1-standard"])
def test_ucb_tries_every_arm_on_offer_before_it_repeats_one(name):
    agent = agent_of(name)
    agent.update([3, 3, 3, 1], [0.9, 0.8, 0.9, 0.1])  # pulls from elsewhere
    tried = []
    for _ in range(2):
        tried.append(agent.choose())
        agent.update(tried[-1], 0.0)
    assert tried == [0, 2]  # the arms nobody had pulled, not arm 0 for ever
    agent = agent_of(name)
    chosen = []
    for _ in range(12):
        chosen.append(agent.choose(among=[1, 3]))
        agent.update(chosen[-1], float(chosen[-1] == 3))
    assert chosen[:2] == [1, 3]
    assert chosen.count(3) > 6


@pytest.mark.slow
def test_the_advised_set_follows_the_evidence():
    """Counts say nothing of paths or sets; the posterior does."""
    actions = TopK(K, 2)
    policy = make_policy("diffts", ingredients(actions))
    state = policy.init()
    for _ in range(20):  # of the prior's two best arms one is bad, the other is never played
        state = policy.update(
            state, jnp.array([True, True, True, False]), jnp.array([2.0, -1.0, 2.0, 0.0])
        )
    assert policy.advise(state, actions).action.tolist() == [True, False, True, False]


@pytest.mark.slow
def test_an_arm_is_advised_for_its_mean_not_for_its_pulls():
    """It was once the arm pulled most: here it is one that was hardly pulled."""
    agent = thompson(arms=list("abcd"))
    agent.update(["a"] * 40, [-1.0] * 40)
    agent.update(["b"] * 4, [2.0] * 4)
    arm, chance = agent.advice()
    assert arm == "b"
    assert 0.9 < chance <= 1.0
    assert agent.advice(among=["a"]) == ("a", 1.0)


# --- surprise ------------------------------------------------------------------------------

SPREAD_MEANS = np.array([0.0, 2.0, -1.0, 3.0])


def expected_of_the_left_out(mean, covariance, arms, rewards):
    """``m`` and ``√(s² + σ²/n)`` of each pulled arm by Gaussian conditioning, in float64."""
    arms, rewards = np.asarray(arms), np.asarray(rewards)
    pulled, counts = np.unique(arms, return_counts=True)
    y = np.array([rewards[arms == arm].mean() for arm in pulled])
    seen = covariance[np.ix_(pulled, pulled)] + np.diag(NOISE**2 / counts)
    of = {}
    for i, arm in enumerate(pulled):
        others = np.arange(len(pulled)) != i
        gain = np.linalg.solve(seen[np.ix_(others, others)], seen[others, i])
        m = mean[arm] + gain @ (y - mean[pulled])[others]
        of[int(arm)] = m, np.sqrt(seen[i, i] - gain @ seen[others, i]), y[i]
    return of


def surprised(policy, mean, tasks=600, seed=0):
    """The surprise of agents of one policy by tasks of ``N(mean, COVARIANCE)``, random pulls."""
    rng, values = np.random.default_rng(seed), []
    for means in rng.multivariate_normal(mean, COVARIANCE, tasks):
        agent = Agent(policy, seed=0)
        arms = rng.integers(0, K, 6)
        agent.update(arms, means[arms] + NOISE * rng.standard_normal(6))
        values.append(agent.surprise().value)
    return np.array(values)


@pytest.mark.parametrize(
    "policy",
    [
        MixtureTS(GAUSSIAN, NOISE),
        MixtureTS(GAUSSIAN, NOISE, single_arm=False),
        DiffTS(DiffusionPrior.gaussian(MEAN, COVARIANCE), NOISE, sampler="merged"),
    ],
    ids=["gts-full", "sets of arms", "diffts, one pass"],
)
def test_an_arm_surprises_by_what_the_other_arms_made_expect(policy):
    agent = Agent(policy, arms=list("abcd"), seed=0)
    agent.update([list("abcd")[arm] for arm in ARMS], REWARDS)
    value, by_arm = agent.surprise()
    exact = {
        "abcd"[arm]: (y - m) / std
        for arm, (m, std, y) in expected_of_the_left_out(MEAN, COVARIANCE, ARMS, REWARDS).items()
    }
    assert list(by_arm) == ["a", "b", "c"]  # 'd' was never pulled
    assert by_arm == pytest.approx(exact, abs=1e-4)
    assert value == pytest.approx(np.mean([z**2 for z in exact.values()]), abs=1e-4)


def test_draws_give_the_same_surprise_within_their_error():
    agent, draws = thompson(), 2000
    agent.update(ARMS, REWARDS)
    by_arm = agent.surprise(draws=draws).by_arm
    for arm, (m, std, y) in expected_of_the_left_out(MEAN, COVARIANCE, ARMS, REWARDS).items():
        z, share = (y - m) / std, 1 - NOISE**2 / ARMS.count(arm) / std**2  # s² / (s² + σ²/n)
        # Standard errors of the mean and of the variance of the draws, as they move z.
        error = np.sqrt((share + (share * z) ** 2 / 2) / draws)
        assert abs(by_arm[arm] - z) < 4.5 * error


@pytest.mark.slow
def test_a_belief_that_is_right_has_a_surprise_of_one():
    values = surprised(MixtureTS(GAUSSIAN, NOISE), MEAN)
    assert abs(values.mean() - 1.0) < 4.5 * values.std(ddof=1) / np.sqrt(len(values))


@pytest.mark.slow
def test_wrong_means_surprise():
    wrong = MixtureTS(Gaussian(SPREAD_MEANS[::-1], COVARIANCE), NOISE)
    values = surprised(wrong, SPREAD_MEANS)
    assert values.mean() - 4.5 * values.std(ddof=1) / np.sqrt(len(values)) > 5.0


def test_without_pulls_nobody_is_surprised():
    assert agent_of("gts-full").surprise() == (0.0, {})


def test_one_pulled_arm_is_seen_beside_the_prior():
    agent = agent_of("gts-diag", arms=list("abcd"))
    agent.update(["b", "b"], [1.0, 2.0])
    std = np.sqrt(COVARIANCE[1, 1] + NOISE**2 / 2)
    assert agent.surprise().by_arm == pytest.approx({"b": (1.5 - MEAN[1]) / std}, abs=1e-5)


def test_a_belief_without_a_prior_says_that_it_expects_nothing():
    agent = agent_of("ucb1")
    agent.update(0, 0.5)
    with pytest.raises(InvalidInputError, match="surprise: EmpiricalBelief expects nothing"):
        agent.surprise()
    with pytest.raises(InvalidInputError, match="draws"):
        agent_of("gts-full").surprise(draws=1)


@pytest.mark.parametrize(
    ("arm", "reward", "named"),
    [
        ("e", 1.0, "arm.*'e'"),
        (0, 1.0, "arm"),
        ("a", np.nan, "reward"),
        ("a", np.inf, "reward"),
        ("a", "high", "reward"),
        ("a", [1.0, 2.0], "reward"),
        (["a", "b"], [1.0], "reward"),
        (["a", "e"], [1.0, 2.0], "arm.*'e'"),
        (["a", "b"], [1.0, np.nan], "reward"),
        (["a", []], [1.0, 2.0], "arm"),
    ],
)
def test_bad_updates_are_refused_and_change_nothing(arm, reward, named):
    agent = thompson(arms=list("abcd"))
    agent.choose()
    before = {key: np.array(value) for key, value in agent.state.items()}
    with pytest.raises(InvalidInputError, match=named):
        agent.update(arm, reward)
    for key, value in agent.state.items():
        np.testing.assert_array_equal(value, before[key])


def test_bad_agents_are_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="arms"):
        thompson(arms=["a", "b"])
    with pytest.raises(InvalidInputError, match="arms"):
        thompson(arms=list("aacd"))
    with pytest.raises(InvalidInputError, match="noise_std"):
        ThompsonSampling(DiffusionPrior.gaussian([0.0], [[1.0]]), noise_std=0.0)
    with pytest.raises(InvalidInputError, match="policies"):
        make_policy("gmmts-0", ingredients())
    with pytest.raises(InvalidInputError, match="among"):
        thompson().choose(among=[])
    thompson(arms=list("abcd")).save(tmp_path)
    with pytest.raises(ArtifactError, match="other arms"):
        thompson(arms=list("wxyz")).load(tmp_path)
    with pytest.raises(ArtifactError):
        agent_of("gts-full").state = thompson().state


@pytest.mark.parametrize("bad", [0.0, -1.0, np.inf, np.nan, "loud", None, True, [0.1], 10**400])
@pytest.mark.parametrize(
    "make",
    [
        lambda noise_std: dataclasses.replace(ingredients(), noise=noise_std),
        lambda noise_std: UCB1(K, noise_std),
        lambda noise_std: DiagonalGTS(GAUSSIAN, noise_std),
        lambda noise_std: MixtureTS(GAUSSIAN, noise_std),
        lambda noise_std: BayesUCB(GAUSSIAN, noise_std),
        lambda noise_std: DiffTS(DiffusionPrior.gaussian(MEAN, COVARIANCE), noise_std),
        lambda noise_std: ThompsonSampling(DiffusionPrior.gaussian(MEAN, COVARIANCE), noise_std),
    ],
    ids=["by name", "UCB1", "DiagonalGTS", "MixtureTS", "BayesUCB", "DiffTS", "ThompsonSampling"],
)
def test_the_same_noise_levels_are_refused_everywhere(make, bad):
    with pytest.raises(InvalidInputError, match="noise"):
        make(bad)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: ThompsonSampling("folder", 0.1), "prior.*DiffusionPrior.load"),
        (lambda: ThompsonSampling(None, 0.1), "prior"),
        (lambda: Agent(DiffusionPrior.gaussian([0.0], [[1.0]])), "policy.*ThompsonSampling"),
        (lambda: thompson(arms=[["a"], ["b"], ["c"], ["d"]]), "arms"),
        (lambda: thompson(arms="abcd"), "arms"),
        (lambda: thompson(arms=7), "arms"),
        (lambda: thompson(arms=set("abcd")), "arms"),
        (lambda: thompson(arms=np.array("abcd")), "arms"),
        (lambda: thompson().choose(among=np.array(3)), "among.*list"),
        (lambda: thompson().update(0, 10**400), "reward"),
        (lambda: Agent(MixtureTS(GAUSSIAN, NOISE), actions=TopK(K, 2)), "actions.*single_arm"),
        (lambda: thompson(arms=["sku-001", *"bcd"]).choose(among="sku-001"), "among.*list"),
        (lambda: thompson().choose(among=3), "among.*list"),
        (lambda: thompson().choose(among=[9]), "arm.*9"),
        (lambda: thompson().choose(among=[[0]]), "arm"),
        (lambda: thompson(arms=[(1, 2), (3, 4), 5, 6]).update(np.array([1, 2]), [1, 1]), "arm"),
        (lambda: thompson().update(np.array([[0, 1]]), [1.0]), "arm"),
        (lambda: thompson(seed="lucky"), "seed"),
    ],
)
def test_objects_of_the_wrong_kind_are_named(make, named):
    with pytest.raises(InvalidInputError, match=named):
        make()


def test_tuples_are_names_like_any_other():
    agent = thompson(arms=[(1, 2), (3, 4), "c", "d"])
    agent.update((1, 2), 0.5)
    agent.update([(1, 2), "c"], [0.5, 0.1])
    agent.update(((3, 4), (1, 2)), [0.5, 0.1])  # a tuple of names
    agent.update(np.array([[1, 2], [3, 4]]), [0.2, 0.3])
    assert agent.pulls == {(1, 2): 4, (3, 4): 2, "c": 1, "d": 0}


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (lambda: thompson(sampler="paper"), "sampler"),
        (lambda: thompson(steps=10), "steps"),
        (lambda: ThompsonSampling(DiffusionPrior.gaussian(MEAN, COVARIANCE), 0.4,
                                  steps=20, sampler="moment"), "noise_std: 0.5, here 0.4"),
        (lambda: ThompsonSampling(DiffusionPrior.gaussian(MEAN, 2 * COVARIANCE), NOISE,
                                  steps=20, sampler="moment"), "belief.prior"),
        (lambda: agent_of("ucb1"), "belief: DiffusionBelief, here EmpiricalBelief"),
        (lambda: agent_of("diffts-top-two"), "rule: ThompsonRule, here TopTwoRule"),
    ],
)  # fmt: skip
def test_a_state_is_refused_under_another_policy(tmp_path, other, named):
    agent = thompson()
    play(agent, 3)
    agent.save(tmp_path)
    with pytest.raises(ArtifactError, match=named):
        other().load(tmp_path)
    thompson().load(tmp_path)  # the same one, made anew, takes it


@pytest.mark.parametrize("name", ["gts-full", "gmmts-2", "gts-top-two", "diffts"])
def test_under_another_noise_level_everything_is_worked_out_anew(name, tmp_path):
    agent = agent_of(name)
    agent.update(ARMS, REWARDS)
    agent.save(tmp_path)
    louder = dataclasses.replace(ingredients(), noise=2 * NOISE)
    other, afresh = (Agent(make_policy(name, louder), seed=0) for _ in range(2))
    other.load(tmp_path, other_policy=True)
    afresh.update(ARMS, REWARDS)
    for key, leaf in afresh.state.items():
        if key != "key":
            np.testing.assert_allclose(other.state[key], leaf, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("noise_std", [0.01, 1e-3, 1e-9])
def test_evidence_that_float32_cannot_resolve_is_no_nan(noise_std):
    """Many equal arms, pulled often with next to no noise: indefinite by rounding alone."""
    rng = np.random.default_rng(0)
    loadings = rng.standard_normal((60, 3))
    policy = MixtureTS(Gaussian(np.zeros(60), loadings @ loadings.T), noise_std, single_arm=False)
    truth = jnp.asarray(loadings @ rng.standard_normal(3), jnp.float32)
    update = jax.jit(lambda *given: policy.update(*given))
    state = policy.init()
    for _ in range(100):
        state = update(state, jnp.ones(60, bool), truth)
    np.testing.assert_allclose(moments(policy, state)[0], truth, atol=0.02)
    assert np.isfinite(policy.belief.draw(jax.random.key(0), state, 1)).all()


def test_another_policy_can_be_asked_for(tmp_path):
    agent = thompson()
    play(agent, 3)
    agent.save(tmp_path)
    other = thompson(sampler="paper")
    other.load(tmp_path, other_policy=True)
    assert other.pulls == agent.pulls
