"""Off-policy estimates against closed forms, on simulated logs whose truth is known.

Rewards are ``r = μ_a + b_i + σ ε`` with a part ``b_i ~ N(0, τ²)`` of the task: its rounds depend on
each other. The log plays by chances p, the policy judged by π; its value is ``V = Σ π μ``.
"""

import dataclasses
import functools

import numpy as np
import pytest

from diffts.backtest import ESTIMATORS, LoggedRounds, backtest, effective_size

MEANS = np.array([0.2, 0.5, 0.9, 0.4])
LOGGING = np.array([0.4, 0.3, 0.1, 0.2])
POLICY = np.array([0.1, 0.2, 0.5, 0.2])
WRONG = np.array([0.6, 0.1, 0.5, 0.0])  # a model of rewards that is off
NOISE, SPREAD, TASKS, LENGTH = 0.5, 0.6, 60, 10
ROUNDS = TASKS * LENGTH
VALUE = float(POLICY @ MEANS)
RATIO = POLICY**2 / LOGGING  # E[w²] is its sum
LOGS = 400


def simulated(seed, means=MEANS, logging=LOGGING, tasks=TASKS, length=LENGTH, spread=SPREAD):
    random = np.random.default_rng(seed)
    task = np.repeat(np.arange(tasks), length)
    arm = random.choice(len(means), size=len(task), p=logging)
    reward = means[arm] + random.normal(0, spread, tasks)[task]
    reward += random.normal(0, NOISE, len(task))
    return LoggedRounds.of(task, arm, reward, logging[arm], arms=range(len(means)))


def judged(rounds, policy=POLICY, **how):
    chances = np.tile(policy, (len(rounds), 1))
    result = backtest({"new": chances}, rounds, **{"baselines": (), **how})
    return {row.estimator: row.estimate for row in result.rows}


@functools.cache
def many():
    """Values, standard errors and intervals over many logs, by estimator: ``(logs, 4)``."""
    found = []
    for seed in range(LOGS):
        model = np.tile(WRONG, (ROUNDS, 1))
        found.append(judged(simulated(seed), model=model, clip=3.0, seed=seed))
    columns = ("value", "stderr", "low", "high")
    return {
        name: np.array([[getattr(log[name], column) for column in columns] for log in found])
        for name in ESTIMATORS
    }


def truth(name):
    """What an estimator has on average: the value, but for biases in closed form."""
    if name == "direct":
        return POLICY @ WRONG
    if name == "clipped-ips":
        return np.minimum(POLICY, 3.0 * LOGGING) @ MEANS
    # Of Σwv/Σw, to second order: -Σ π²/p (v - V) / R.
    if name == "snips":
        return VALUE - RATIO @ (MEANS - VALUE) / ROUNDS
    if name == "sndr":
        rest = MEANS - WRONG
        return VALUE - RATIO @ (rest - POLICY @ rest) / ROUNDS
    return VALUE


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_mean_over_many_logs_is_the_true_value(name):
    values = many()[name][:, 0]
    error = values.std(ddof=1) / np.sqrt(LOGS)
    assert abs(values.mean() - truth(name)) < 4 * error + 1e-12
    if name != "direct":
        assert error < 0.01  # it could have failed: the value of the log itself is 0.17 lower
        assert 10 * error < VALUE - LOGGING @ MEANS


def test_the_variance_of_ips_is_that_of_its_closed_form():
    """``(τ² + (Σ π²/p (μ² + τ² + σ²) - V² - τ²)/n) / N``; the relative error is √(2/logs)."""
    within = RATIO @ (MEANS**2 + SPREAD**2 + NOISE**2) - VALUE**2 - SPREAD**2
    variance = (SPREAD**2 + within / LENGTH) / TASKS
    values, errors = many()["ips"][:, 0], many()["ips"][:, 1]
    tolerance = 4 * np.sqrt(2 / LOGS)
    assert abs(values.var(ddof=1) / variance - 1) < tolerance
    # As estimated from one log: some 60 tasks each, 400 logs.
    assert abs((errors**2).mean() / variance - 1) < 4 * np.std(errors**2) / variance / 20
    # Rounds taken for independent would have it much too small.
    assert (within + SPREAD**2) / ROUNDS < (1 - tolerance) * variance


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "direct"])
def test_intervals_cover_as_often_as_they_say(name):
    low, high = many()[name][:, 2], many()[name][:, 3]
    covered = np.mean((low <= truth(name)) & (truth(name) <= high))
    assert abs(covered - 0.95) < 4 * np.sqrt(0.95 * 0.05 / LOGS)


def test_gains_over_the_log_are_paired_by_task():
    gains = [judged(simulated(seed), estimators=["dr"])["dr"] for seed in range(100)]
    truly = VALUE - LOGGING @ MEANS
    off = np.array([(one.gain - truly) / one.gain_stderr for one in gains])
    assert abs(off.mean()) < 4 / np.sqrt(100)
    assert abs(off.std() - 1) < 4 / np.sqrt(2 * 100)
    assert all(one.gain_stderr < one.stderr for one in gains)  # the tasks' own part cancels


def test_effective_size_is_that_of_kish():
    rounds = simulated(0)
    weights = (POLICY / LOGGING)[rounds.arm]
    expected = weights.sum() ** 2 / (weights**2).sum()
    assert judged(rounds)["ips"].ess == pytest.approx(expected)
    assert effective_size(np.ones(7)) == 7
    # Over many rounds: R / Σ π²/p.
    long = simulated(1, tasks=1000, length=100)
    spread = np.sqrt(np.var((POLICY / LOGGING)[long.arm] ** 2) / len(long)) / RATIO.sum()
    assert judged(long)["ips"].ess == pytest.approx(len(long) / RATIO.sum(), rel=6 * spread)


def test_a_perfect_model_is_exact():
    """Without noise, d = V and r = q in every round: nothing is left to chance."""
    random = np.random.default_rng(0)
    arm = random.choice(4, size=200, p=LOGGING)
    rounds = LoggedRounds.of(np.arange(200) // 10, arm, MEANS[arm], LOGGING[arm], arms=range(4))
    found = judged(rounds, model=np.tile(MEANS, (200, 1)))
    for name in ("direct", "dr", "sndr"):
        assert found[name].value == pytest.approx(VALUE, abs=1e-12)
    assert abs(found["ips"].value - VALUE) > 1e-3


@pytest.mark.parametrize("name", ["snips", "sndr", "replay", "dr"])
def test_a_shift_of_all_rewards_shifts_the_value(name):
    rounds = simulated(3)
    shifted = dataclasses.replace(rounds, reward=rounds.reward + 100.0)
    model = np.tile(WRONG, (ROUNDS, 1))
    one = judged(rounds, model=model)[name]
    moved = 100.0 if name == "dr" else 0.0  # with a model that is shifted, too
    other = judged(shifted, model=model + moved)[name]
    assert other.value - one.value == pytest.approx(100.0, abs=1e-9)
    assert other.stderr == pytest.approx(one.stderr, rel=1e-9)


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "direct"])
def test_the_policy_of_the_log_has_the_mean_reward(name):
    rounds = simulated(4)
    result = backtest("logged", rounds, estimators=[name], baselines=())
    assert result["logged", name].value == pytest.approx(rounds.reward.mean(), abs=1e-12)
    assert (result["logged", name].gain, result["logged", name].gain_stderr) == (0, 0)


def test_policies_by_name():
    rounds = simulated(5, tasks=400)
    result = backtest({"best": "arm:2", "all": "uniform"}, rounds, estimators=["snips"])
    assert {row.policy for row in result.rows} == {
        "logged", "uniform", "most-popular", "best", "all"
    }  # fmt: skip
    best = result["best", "snips"]
    assert abs(best.value - 0.9) < 4 * best.stderr
    assert best.value == pytest.approx(rounds.reward[rounds.arm == 2].mean())
    assert result["most-popular", "snips"] == best  # found in every part of the tasks
    assert abs(result["all", "snips"].value - MEANS.mean()) < 4 * result["all", "snips"].stderr
    assert result.support["best"].deterministic
    assert not result.support["all"].deterministic
    assert result.to_json()["rows"][0].keys() >= {"policy", "estimator", "value", "low", "high"}
    assert len(result.table().splitlines()) == 6


def test_chances_are_those_of_the_tables_rows():
    """The log is sorted by task; a user's table of chances is not."""
    random = np.random.default_rng(0)
    task, arm = random.integers(5, size=100), random.integers(2, size=100)
    chances = np.eye(2)[arm]  # just what was played
    rounds = LoggedRounds.of(task, arm, random.normal(size=100), np.full(100, 0.5))
    result = backtest(chances, rounds, baselines=(), estimators=["snips"])
    assert result.support["policy"].rounds_without_overlap == 0
    assert result["policy", "snips"].value == pytest.approx(rounds.reward.mean())


def test_nothing_is_learned_from_the_tasks_that_are_judged():
    """Pure noise, 50 arms: the luckiest arm of the judged rounds themselves looks far better."""
    random = np.random.default_rng(0)
    arm = random.integers(50, size=2000)
    reward = random.normal(size=2000)
    rounds = LoggedRounds.of(np.arange(2000) // 4, arm, reward, np.full(2000, 0.02))
    means = np.bincount(arm, reward) / np.bincount(arm)
    lucky = rounds.arms[int(np.argmax([means[int(name)] for name in rounds.arms]))]
    result = backtest({"lucky": f"arm:{lucky}"}, rounds, baselines=["most-popular"])
    for name in ("direct", "dr", "snips"):
        honest = result["most-popular", name]
        # The s.e. of a direct estimate leaves its model's own error out: that of 16 rounds an arm,
        # chosen without them, in five parts of the tasks.
        error = max(honest.stderr, 1 / np.sqrt(16) if name == "direct" else 0.0)
        assert abs(honest.value) < 4 * error
    assert result["lucky", "snips"].value > 0.3
    assert result["lucky", "snips"].low > 0


def test_a_replay_of_equal_rewards_says_nothing_of_its_error():
    arm = np.arange(40) % 2
    rounds = LoggedRounds.of(np.arange(40), arm, arm == 1, np.full(40, 0.5))
    found = backtest("arm:1", rounds, baselines=(), estimators=["replay"])["arm:1", "replay"]
    assert found.value == 1.0
    assert np.isnan([found.stderr, found.low, found.high]).all()
    result = backtest("arm:1", rounds, baselines=(), estimators=["replay"])
    assert "unknown" in result.table()
    assert result.to_json()["rows"][0]["stderr"] is None


def test_a_policy_without_a_single_click_is_warned_of():
    """Estimates without a click have errors far too small: nothing varies that could tell."""
    arm = np.arange(400) % 2
    click = (arm == 1) & (np.arange(400) % 20 == 1)
    rounds = LoggedRounds.of(np.arange(400) // 4, arm, click, np.full(400, 0.5))
    said = backtest("arm:0", rounds, baselines=["uniform"]).warnings
    assert [one for one in said if "all 200 rounds that it would have played gave 0" in one]
    assert not [one for one in said if "uniform: all" in one]
