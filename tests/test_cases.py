"""docs/cases.md: its figures are those of results/cases.json, and its examples run.

Real data are read from ``DIFFTS_DATA_DIR``, or from ../shared/data beside the checkout.
"""

import json
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.cases import data_folder, new_users
from examples import open_bandit, ratings, slot_prices

from command_line import diffts
from diffts.fitting.support import EVENTS_OF_AN_ARM
from diffts.logs import Columns, read_log

ROOT = Path(__file__).parent.parent
CASES = json.loads((ROOT / "results/cases.json").read_text())["cases"]
PAGE = (ROOT / "docs/cases.md").read_text()
DATA = data_folder(os.environ.get("DIFFTS_DATA_DIR"))
real = pytest.mark.skipif(DATA is None, reason="no real data: name their folder in DIFFTS_DATA_DIR")


# The page says what the runs said.


def rewards(case, name):
    """Of a decision, over the first 10 and 100."""
    return [CASES[case]["reward"][name][n] for n in ("10", "100")]


def of_slots():
    slots = CASES["slots"]
    ours = rewards("slots", slots["chosen"])
    yield f"| a slot | a bid | {slots['verdict']['advice']} |", []
    yield f"**Verdict: {slots['verdict']['advice']}, a Gaussian.**", []
    yield "A new slot earns {:.2f} of an impression's value", ours[:1]
    yield "first 10 auctions, and {:.2f} in the first 100", ours[1:]
    log = slots["log"]
    yield "{:,} rows: {} slots, {} bids", [log["rows_used"], log["tasks"], log["arms"]]
    ways = {"one bid for all slots": "best arm for all", "UCB, without past slots": "ucb1"}
    for said, name in ({"with this fit": slots["chosen"]} | ways).items():
        yield f"| {said} | {{:.2f}} | {{:.2f}} |", rewards("slots", name)
    yield "Start a new slot at a bid of {}.", slots["advice"][:1]
    yield "{} slots judged.", [slots["race_tasks"]]
    left_out = slots["left_out"]
    assert set(left_out) == {"mixture", "diffusion"}
    assert left_out["mixture"].startswith("68 tasks to learn from are too few")
    yield "68 slots to learn from are too few", []


def of_clicks():
    clicks, log = CASES["clicks"], CASES["clicks"]["log"]
    yield f"| a group of users | an item | {clicks['verdict']['advice']} |", []
    wanted, arms = clicks["verdict"]["tasks_wanted"], log["arms"]
    yield f"**Verdict: {clicks['verdict']['advice']}, about {wanted} groups of users.**", []
    yield "has {} clicks for {} items; ten", [clicks["clicks"]["log"], arms]
    assert EVENTS_OF_AN_ARM == 10
    promised = [rewards("clicks", clicks["chosen"])[1], log["reward_mean"]]
    yield "promises clicks in {:.1%} of 100 decisions. The log has {:.1%}.", promised
    yield "has {:,} rows and {} clicks", [log["rows_used"], clicks["clicks"]["log"]]
    yield "{} groups, {} items", [log["tasks"], log["arms"]]
    yield "{:,} rows, {} clicks", [clicks["rounds"], clicks["clicks"]["judge"]]
    names = {
        "logged": "the log: each item equally often",
        "most-popular": "most-popular",
        "thompson": "this fit, rule `thompson`",
        "default": "this fit, rule `default`",
    }
    for one in clicks["backtest"]:
        if one["policy"] in names:
            values = [1000 * one[part] for part in ("value", "low", "high")]
            row = f"| {names[one['policy']]} | {{:.1f}} ({{:.1f}} to {{:.1f}}) | {{:.0f}} |"
            yield row, [*values, one["ess"]]
    rate = clicks["clicks"]["judge"] / clicks["rounds"]
    assert all(one["low"] < rate < one["high"] for one in clicks["backtest"])
    hours = CASES["hours"]
    assert hours["verdict"]["advice"] == clicks["verdict"]["advice"]  # 'the verdict is the same'


def of_ratings():
    case, log = CASES["ratings"], CASES["ratings"]["log"]
    new = case["new_users"]
    yield f"| a user | a movie | {case['verdict']['advice']} |", []
    yield f"**Verdict: {case['verdict']['advice']}, a Gaussian.** New", []
    yield "it chose by {:.2f} ± {:.2f} stars more", [new["gain"], new["gain_stderr"]]
    yield (
        "{:,} ratings: {} users, {} movies, {:.0%} of the pairs",
        [*(log[name] for name in ("rows_used", "tasks", "arms", "observed_share"))],
    )
    yield "{} new users watched {} movies each", [new["users"], new["movies_each"]]
    names = {
        "fitted": "chosen by the fit",
        "best mean first": "best rated first",
        "by chance": "by chance",
        "their own best": f"their own best {new['movies_each']}",
    }
    for name, liking in new["liking"].items():
        yield f"| {names[name]} | {{:.2f}} |", [liking]
    yield "wants about {:,} users", [round(case["verdict"]["tasks_wanted"], -2)]
    yield "it promises {:.2f} stars", rewards("ratings", case["chosen"])[1:]
    assert set(case["left_out"]) == {"diffusion"}


TEXTS = [text.format(*values) for of in (of_slots, of_clicks, of_ratings) for text, values in of()]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:40])
def test_the_page_says_what_the_runs_said(text):
    assert text in " ".join(PAGE.split()), f"docs/cases.md should say: {text}"


def test_no_other_figure_stands_in_the_page():
    """None with decimals or in percent."""
    text = " ".join(re.sub(r"```.*?```", "", PAGE, flags=re.S).split())
    for known in sorted(TEXTS, key=len, reverse=True):
        text = text.replace(known, "…")
    assert not re.findall(r"\d+(?:\.\d+)?%|\d+\.\d+", text)


# The examples, at small sizes.


def test_an_auction_becomes_a_row_for_each_bid():
    auctions = pd.DataFrame(
        {"slotid": ["a"] * 3 + ["rare"], "payprice": [30, 31, 200, 5], "bidprice": [277] * 4}
    )
    log = slot_prices.decisions(auctions, step=90, at_least=2)
    assert set(log.slot) == {"a"}
    means = log.groupby("bid").reward.mean()
    # Of prices 30, 31 and 200, a bid of 90 or 180 wins two, and 270 all.
    np.testing.assert_allclose(means[[90, 180, 270]], [2 / 3 * 0.7, 2 / 3 * 0.4, 0.1])


def rounds_like_open_bandit(n):
    rng = np.random.default_rng(0)
    features = {name: rng.choice(["aaaa1", "bbbb2"], n) for name in open_bandit.FEATURES}
    return pd.DataFrame(
        {
            "timestamp": pd.date_range("2019-11-24", periods=n, freq="7min", tz="UTC").astype(str),
            "item_id": rng.integers(0, 3, n),
            "position": rng.integers(1, 4, n),
            "click": rng.integers(0, 2, n),
            "propensity_score": np.full(n, 1 / 3),
            **features,
        }
    )


@pytest.mark.parametrize(("task", "tasks"), [("users", 16), ("hours", 72)])
def test_clicks_get_a_task(task, tasks, tmp_path, monkeypatch):
    for policy in ("random", "bts"):
        folder = tmp_path / policy / "men"
        folder.mkdir(parents=True)
        rounds_like_open_bandit(2000).to_csv(folder / "men.csv.gz")
    words = ["x", "--data", str(tmp_path), "--out", str(tmp_path / "out"), "--task", task]
    monkeypatch.setattr("sys.argv", words)
    open_bandit.main()
    log, judge = (pd.read_csv(tmp_path / "out" / name) for name in ("log.csv", "judge.csv"))
    assert log.task.nunique() + judge.task.nunique() == tasks
    assert not set(log.task) & set(judge.task)
    read = read_log(str(tmp_path / "out" / "log.csv"), Columns(arm="item", reward="click"))
    assert read.is_binary


def test_ratings_are_like_those_of_movielens():
    log, truth = ratings.make(200)
    assert set(2 * log.rating) <= set(range(1, 11))
    assert not log.duplicated(["user", "movie"]).any()
    counts = log.movie.value_counts()
    assert counts.max() > 3 * counts.min()  # few movies are seen by many
    # People rate what they like: movies are rated above what all think of them.
    assert log.rating.mean() > truth.to_numpy().mean()


@pytest.mark.slow(seconds=10)
def test_from_ratings_to_a_movie_for_a_new_user(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["x", "--out", str(tmp_path), "--users", "60"])
    ratings.main()
    named = ("--task", "user", "--arm", "movie", "--reward", "rating", "--minutes", 0)
    made = diffts("fit", tmp_path / "log.csv", "--out", tmp_path / "fitted", *named)
    assert made.returncode == 0, made.stderr
    offer = ("Alien", "Amélie", "Das Boot")
    chosen = diffts(
        "decide", tmp_path / "fitted", "choose", "--task", "Zoë", "--among", ",".join(offer)
    )
    arm, decision = chosen.stdout.rstrip("\n").split("\t")
    assert arm in offer
    told = diffts(
        "decide", tmp_path / "fitted", "reward", "--decision", decision, "--reward", "4.5"
    )
    assert told.returncode == 0, told.stderr
    liking = new_users(tmp_path)["liking"]
    assert liking["by chance"] < liking["fitted"] < liking["their own best"]


# The real data.


@real
def test_real_slots_are_those_of_the_page():
    file = DATA / "ipinyou_slots" / "merged_slot_prices.csv"
    log = slot_prices.decisions(pd.read_csv(file, dtype={"slotid": str}))
    told = CASES["slots"]["log"]
    assert (len(log), log.slot.nunique(), log.bid.nunique()) == (
        told["rows_used"],
        told["tasks"],
        told["arms"],
    )
    assert log.reward.mean() == pytest.approx(told["reward_mean"])


@real
def test_real_clicks_are_those_of_the_page(tmp_path, monkeypatch):
    words = ["x", "--data", str(DATA / "open_bandit"), "--out", str(tmp_path)]
    monkeypatch.setattr("sys.argv", words)
    open_bandit.main()
    for name, clicks in CASES["clicks"]["clicks"].items():
        assert pd.read_csv(tmp_path / f"{name}.csv").click.sum() == clicks
    pairs = pd.read_csv(tmp_path / "log.csv").groupby(["task", "item"]).click.agg(["size", "sum"])
    lucky = pairs[(pairs["size"] == 1) & (pairs["sum"] == 1)].reset_index()
    assert lucky.item.nunique() == 2  # 'Two items were clicked in a group that saw them once'


@real
@pytest.mark.slow(seconds=10)
def test_a_fit_of_real_slots_has_the_verdict_of_the_page(tmp_path, monkeypatch):
    folder = DATA / "ipinyou_slots"
    monkeypatch.setattr("sys.argv", ["x", "--data", str(folder), "--out", str(tmp_path)])
    slot_prices.main()
    named = ("--task", "slot", "--arm", "bid")
    made = diffts("fit", tmp_path / "log.csv", "--out", tmp_path / "fitted", *named)
    assert made.returncode == 0, made.stderr
    said = json.loads((tmp_path / "fitted" / "report.json").read_text())["verdict"]
    assert said["advice"] == CASES["slots"]["verdict"]["advice"]
