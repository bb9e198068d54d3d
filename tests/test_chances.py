"""Chances: with which an arm is played, is the best, or is the one to settle for."""

import jax
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import chisquare, norm

from diffts import DiffusionPrior, InvalidInputError
from diffts.bandits import RULES, Agent, BestArm, Policy, ThompsonSampling, TopK, simulate
from diffts.bandits.actions import BestOffered
from diffts.bandits.beliefs import IndependentBelief
from diffts.bandits.policies import DiagonalGTS, MixtureTS
from diffts.bandits.policy import ADVICE_DRAWS
from diffts.bandits.rules import GreedyRule, KnowledgeGradientRule, ThompsonRule
from diffts.diffusion import Gaussian
from diffts.problems import GaussianRewards
from diffts.stacking import layout
from four_arms import ARMS, MIXTURE, NOISE, REWARDS, ingredients, make_policy

TWO = Gaussian(np.array([0.5, 0.2]), np.diag([0.5, 0.3]) ** 2)
#: That the first of two is the better one.
FIRST = norm.cdf(0.3 / np.hypot(0.5, 0.3))
THREE = Gaussian(np.array([0.3, 0.5, 0.1]), np.diag([0.4, 0.1, 0.6]) ** 2)


def chances_of_being_best(prior):
    """Of independent Gaussian arms, each one's chance to be the best, by quadrature."""
    arms = [norm(m, s) for m, s in zip(prior.mean, prior.std, strict=True)]

    def at(x, a):
        return arms[a].pdf(x) * np.prod([arm.cdf(x) for b, arm in enumerate(arms) if b != a])

    return np.array([quad(at, -6, 6, (a,), points=[0.1, 0.5])[0] for a in range(len(arms))])


def played(policy, actions, n=6000, state=None):
    """Choices ``(n, K)`` of a policy in its first round."""
    state = policy.init() if state is None else state
    keys = jax.random.split(jax.random.key(2), n)
    return np.asarray(jax.jit(jax.vmap(lambda key: policy.select(key, state, actions)))(keys))


def agree(counts, chances):
    """Chi-squared: whether counts are those of these chances."""
    possible = np.asarray(chances) > 0
    assert (counts[~possible] == 0).all()
    return chisquare(counts[possible], counts.sum() * np.asarray(chances)[possible]).pvalue > 1e-4


# --- the floor -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("floor", "expected"), [(0.05, 0.05), (0.2, 0.2), (0.5, 1 / 3), (1.0, 1 / 3)]
)
def test_a_floor_is_mixed_with_what_the_rule_does(floor, expected):
    """``p = f + (1 - nf) w``; a floor above 1/n is uniform play."""
    chances = chances_of_being_best(THREE)
    assert chances.sum() == pytest.approx(1)
    mixed = expected + (1 - 3 * expected) * chances
    counts = played(DiagonalGTS(THREE, NOISE).playing("thompson", floor=floor), BestArm(3)).sum(0)
    assert agree(counts, mixed)
    assert not agree(counts, chances)


def test_a_floor_is_shared_by_the_arms_on_offer():
    policy = DiagonalGTS(THREE, NOISE).playing("greedy", floor=0.1)
    counts = played(policy, BestOffered([True, False, True])).sum(0)
    assert agree(counts, [0.9, 0.0, 0.1])  # of two on offer; the best of all is not
    counts = played(policy, BestOffered([False, False, True])).sum(0)
    assert counts.tolist() == [0, 0, 6000]


@pytest.mark.slow
def test_every_rule_takes_a_floor():
    """Whatever it would do: the others' share is ``f``, but for the rules' own chance."""
    base, n = DiagonalGTS(THREE, NOISE), 2000
    state = base.init()
    policies = {rule: (base.playing(rule, floor=0.1), base.playing(rule)) for rule in RULES}

    @jax.jit  # all rules in one program: to compile each takes much longer
    @jax.vmap
    def choices(key):
        return {
            rule: [policy.select(key, state, BestArm(3)) for policy in both]
            for rule, both in policies.items()
        }

    for rule, chosen in choices(jax.random.split(jax.random.key(2), n)).items():
        floored, without = (np.asarray(of_policy).mean(0) for of_policy in chosen)
        expected = 0.1 + 0.7 * without
        error = 4.5 * np.sqrt((expected * (1 - expected) + 0.49 * without * (1 - without)) / n)
        assert (np.abs(floored - expected) <= error).all(), rule
        assert floored.min() > 0.1 - 4.5 * np.sqrt(0.09 / n), rule


def test_where_actions_are_sets_every_arm_has_the_floor():
    prior = Gaussian(np.arange(5.0), 1e-4 * np.eye(5))
    actions, floor, n = TopK(5, 2), 0.15, 6000
    policy = DiagonalGTS(prior, NOISE).playing("greedy", floor=floor)
    counts = played(policy, actions, n).sum(0)
    cover = np.asarray(actions.cover())
    expected = floor * cover.sum(0) + (1 - floor * len(cover)) * np.array([0, 0, 0, 1, 1])
    assert (expected >= floor).all()
    assert (np.abs(counts / n - expected) < 4.5 * np.sqrt(expected * (1 - expected) / n)).all()


@pytest.mark.parametrize("bad", [-0.1, 1.5, np.nan, "much", True])
def test_a_bad_floor_is_refused(bad):
    with pytest.raises(InvalidInputError, match="floor"):
        DiagonalGTS(TWO, NOISE).playing("greedy", floor=bad)


def test_a_floor_stays_when_the_rule_is_another():
    policy = DiagonalGTS(TWO, NOISE).playing("greedy", floor=0.25)
    assert float(policy.playing("thompson").floor) == 0.25
    assert float(Agent(policy, rule="thompson").policy.floor) == 0.25
    assert DiagonalGTS(TWO, NOISE).playing("greedy").floor is None


# --- probabilities of choice ---------------------------------------------------------------


def test_thompson_samplings_probabilities_are_those_of_being_the_best():
    draws = 4000
    got = Agent(DiagonalGTS(TWO, NOISE), arms=["a", "b"], seed=0).probabilities(draws)
    counts = np.round(draws * np.array([got.by_arm["a"], got.by_arm["b"]]))
    assert agree(counts, [FIRST, 1 - FIRST])
    got = Agent(DiagonalGTS(THREE, NOISE), seed=1).probabilities(draws)
    assert agree(
        np.round(draws * np.array(list(got.by_arm.values()))), chances_of_being_best(THREE)
    )


def test_with_a_floor_the_probabilities_are_those_that_are_played():
    draws = 4000
    agent = Agent(DiagonalGTS(TWO, NOISE), floor=0.1, seed=0)
    counts = np.round(draws * np.array(list(agent.probabilities(draws).by_arm.values())))
    assert agree(counts, 0.1 + 0.8 * np.array([FIRST, 1 - FIRST]))


#: Means in closed form and quantiles of draws; and nothing in closed form. That these rules are
#: deterministic with every belief is in test_contract.py.
BELIEFS = {
    "gmmts": lambda: MixtureTS(MIXTURE, NOISE),
    "diffts": lambda: make_policy("diffts", ingredients()),
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["greedy", "knowledge-gradient", "bayes-ucb", "ts-ucb"])
@pytest.mark.parametrize("belief", BELIEFS)
def test_deterministic_rules_choose_with_probability_one(belief, rule):
    agent = Agent(BELIEFS[belief](), rule=rule, seed=0)
    agent.update(ARMS, REWARDS)
    by_arm = agent.probabilities(250).by_arm
    arm, chance, draws = agent.decide(draws=250)
    assert sorted(by_arm.values()) == [0.0, 0.0, 0.0, 1.0]
    assert (by_arm[arm], chance, draws) == (1.0, 1.0, 250)


# --- decisions for a log -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["thompson", "information-directed", "greedy"])
def test_a_decision_is_the_choice_and_its_chance(rule):
    choosing, deciding = (Agent(DiagonalGTS(THREE, NOISE), rule=rule, seed=4) for _ in range(2))
    for round_ in range(8):
        among = [0, 2] if round_ % 2 else None
        arm, chance, draws = deciding.decide(among, draws=10)
        assert arm == choosing.choose(among)
        assert draws == 10
        assert 1 / 10 <= chance <= 1
        for agent in (choosing, deciding):
            agent.update(arm, 0.1 * round_)


@pytest.mark.slow
def test_inverse_propensities_are_right_on_average():
    """``E 1[A = a] / chance = 1 - (1 - p_a)^n``: unbiased, but for an arm that no choice had."""
    agent, n, decisions = Agent(DiagonalGTS(TWO, NOISE), seed=0), 10, 500
    logged = [agent.decide(draws=n) for _ in range(decisions)]
    for arm, p in [(0, FIRST), (1, 1 - FIRST)]:
        weights = np.array([(one.arm == arm) / one.chance for one in logged])
        error = weights.std(ddof=1) / np.sqrt(decisions)
        assert error < 0.1
        assert abs(weights.mean() - (1 - (1 - p) ** n)) < 4.5 * error


# --- advice --------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
FACTORS = RNG.normal(size=(5, 2))
WORLD = Gaussian(np.zeros(5), FACTORS @ FACTORS.T + 0.2 * np.eye(5))


@pytest.mark.slow
@pytest.mark.parametrize("horizon", [1, 12])
def test_advice_is_right_as_often_as_it_says(horizon):
    """In the very world that the prior describes: mean chance and share right, task by task."""
    n = 2000
    tasks = RNG.multivariate_normal(WORLD.mean, WORLD.covariance, n)
    policy = MixtureTS(WORLD, 1.0)
    run = simulate(policy, tasks, GaussianRewards(std=1.0), horizon=horizon, seed=0)
    right = run.simple_regret[-1] <= 1e-6
    off = right - run.chance_right[-1]
    assert 0.3 < right.mean() < 0.9
    assert abs(off.mean()) < 4.5 * off.std(ddof=1) / np.sqrt(n)


@pytest.mark.slow
def test_advice_is_the_best_mean_and_its_chance_whatever_the_rule():
    base = DiagonalGTS(THREE, NOISE)
    state = base.init()
    for rule in RULES:
        advice = base.playing(rule, floor=0.2).advise(state, BestArm(3))
        assert advice.action.tolist() == [False, True, False]
        chance = float(advice.chance)
        assert chance == float(base.advise(state, BestArm(3)).chance)
    exact = chances_of_being_best(THREE)[1]
    assert abs(chance - exact) < 4.5 * np.sqrt(exact * (1 - exact) / ADVICE_DRAWS)


def test_advice_is_among_what_is_on_offer():
    agent = Agent(DiagonalGTS(THREE, NOISE), arms=list("abc"), seed=0)
    assert agent.advice().arm == "b"
    arm, chance = agent.advice(among=["a", "c"])
    assert arm == "a"
    exact = norm.cdf(0.2 / np.hypot(0.4, 0.6))
    assert abs(chance - exact) < 4.5 * np.sqrt(exact * (1 - exact) / ADVICE_DRAWS)
    assert agent.advice(among=["c"]) == ("c", 1.0)


def test_advice_uses_what_the_agent_knows_and_changes_nothing():
    asked, silent = (Agent(DiagonalGTS(THREE, NOISE), seed=0) for _ in range(2))
    for agent in (asked, silent):
        agent.update([2] * 30, [2.0] * 30)
    assert asked.advice() == (2, 1.0)
    asked.probabilities(10)
    assert [asked.choose() for _ in range(5)] == [silent.choose() for _ in range(5)]


# --- the horizon ---------------------------------------------------------------------------


@pytest.mark.slow
def test_the_simulator_tells_a_rule_its_horizon():
    tasks = np.random.default_rng(0).normal(size=(30, 3))
    settings = {"rewards": GaussianRewards(std=1.0), "horizon": 40, "seed": 0}
    policy = DiagonalGTS(Gaussian(np.zeros(3), np.eye(3)), 1.0)
    named = simulate(policy, tasks, rule="knowledge-gradient", **settings)
    told = simulate(policy.playing(KnowledgeGradientRule(horizon=40)), tasks, **settings)
    untold = simulate(policy.playing(KnowledgeGradientRule()), tasks, **settings)
    np.testing.assert_array_equal(named.chosen, told.chosen)
    assert (named.chosen != untold.chosen).any()
    other = simulate(policy, tasks, rule=GreedyRule(), **settings)
    assert other.mean_regret[-1] > named.mean_regret[-1]


def test_an_agent_tells_a_rule_its_horizon():
    policy = DiagonalGTS(TWO, NOISE)
    assert float(Agent(policy, rule="knowledge-gradient", horizon=30).policy.rule.horizon) == 30
    assert float(Agent(policy, rule="satisficing", horizon=30).policy.rule.horizon) == 30
    assert Agent(policy, rule="knowledge-gradient").policy.rule.horizon is None
    prior = DiffusionPrior.gaussian([0.0, 0.0], np.eye(2))
    agent = ThompsonSampling(prior, 0.1, rule="knowledge-gradient", horizon=9, floor=0.1, steps=2)
    assert float(agent.policy.rule.horizon) == 9
    assert float(agent.policy.floor) == pytest.approx(0.1)
    assert isinstance(ThompsonSampling(prior, 0.1, steps=2).policy.rule, ThompsonRule)
    # The first arm is known, the second is worse on average: worth a look, with rounds to come.
    known = IndependentBelief(Gaussian(np.array([0.5, 0.2]), np.diag([1e-6, 0.25])), NOISE)
    for horizon, arm in [(1, 0), (200, 1)]:
        agent = Agent(Policy(known, ThompsonRule()), rule="knowledge-gradient", horizon=horizon)
        assert agent.choose() == arm


@pytest.mark.parametrize("rule", ["knowledge-gradient", "satisficing"])
def test_another_horizon_is_no_other_program(rule, caplog):
    policy = DiagonalGTS(THREE, NOISE)
    assert layout(policy.playing(rule, horizon=5)) == layout(policy.playing(rule, horizon=50))
    first, second, without = (
        Agent(policy, rule=rule, horizon=horizon, seed=0) for horizon in (31, 32, None)
    )

    def compiled(agent):
        caplog.clear()
        with jax.log_compiles():
            agent.choose()
        return sum("Compiling" in record.getMessage() for record in caplog.records)

    assert compiled(first) > 0
    assert compiled(second) == 0
    assert compiled(without) > 0  # it does see programs being compiled
