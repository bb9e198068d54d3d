"""Logs as they come: tables, files, Open Bandit's; what is refused; the command; real clicks."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from benchmarks.backtest import both_ways, data_folder

from command_line import diffts
from diffts.backtest import (
    LoggedRounds,
    NoOverlapError,
    backtest,
    from_obp,
    from_table,
    read_rounds,
)
from diffts.bandits.noise import BernoulliNoise
from diffts.diffusion.exact import Gaussian
from diffts.errors import DifftsError, InvalidInputError
from diffts.fitting import Fitted, NewArms

TABLE = {
    "user": ["u", "v", "u", "v"],
    "item": [7, 3, 3, 7],
    "click": [0, 1, 1, 0],
    "p": [0.5, 0.25, 0.5, 0.75],
    "when": ["2024-01-02", "2024-01-03", "2024-01-01", "2024-01-04"],
}
NAMES = {"task": "user", "arm": "item", "reward": "click", "propensity": "p"}


def frame(kind):
    if kind == "dict":
        return TABLE
    if kind == "pandas":
        return pytest.importorskip("pandas").DataFrame(TABLE)
    return pytest.importorskip("pyarrow").table(TABLE)


@pytest.mark.parametrize("kind", ["dict", "pandas", "arrow"])
def test_tables_of_any_kind(kind):
    rounds = from_table(frame(kind), {**NAMES, "time": "when"})
    assert (rounds.tasks, rounds.arms) == (("u", "v"), ("3", "7"))
    assert rounds.task.tolist() == [0, 0, 1, 1]
    assert rounds.row.tolist() == [2, 0, 1, 3]  # by time within a task
    assert rounds.arm.tolist() == [0, 1, 0, 1]
    assert rounds.reward.tolist() == [1, 0, 1, 0]
    assert rounds.propensity.tolist() == [0.5, 0.5, 0.25, 0.75]


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_files(tmp_path, suffix):
    pandas = pytest.importorskip("pandas")
    path = tmp_path / f"log.{suffix}"
    table = pandas.DataFrame(TABLE)
    table.to_parquet(path) if suffix == "parquet" else table.to_csv(path, index=False)
    rounds, same = read_rounds(path, {**NAMES, "time": "when"}), from_table(TABLE, NAMES)
    assert rounds.arms == same.arms
    assert sorted(rounds.propensity) == sorted(same.propensity)
    assert rounds.row.tolist() == [2, 0, 1, 3]


def test_the_names_of_open_bandit_pipeline():
    feedback = {
        "n_rounds": 4,
        "n_actions": 3,
        "action": np.array([0, 2, 2, 0]),
        "reward": np.array([0, 1, 1, 0]),
        "pscore": np.array([0.5, 0.25, 0.5, 0.75]),
        "position": np.array([0, 1, 2, 0]),
        "context": np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]),
    }
    rounds = from_obp(feedback)
    assert (rounds.n_tasks, rounds.arms) == (2, ("0", "1", "2"))
    assert rounds.row.tolist() == [1, 3, 0, 2]
    assert rounds.position.tolist() == [1, 0, 0, 2]
    alone = {key: value for key, value in feedback.items() if key != "context"}
    assert from_obp(alone).n_tasks == 1
    assert from_obp(alone, task=["x", "y", "x", "y"]).tasks == ("x", "y")
    with pytest.raises(InvalidInputError, match="pscore: missing in the feedback"):
        from_obp({**feedback, "pscore": None})
    with pytest.raises(InvalidInputError, match="action: from 0 to 2, of 2 actions"):
        from_obp({**feedback, "n_actions": 2})


def changed(**columns):
    return {**TABLE, **columns}


REFUSED = [
    (changed(p=[0.5, 0.0, 0.5, 0.5]), {}, r"propensity: not in \(0, 1\] in 1 row.*row 2 \(0.0\)"),
    (changed(p=[0.5, 0.5, 0.5, 1.5]), {}, r"propensity: not in \(0, 1\] in 1 row.*row 4 \(1.5\)"),
    (changed(p=[0.5, np.nan, 0.5, 1]), {}, r"propensity: not in \(0, 1\] in 1 row.*row 2"),
    (changed(p=[0.5, "often", 0.5, 1]), {}, r"propensity: not an array of numbers"),
    (changed(click=[0, 1, np.inf, 0]), {}, r"reward: not finite in 1 row.*row 3 \(inf\)"),
    (changed(click=[0, 1, None, 0]), {}, r"reward: not finite in 1 row.*row 3"),
    (changed(click=[0, 1]), {}, r"task: expected one for each of 2 rewards, got 4"),
    (changed(user=["u", None, "v", "v"]), {}, r"task: blank in 1 row.*row 2"),
    (changed(item=["", "a", "b", ""]), {}, r"arm: blank in 2 row.*row 1"),
    (changed(click=[], user=[], item=[], p=[]), {}, r"rounds: the log is empty"),
    (TABLE, {"propensity": "chance"}, r"propensity: no column 'chance'; the table has user, item"),
    (TABLE, {"arm": "thing"}, r"arm: no column 'thing'"),
    (TABLE, {"weight": "p"}, r"columns: unknown part 'weight'"),
    (TABLE, {"time": "user"}, r"time: neither numbers nor dates"),
    ({key: TABLE[key] for key in ("user", "item", "click")}, {"propensity": None},
     r"propensity: missing; log the chance of the arm that was played"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "names", "said"), REFUSED)
def test_a_log_that_cannot_be_used_is_refused_in_one_line(table, names, said):
    named = {part: name for part, name in {**NAMES, **names}.items() if name is not None}
    with pytest.raises(InvalidInputError, match=said) as error:
        from_table(table, named)
    assert "\n" not in str(error.value)


def test_unknown_arms_and_offers():
    with pytest.raises(InvalidInputError, match=r"arm: 1 arm.*not among the arms given.*'7'"):
        from_table(TABLE, NAMES, arms=[3, 4])
    with pytest.raises(InvalidInputError, match="offered: row 2: the arm played was not on offer"):
        LoggedRounds.of(["a", "a"], ["x", "y"], [0, 1], [0.5, 0.5], offered=[["x", "y"], ["x"]])
    offers = from_table({**TABLE, "offered": ["3|7", "3", "3|7", "7"]}, {"reward": "click"} | NAMES)
    assert offers.on_offer().sum(axis=1).tolist() == [2, 2, 1, 1]


def test_a_log_without_propensities_that_was_uniform():
    columns = {key: TABLE[key] for key in ("user", "item", "click")}
    named = {part: NAMES[part] for part in ("task", "arm", "reward")}
    rounds = from_table(columns, named, uniform=True)
    assert rounds.propensity.tolist() == [0.5] * 4
    # Li et al.: of a fixed arm, its rounds are accepted, and no others.
    found = backtest("arm:3", rounds, baselines=(), estimators=["replay"])
    assert (found["arm:3", "replay"].value, found["arm:3", "replay"].ess) == (1.0, 2)


def test_a_log_without_overlap_is_refused_in_one_line():
    arm = np.array(["a", "b"])[np.arange(100) % 2]
    sure = LoggedRounds.of(np.arange(100), arm, np.ones(100), np.ones(100))
    with pytest.raises(NoOverlapError, match=r"50% of its choices had no chance.*with a floor"):
        backtest("uniform", sure)
    only = LoggedRounds.of(np.arange(100), ["a"] * 100, np.ones(100), np.ones(100), arms="ab")
    with pytest.raises(NoOverlapError, match="in none of 100 rounds"):
        backtest(np.tile([0.0, 1.0], (100, 1)), only)
    # Chances below 1 that leave some arms out in each round: seen by the mean of the weights.
    pairs = LoggedRounds.of(
        np.arange(400), [f"{(i // 2) % 4}" for i in range(400)], np.ones(400), np.full(400, 0.9)
    )
    with pytest.raises(NoOverlapError, match="a chance of only 28% of its choices"):
        backtest("uniform", pairs)


def test_one_policy_without_overlap_does_not_stop_the_others():
    random = np.random.default_rng(0)
    arm = random.integers(2, size=200)
    rounds = LoggedRounds.of(
        np.arange(200), np.array(["a", "b"])[arm], arm, np.full(200, 0.5), arms="abc"
    )
    third = np.tile([0.0, 0.0, 1.0], (200, 1))
    result = backtest({"third": third, "second": "arm:b"}, rounds, baselines=())
    assert {row.policy for row in result.rows} == {"second"}
    assert "no overlap" in result.refused["third"]
    assert result.support["third"].share_on_logged_arms == 0.0
    assert result.to_json()["refused"].keys() == {"third"}


def test_doubts_are_told():
    random = np.random.default_rng(0)
    arm = random.choice(2, size=2000, p=[0.99, 0.01])
    rounds = LoggedRounds.of(np.arange(2000), arm, random.normal(size=2000),
                             np.array([0.99, 0.01])[arm])  # fmt: skip
    rare = backtest("arm:1", rounds, baselines=())
    assert any("effective rounds of 2000" in line for line in rare.warnings)
    wrong = LoggedRounds.of(np.arange(2000), arm, random.normal(size=2000), np.full(2000, 0.5))
    told = backtest("arm:0", wrong, baselines=())
    assert any("propensities are not the true ones" in line for line in told.warnings)
    one = LoggedRounds.of(["x"] * 2000, arm, random.normal(size=2000), np.full(2000, 0.5))
    assert any("one task" in line for line in backtest("arm:0", one).warnings)


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A fitted belief of two arms, and a log of clicks in which 'b' is better."""
    monkeypatch.chdir(tmp_path)
    law = Gaussian(np.array([0.5, 0.5]), 0.04 * np.eye(2))
    noise = BernoulliNoise(0.5)
    facts = {"tasks": ["other"]}
    Fitted("independent", law, ("a", "b"), noise, NewArms(0.5, 0.1, 0.1), facts).save("fitted")
    random = np.random.default_rng(0)
    arm = random.integers(2, size=600)
    click = random.random(600) < np.where(arm == 1, 0.8, 0.2)
    lines = [f"user {i // 20},{'ab'[arm[i]]},{int(click[i])},0.5" for i in range(600)]
    Path("log.csv").write_text("\n".join(["user,arm,reward,propensity", *lines]) + "\n")
    Path("bare.csv").write_text(
        "\n".join(["user,arm,reward", *(line.rsplit(",", 1)[0] for line in lines)]) + "\n"
    )
    return click.mean()


def test_the_command(world):
    pytest.importorskip("pyarrow")
    run = diffts("backtest", "fitted", "log.csv", "--task", "user", "--rule", "thompson",
                 "--draws", 20, "--json", "result.json")  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert f"The log itself earned {world:.5g} a round" in run.stdout
    result = json.loads(Path("result.json").read_text())
    rows = {(row["policy"], row["estimator"]): row for row in result["rows"]}
    assert rows["thompson", "dr"]["low"] > rows["logged", "ips"]["value"]
    assert rows["thompson", "replay"]["value"] > rows["logged", "ips"]["high"]
    assert result["facts"]["tasks_learned_on"] == 0
    same = diffts("backtest", "fitted", "bare.csv", "--task", "user", "--rule", "thompson",
                  "--draws", 20, "--uniform")  # fmt: skip
    assert same.stdout == run.stdout


@pytest.mark.usefixtures("world")
def test_the_command_refuses_in_one_line():
    pytest.importorskip("pyarrow")
    cases = {
        "bare.csv --task user": "propensity: missing; log the chance of the arm",
        "log.csv": "task: no column 'task'",
        "log.csv --task user --propensity p": "propensity: no column 'p'",
        "log.csv --task user --propensity propensity --uniform": "--uniform: has no meaning",
        "log.csv --task user --rule luck": "rule: unknown 'luck'",
        "log.csv --task user --estimator luck": "estimator: unknown 'luck'",
        "log.csv --task user --json log.csv": "--json: log.csv is read by LOGS",
        "none.csv --task user": "none.csv",
    }
    for options, said in cases.items():
        run = diffts("backtest", "fitted", *options.split())
        assert run.returncode in (1, 2)
        assert said in run.stderr
        assert run.stderr.count("\n") == 1
        assert not run.stdout
    assert diffts("backtest", "nothing", "log.csv").returncode == 1


DATA = data_folder(os.environ.get("DIFFTS_OPEN_BANDIT"))


@pytest.mark.skipif(DATA is None, reason="no Open Bandit data: name them in DIFFTS_OPEN_BANDIT")
@pytest.mark.parametrize("campaign", ["all", "men", "women"])
def test_real_clicks_both_ways(campaign):
    """A policy's clicks from the other one's log, beside its own log: within 4 standard errors."""
    pytest.importorskip("pyarrow")
    for found in both_ways(DATA, campaign):
        for name in ("ips", "snips", "dr", "sndr"):
            one = found.result[found.policy, name]
            own = found.on_policy
            assert abs(one.value - own.value) < 4 * np.hypot(one.stderr, own.stderr)
            assert one.ess < len(found.log)


def test_the_pages_figures_are_those_of_the_kept_run():
    """Each campaign's row in docs/backtest.md, as it is written after a new run."""
    root = Path(__file__).parent.parent
    rows = json.loads((root / "benchmarks" / "results" / "backtest.json").read_text())["rows"]
    page = (root / "docs" / "backtest.md").read_text()
    assert len(rows) == 6
    for row in rows:
        found = next(one for one in row["rows"] if one["estimator"] == "sndr")
        cells = [
            f"{1000 * one['value']:.1f} ({1000 * one['low']:.1f} to {1000 * one['high']:.1f})"
            for one in (found, row["on_policy"])
        ]
        told = [row["campaign"], row["policy"], cells[0], f"{found['ess']:.0f}", cells[1]]
        assert f"| {' | '.join(told)} |" in page


def test_unreadable_files(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "log.parquet"
    path.write_text("no table")
    with pytest.raises(DifftsError, match="cannot be read as a table"):
        read_rounds(path)
    with pytest.raises(InvalidInputError, match="is a folder"):
        read_rounds(tmp_path)
