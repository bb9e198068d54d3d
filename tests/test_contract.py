"""One contract for all policies: those with names, every rule, and every belief with every rule."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffts import DiffusionPrior, InvalidInputError
from diffts.bandits import RULES, Agent, BestArm, History, Policy, TopK, beliefs, make_rule
from diffts.bandits.actions import BestOffered, ShortestPath
from diffts.bandits.policies import POLICIES, make_policy
from diffts.diffusion import Gaussian
from diffts.stacking import stack, unstack
from four_arms import (
    ARMS,
    COVARIANCE,
    GAUSSIAN,
    MEAN,
    MIXTURE,
    NOISE,
    REWARDS,
    K,
    after,
    agent_of,
    ingredients,
    play,
)

#: Rules whose policies have names of their own.
NAMED = {"thompson", "top-two", "ucb", "greedy", "bayes-ucb", "epsilon-greedy", "uniform"}
NAMES = [
    *sorted(POLICIES),
    "gmmts-2",
    *(f"gts-diag:{rule}" for rule in RULES if rule not in NAMED and rule != "default"),
]
#: These weigh arms by draws that follow from the state: arms in another order have other ones.
BY_THE_STATES_DRAWS = {"gts-diag:information-directed", "gts-diag:ts-ucb"}


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


def test_seeds_make_play_reproducible(name):
    assert play(agent_of(name, seed=3)) == play(agent_of(name, seed=3))


def test_an_agent_goes_on_identically_from_a_saved_state(name, tmp_path):
    agent = agent_of(name, seed=1)
    play(agent, 5)
    agent.save(tmp_path)
    expected = play(agent, 6, seed=9)
    other = agent_of(name, seed=77)
    other.load(tmp_path)
    assert play(other, 6, seed=9) == expected


def test_a_batch_of_rewards_is_the_same_as_one_by_one(name):
    one, batch = agent_of(name), agent_of(name)
    for arm, reward in zip(ARMS, REWARDS, strict=True):
        one.update(arm, reward)
    batch.update(ARMS, REWARDS)
    for left, right in zip(one.state.values(), batch.state.values(), strict=True):
        np.testing.assert_allclose(left, right, atol=1e-6)


@eqx.filter_jit
def select_many(policy, keys, state):
    return jax.vmap(lambda key: policy.select(key, state, BestArm(K)))(keys)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name not in BY_THE_STATES_DRAWS])
def test_permuting_the_arms_permutes_the_choices_in_law(name):
    order, n = np.array([2, 0, 3, 1]), 4000
    frequencies = []
    for arrangement in (np.arange(K), order):
        policy = make_policy(name, ingredients(order=arrangement))
        position = {arm: i for i, arm in enumerate(arrangement)}
        state = after(policy, [position[arm] for arm in ARMS] + [position[3]], [*REWARDS, 0.3])
        chosen = select_many(policy, jax.random.split(jax.random.key(0), n), state)
        share = np.empty(K)
        share[arrangement] = np.asarray(chosen).mean(0)
        frequencies.append(share)
    error = 4.5 * np.sqrt(np.maximum(frequencies[0] * (1 - frequencies[0]), 1 / n) * 2 / n)
    assert (np.abs(frequencies[0] - frequencies[1]) <= error).all()


def test_what_was_not_played_is_not_read(name):
    policy = make_policy(name, ingredients())
    for leaf in jax.tree.leaves(after(policy)):  # the other arms' rewards are NaN
        assert np.isfinite(np.asarray(leaf, np.float64)).all()


@pytest.mark.slow
def test_sets_of_arms_can_be_played(name):
    actions = TopK(K, 2)
    agent = Agent(make_policy(name, ingredients(actions)), actions=actions, seed=0)
    for _ in range(4):
        chosen = agent.choose()
        assert len(chosen) == 2
        agent.update(chosen, [0.1, 0.2])
    assert sum(agent.pulls.values()) == 8


def test_arms_may_be_restricted(name):
    agent = agent_of(name, arms=list("abcd"))
    for _ in range(5):
        arm = agent.choose(among=["b", "d"])
        assert arm in ("b", "d")
        agent.update(arm, 1.0)


def test_a_good_arm_is_found(name):
    if name == "uniform":
        pytest.skip("uniform play learns nothing, by design")
    agent = agent_of(name)
    rng = np.random.default_rng(0)
    for _ in range(150):
        arm = agent.choose()
        agent.update(arm, float((arm == 3) * 2.0 + 0.1 * rng.standard_normal()))
    assert max(agent.pulls, key=agent.pulls.get) == 3


# --- every belief with every rule ----------------------------------------------------------


def make_belief(kind, single_arm=True):
    if kind is beliefs.EmpiricalBelief:
        return kind(K, NOISE)
    if kind is beliefs.IndependentBelief:
        return kind(GAUSSIAN, NOISE)
    if kind is beliefs.MixtureBelief:
        return kind(MIXTURE, NOISE, single_arm=single_arm)
    if kind is beliefs.NewArmsBelief:
        return kind(
            beliefs.MixtureBelief(PAIR, NOISE, single_arm=single_arm), [0.1, 0.4], [0.5, 0.6]
        )
    prior = DiffusionPrior.gaussian(MEAN, COVARIANCE)
    return kind(prior, NOISE, steps=5, single_arm=single_arm)


PAIR = Gaussian(MEAN[:2], COVARIANCE[:2, :2])  # of four arms, two are new
ABSTRACT = {"Belief", "HistoryBelief", "HistoryState", "State"}
BELIEFS = [getattr(beliefs, name) for name in beliefs.__all__ if name not in ABSTRACT]
each_belief = pytest.mark.parametrize("kind", BELIEFS, ids=lambda kind: kind.__name__)
AT_RANDOM = {"epsilon-greedy": 0.1, "uniform": 1.0}
DETERMINISTIC = {"knowledge-gradient", "bayes-ucb", "ts-ucb", "greedy", "ucb"}
TRUTH = jnp.array([-1.3, -3.3, -2.3, -0.3])
MANY = jnp.array([1000.0, 1000.0, 1000.0, 2000.0])

#: Two cells by two: edges 0 and 3 lead over the right upper corner, 2 and 1 over the left lower.
PATHS = ShortestPath(2, 2, start=[[1, 0, 0, 1], [0, 1, 1, 0]])
ACTIONS = {
    "arm": BestArm(K),
    "among": BestOffered([False, True, True, False]),
    "set": TopK(K, 2),
    "path": PATHS,
}


@functools.cache
def believed(kind, single_arm):
    """A belief, and its states at the start, after a little, and when all is known."""
    belief = make_belief(kind, single_arm)
    start = belief.init()
    action = jnp.arange(K) == 1
    seen = belief.update(start, action, jnp.where(action, 0.5, jnp.nan))
    sure = belief.resume(History(MANY, MANY * TRUTH, MANY * NOISE**2, jnp.int32(5000)))
    return belief, stack([start, seen, sure])


def is_playable(actions, chosen):
    """Of many masks, whether each is an action."""
    if isinstance(actions, ShortestPath):
        return (chosen[..., None, :] == np.asarray(actions.start)).all(-1).any(-1)
    size = 1 if actions.single_arm else actions.k
    return (chosen.sum(-1) == size) & ~(chosen & ~np.asarray(actions.offered)).any(-1)


PLAYED_RULES = [rule for rule in RULES if rule != "default"]  # that is one of the others


def kinds_in_turn(kind, rule):
    """Single arms and one other kind of actions, so that every rule and every belief meet all."""
    possible = [a for a in ACTIONS if ACTIONS[a].arm_by_arm or not make_rule(rule).arm_by_arm]
    first, *others = possible
    return first, others[(BELIEFS.index(kind) + PLAYED_RULES.index(rule)) % len(others)]


def test_in_turn_every_belief_and_every_rule_meet_every_kind_of_actions():
    for kind in BELIEFS:
        assert {a for rule in PLAYED_RULES for a in kinds_in_turn(kind, rule)} == set(ACTIONS)
    for rule in PLAYED_RULES:
        met = {a for kind in BELIEFS for a in kinds_in_turn(kind, rule)}
        assert met == set(ACTIONS) - ({"path"} if make_rule(rule).arm_by_arm else set())


@pytest.mark.slow
@pytest.mark.parametrize("rule", PLAYED_RULES)
@each_belief
def test_every_rule_plays_every_belief(kind, rule):
    """Valid actions from the first round on; where all is known, the best one, but for chance."""
    check_play(kind, rule, kinds_in_turn(kind, rule))


@pytest.mark.long(reason="rule × belief × actions: `make test` has all pairs, not all threes")
@pytest.mark.parametrize("rule", PLAYED_RULES)
@each_belief
def test_every_rule_plays_every_belief_and_every_kind_of_actions(kind, rule):
    arm_by_arm = make_rule(rule).arm_by_arm
    check_play(kind, rule, [a for a in ACTIONS if ACTIONS[a].arm_by_arm or not arm_by_arm])


def check_play(kind, rule, kinds_of_actions):
    made, n = make_rule(rule), 300  # each rule can be made without arguments
    playable = {
        played: (ACTIONS[played], *believed(kind, ACTIONS[played].single_arm))
        for played in kinds_of_actions
    }

    @jax.jit  # all kinds of actions in one program: to compile each takes much longer
    def select(keys):
        chosen = {}
        for played, (actions, belief, states) in playable.items():
            of_states = jax.vmap(Policy(belief, made).select, (None, 0, None))
            chosen[played] = jax.vmap(of_states, (0, None, None))(keys, states, actions)
        return chosen

    for played, chosen in select(jax.random.split(jax.random.key(0), n)).items():
        actions, chosen = ACTIONS[played], np.asarray(chosen)
        assert is_playable(actions, chosen).all(), played
        if rule in DETERMINISTIC:
            assert (chosen == chosen[:1]).all(), played
        right = (chosen[:, 2] == np.asarray(actions.best(TRUTH))).all(-1).mean()
        # Of four arms at random one in four is right, of two one in two, of two paths, too.
        alternatives = {"arm": 4, "among": 2, "set": 6, "path": 2}[played]
        error = AT_RANDOM.get(rule, 0.0) * (1 - 1 / alternatives)
        assert abs(right - (1 - error)) <= 4.5 * np.sqrt(error * (1 - error) / n), played


@pytest.mark.parametrize("rule", [rule for rule in RULES if make_rule(rule).arm_by_arm])
def test_what_compares_arms_one_by_one_is_refused_for_paths(rule):
    policy = Policy(make_belief(beliefs.IndependentBelief), make_rule(rule))
    with pytest.raises(InvalidInputError, match=r"rule: .*no meaning for ShortestPath"):
        policy.check(PATHS)
    with pytest.raises(InvalidInputError, match="rule"):
        Agent(policy, actions=PATHS)


@pytest.mark.parametrize("played", ACTIONS)
@each_belief
def test_every_belief_advises_what_it_knows_to_be_the_best(kind, played):
    actions = ACTIONS[played]
    belief, states = believed(kind, actions.single_arm)
    state = unstack(states, 3)[-1]
    advice = Policy(belief, make_rule("uniform")).advise(state, actions)
    assert advice.action.tolist() == actions.best(TRUTH).tolist()
    assert float(advice.chance) == 1.0
    for leaf in jax.tree.leaves(states):
        assert np.isfinite(leaf).all()


@pytest.mark.parametrize("actions", [BestArm(K), TopK(K, 2)], ids=["arm", "set"])
@each_belief
def test_every_belief_says_how_surprised_it_is(kind, actions):
    asked, silent = (
        Agent(
            Policy(make_belief(kind, actions.single_arm), make_rule("thompson")),
            actions=actions,
            seed=0,
        )
        for _ in range(2)
    )
    for agent in (asked, silent):
        agent.update([0, 1], [3.0, -3.0])
        agent.update([1, 3], [-3.0, 0.3])
    if kind is beliefs.EmpiricalBelief:
        with pytest.raises(InvalidInputError, match="surprise"):
            asked.surprise()
        return
    value, by_arm = asked.surprise()
    assert value > 4.0
    assert value == pytest.approx(np.mean(np.square(list(by_arm.values()))))
    assert by_arm.keys() == {0, 1, 3}
    assert by_arm[0] > 2.0
    assert by_arm[1] < -2.0
    assert asked.surprise() == (value, by_arm)
    assert [asked.choose() for _ in range(5)] == [silent.choose() for _ in range(5)]


@pytest.mark.slow
@each_belief
def test_several_draws_are_those_of_the_split_keys(kind):
    belief, states = believed(kind, True)
    state, key = unstack(states, 3)[1], jax.random.key(3)
    for one, drawn in zip(jax.random.split(key, 3), belief.draw(key, state, 3), strict=True):
        np.testing.assert_allclose(belief.draw(one, state, 1)[0], drawn, rtol=1e-4, atol=1e-4)


@each_belief
def test_the_states_own_draws_change_with_the_state_alone(kind):
    belief, states = believed(kind, True)
    start, seen, _ = unstack(states, 3)
    np.testing.assert_array_equal(belief.sample(seen, 3), belief.sample(seen, 3))
    action = jnp.arange(K) == 1
    later = belief.update(seen, action, jnp.where(action, 0.5, jnp.nan))
    drawn = [np.asarray(belief.sample(state, 3)) for state in (start, seen, later)]
    # Standardised, draws of other states by the same key would be the same.
    centred = [(draws - draws.mean(0)) / draws.std(0) for draws in drawn]
    for one, other in [(0, 1), (1, 2)]:
        assert not np.allclose(centred[one], centred[other], atol=0.01)


@pytest.mark.parametrize("single_arm", [True, False], ids=["arm", "set"])
@each_belief
def test_moments_and_quantiles_are_those_of_the_draws(kind, single_arm):
    belief, states = believed(kind, single_arm)
    state, n = unstack(states, 3)[1], 2000  # a quantile of n draws compares n² of them
    sample = belief.sample(state, n)
    mean, std = belief.moments(state, sample)
    upper = belief.quantile(state, jnp.float32(0.9), sample)
    draws = np.asarray(belief.draw(jax.random.key(1), state, n), np.float64)
    sd = draws.std(0)
    assert (np.abs(mean - draws.mean(0)) < 4.5 * sd * np.sqrt(2 / n)).all()
    # Twice the Gaussian error of a standard deviation: the kurtosis of a mixture is moderate.
    assert (np.abs(std / sd - 1) < 2 * 4.5 * np.sqrt(0.5 / (n - 1) + 0.5 / n)).all()
    below = (draws <= np.asarray(upper)).mean(0)
    assert (np.abs(below - 0.9) < 4.5 * np.sqrt(0.09 * 2 / n)).all()
