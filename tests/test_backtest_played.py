"""A belief and a rule beside a log: chances after its rounds, and replays on rounds of its own."""

import numpy as np
import pytest

from diffts.backtest import LoggedRounds, NoOverlapError, Played, backtest
from diffts.bandits import simulate
from diffts.bandits.noise import BernoulliNoise, FixedNoise
from diffts.bandits.rewards import GaussianRewards
from diffts.diffusion.exact import Gaussian
from diffts.errors import InvalidInputError
from diffts.fitting import Fitted, NewArms

ARMS = ("red", "green", "blue", "grey")
MEAN = np.array([0.5, 0.4, 0.6, 0.3])
COVARIANCE = 0.09 * (0.6 * np.eye(4) + 0.4)
NOISE = 0.3


def fitted(noise=None, kind="gaussian", **facts):
    law = Gaussian(MEAN, COVARIANCE if kind == "gaussian" else np.diag(np.diag(COVARIANCE)))
    return Fitted(kind, law, ARMS, noise or FixedNoise(NOISE), NewArms(0.4, 0.1, 0.3), facts)


def logged(tasks, length, chances, seed=0):
    """Tasks from the belief's own law, played by fixed chances."""
    random = np.random.default_rng(seed)
    means = random.multivariate_normal(MEAN, COVARIANCE, tasks)
    task = np.repeat(np.arange(tasks), length)
    arm = random.choice(4, size=len(task), p=chances)
    reward = means[task, arm] + random.normal(0, NOISE, len(task))
    names = [f"task {number:05d}" for number in task]
    chances = np.asarray(chances)[arm]
    return LoggedRounds.of(names, np.asarray(ARMS)[arm], reward, chances, arms=ARMS), means


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gaussian", "independent"])
@pytest.mark.parametrize("noise", [FixedNoise(NOISE), BernoulliNoise(0.4)])
def test_chances_are_those_of_an_agent_that_saw_the_same_rounds(kind, noise):
    rounds, _ = logged(2, 4, [0.25] * 4)
    reward = rounds.reward > 0.5 if isinstance(noise, BernoulliNoise) else rounds.reward
    names, everything = np.asarray(ARMS)[rounds.arm], [ARMS] * 8
    rounds = LoggedRounds.of(
        rounds.task, names, reward, rounds.propensity, offered=everything, arms=ARMS
    )
    belief, draws = fitted(noise, kind), 2000
    thompson = Played(belief.policy("thompson"), draws=draws).chances(rounds, 0, 8).by_arm
    default = Played(belief.policy("default"), draws=3).chances(rounds, 0, 8).by_arm
    for first in (0, 4):
        agents = {rule: belief.agent(rule, seed=1) for rule in ("thompson", "default")}
        for place in range(first, first + 4):
            shares = agents["thompson"].probabilities(draws).by_arm
            gap = thompson[place] - [shares[arm] for arm in ARMS]
            spread = np.sqrt(2 * thompson[place] * (1 - thompson[place]) / draws)
            assert (np.abs(gap) < 4.5 * spread + 3 / draws).all()
            chosen = agents["default"].choose()
            assert default[place].tolist() == [float(arm == chosen) for arm in ARMS]  # 0 and 1
            for agent in agents.values():
                agent.update(ARMS[rounds.arm[place]], rounds.reward[place])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "chances"), [("default", [0.25] * 4), ("thompson", [0.4, 0.3, 0.1, 0.2])]
)
def test_a_replay_is_as_if_the_policy_had_played(chances, rule):
    """Its first three accepted rounds of a task earn what three rounds of a simulation do."""
    rounds, means = logged(1500, 70, chances)
    policy = fitted().policy(rule)
    accepted = Played(policy).accepted(rounds, np.ones(len(rounds)), None, 0)
    # c = 1/min p: a round is accepted with the chance Σ_a p π/(c p) = min p, whatever happens.
    share = min(chances)
    error = np.sqrt(share * (1 - share) / len(rounds))
    assert abs(accepted.mean() - share) < 4 * error
    table = np.where(accepted, rounds.reward, np.nan).reshape(1500, 70)
    order = np.cumsum(~np.isnan(table), axis=1)
    full = order[:, -1] >= 3
    assert full.mean() > 0.95
    earned = np.nansum(np.where(order <= 3, table, np.nan), axis=1)[full] / 3
    run = simulate(
        policy, means, GaussianRewards(NOISE), horizon=3, record_every=1, seed=1
    )  # the same tasks, other rewards
    played = means.max(axis=1) - run.regret[-1] / 3
    error = np.hypot(earned.std(), np.hypot(played.std(), NOISE / np.sqrt(3))) / np.sqrt(1400)
    assert abs(earned.mean() - played.mean()) < 4 * error
    assert earned.mean() > np.dot(chances, MEAN) + 5 * error  # it has learned


@pytest.mark.slow
def test_values_of_a_fitted_belief():
    """The value of a policy after the logged rounds: known here, since the means of tasks are."""
    rounds, means = logged(400, 12, [0.4, 0.3, 0.1, 0.2])
    belief = fitted(tasks=["another"])
    result = backtest(belief, rounds, baselines=["logged"], seed=2)
    for rule in ("default", "thompson"):
        by_arm = Played(belief.policy(rule), seed=2).chances(rounds, 0, len(rounds)).by_arm
        truth = np.sum(by_arm * means[rounds.task], axis=1).mean()
        for name in ("ips", "snips", "direct", "dr", "sndr"):
            found = result[rule, name]
            assert abs(found.value - truth) < 4 * found.stderr
            if name in ("dr", "sndr"):  # a good model makes up for rare arms
                assert found.stderr < 0.8 * result[rule, "ips"].stderr
    assert result["default", "dr"].gain > 4 * result["default", "dr"].gain_stderr
    assert result.facts["tasks_learned_on"] == 0
    assert not result.warnings
    assert result.support["default"].deterministic
    assert abs(result.support["default"].mean_weight - 1) < 4 * (
        result.support["default"].mean_weight_stderr
    )


@pytest.mark.parametrize("rule", ["greedy", "thompson"])
def test_a_round_is_not_judged_by_its_own_reward(rule):
    """Pure noise. Who knew a round's reward beforehand would play its arm when it is high."""
    random = np.random.default_rng(0)
    arm = random.integers(4, size=2000)
    reward = random.normal(0.5, 0.3, 2000)
    task = np.arange(2000) // 4
    rounds = LoggedRounds.of(task, np.asarray(ARMS)[arm], reward, np.full(2000, 0.25), arms=ARMS)
    flat = Fitted(
        "independent", Gaussian(np.full(4, 0.5), 0.25 * np.eye(4)), ARMS, FixedNoise(0.1),
        NewArms(0.5, 0.1, 0.5),
    )  # fmt: skip
    leaky = np.where((reward > 0.5)[:, None], np.eye(4)[arm], (1 - np.eye(4)[arm]) / 3)
    result = backtest({"own": flat, "leaky": leaky}, rounds, rules=[rule], baselines=())
    for name in ("ips", "snips", "dr", "sndr", "replay"):
        assert abs(result["own", name].value - 0.5) < 4 * result["own", name].stderr
    for name in ("snips", "sndr"):
        assert result["leaky", name].value > 0.6
        assert result["leaky", name].value - 0.5 > 10 * result["leaky", name].stderr


@pytest.mark.slow
def test_blocks_of_rounds_change_nothing(monkeypatch):
    rounds, _ = logged(5, 9, [0.25] * 4)
    whole = backtest(fitted(), rounds, draws=20)
    monkeypatch.setattr("diffts.backtest.judge.BLOCK", 4 * 7)  # 7 rounds: tasks are cut
    pieces = backtest(fitted(), rounds, draws=20)
    for one, other in zip(whole.rows, pieces.rows, strict=True):
        assert one.estimate == pytest.approx(other.estimate, rel=1e-4, nan_ok=True)


@pytest.mark.slow
def test_tasks_that_were_learned_on_are_told():
    rounds, _ = logged(6, 5, [0.25] * 4)
    told = backtest(fitted(tasks=["task 00001", "x"]), rounds, rules=["thompson"], draws=5)
    assert told.facts["tasks_learned_on"] == 1
    assert any("1 of 6 tasks are among those" in line for line in told.warnings)
    untold = backtest(fitted(), rounds, rules=["thompson"], draws=5)
    assert any("does not say which tasks" in line for line in untold.warnings)
    others = rounds.of_tasks([name for name in rounds.tasks if name != "task 00001"])
    assert backtest(fitted(tasks=["task 00001"]), others, rules=["greedy"]).facts["tasks"] == 5


@pytest.mark.slow
def test_arms_that_the_log_does_not_have_are_not_played():
    rounds, _ = logged(20, 6, [0.5, 0.3, 0.2, 0.0])
    result = backtest(fitted(), rounds, rules=["thompson"], draws=20)
    assert any("1 of 4 arms are not in the log" in line for line in result.warnings)
    assert result.support["thompson"].share_on_logged_arms == pytest.approx(1.0)
    assert result["uniform", "ips"].ess < len(rounds)


def test_arms_on_offer():
    """Only what was on offer is played, by name."""
    task, arm = ["a", "a", "b", "b"], ["red", "green", "green", "blue"]
    offered = [["red", "green"], ["green", "blue"], ["green"], ["blue", "red"]]
    rounds = LoggedRounds.of(task, arm, [0.1, 0.2, 0.3, 0.4], uniform=True, offered=offered)
    assert rounds.propensity.tolist() == [0.5, 0.5, 1.0, 0.5]
    rounds = rounds.with_arms(ARMS)
    chances = Played(fitted().policy("thompson"), draws=50).chances(rounds, 0, 4).by_arm
    assert chances.sum(axis=1) == pytest.approx(1.0)
    for row, some in zip(chances, offered, strict=True):
        assert all(chance == 0 or name in some for name, chance in zip(ARMS, row, strict=True))


def test_what_a_belief_cannot_explain_is_refused():
    rounds, _ = logged(4, 5, [0.25] * 4)
    with pytest.raises(InvalidInputError, match="must be from 0 to 1 with noise BernoulliNoise"):
        backtest(fitted(BernoulliNoise(0.4)), rounds)
    unknown = LoggedRounds.of(["a"], ["pink"], [1.0], [0.5])
    with pytest.raises(InvalidInputError, match=r"1 arm.* not among the policy's arms.*'pink'"):
        backtest(fitted(), unknown)
    sure = LoggedRounds.of(np.arange(40), np.asarray(ARMS)[np.arange(40) % 4], np.ones(40),
                           np.ones(40))  # fmt: skip
    with pytest.raises(NoOverlapError, match=r"default: no overlap: 75% of its choices had no"):
        backtest(fitted(), sure, rules=["default"])
    # The baseline of the log itself is still judged, where somebody asks for it alone.
    assert backtest("logged", sure, baselines=())["logged", "ips"].value == 1.0
