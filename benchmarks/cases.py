"""The three cases of docs/cases.md, command by command, and what each of them said.

python -m benchmarks.cases --data FOLDER [--case NAME]… [--work DIR] [--out results/cases.json]

FOLDER holds ipinyou_slots and open_bandit; by default DIFFTS_DATA_DIR, or ../shared/data. In --out,
cases that are not run again stay as they were.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from diffts.circumstances import circumstances
from diffts.decisions import Decisions

CASES = ("slots", "clicks", "hours", "ratings")
MOVIES_EACH = 8
CLICKS = ("--arm", "item", "--reward", "click", "--time", "time", "--propensity", "chance")


def data_folder(named: str | None) -> Path | None:
    """The folder of the real data, if it is there."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(named) if named else beside
    return folder if (folder / "ipinyou_slots").is_dir() else None


def run(*command: object) -> str:
    """What a command prints; its errors end this program."""
    print("$ python", *command, flush=True)
    made = subprocess.run([sys.executable, *map(str, command)], check=True, stdout=subprocess.PIPE)
    print(made.stdout.decode(), flush=True)
    return made.stdout.decode()


def fit(work: Path, *options: object) -> dict[str, Any]:
    """What the report of a fit said, in short."""
    run("-m", "diffts", "fit", work / "log.csv", "--out", work / "fitted", *options)
    report = json.loads((work / "fitted" / "report.json").read_text())
    raced = {row["kind"]: row for row in report["judged"]}
    rewards = {report["chosen"]: raced[report["chosen"]]} | {
        row["name"]: row for row in report["baselines"]
    }
    log = ("rows_used", "tasks", "arms", "observed_share", "reward_mean", "noise_std", "binary")
    return {
        "log": {name: report["log"][name] for name in log},
        "verdict": report["verdict"],
        "chosen": report["chosen"],
        "left_out": {kind: row["note"] for kind, row in raced.items() if row["note"]},
        "reward": {name: row["reward"] for name, row in rewards.items()},
        "regret": {kind: row["regret"] for kind, row in raced.items() if not row["note"]},
        "race_tasks": report["race_tasks"],
    }


def slots(work: Path, data: Path) -> dict[str, Any]:
    """Prices of ad auctions."""
    run("examples/slot_prices.py", "--data", data / "ipinyou_slots", "--out", work)
    found = fit(work, "--task", "slot", "--arm", "bid")
    said = run("-m", "diffts", "decide", work / "fitted", "advise", "--task", "a-new-slot")
    return {**found, "advice": said.split()}


def clicks(work: Path, data: Path) -> dict[str, Any]:
    """The Open Bandit Dataset, by groups of users, with a backtest."""
    run("examples/open_bandit.py", "--data", data / "open_bandit", "--out", work)
    found = fit(work, *CLICKS)
    judge = ("-m", "diffts", "backtest", work / "fitted", work / "judge.csv")
    run(*judge, *CLICKS, "--json", work / "backtest.json")
    judged = json.loads((work / "backtest.json").read_text())
    logs = {name: pd.read_csv(work / f"{name}.csv") for name in ("log", "judge")}
    return {
        **found,
        "clicks": {name: int(log.click.sum()) for name, log in logs.items()},
        "backtest": [row for row in judged["rows"] if row["estimator"] == "sndr"],
        "rounds": judged["facts"]["rounds"],
        "tasks": judged["facts"]["tasks"],
        "warnings": judged["warnings"],
    }


def hours(work: Path, data: Path) -> dict[str, Any]:
    """The same clicks, by the hour and the position."""
    folder = data / "open_bandit"
    run("examples/open_bandit.py", "--data", folder, "--out", work, "--task", "hours")
    return fit(work, *CLICKS)


def ratings(work: Path, _: Path | None) -> dict[str, Any]:
    """Ratings that are made up, and new users, whose tastes are known."""
    run("examples/ratings.py", "--out", work)
    named = ("--task", "user", "--arm", "movie", "--reward", "rating")
    found = fit(work, *named, "--minutes", 0)
    return {**found, "new_users": new_users(work)}


def new_users(work: Path) -> dict[str, Any]:
    """Mean liking of the first movies of new users: by the fit, best mean first, and by chance."""
    truth = pd.read_csv(work / "truth.csv", index_col="user")
    rng = np.random.default_rng(0)
    decisions = Decisions(work / "fitted", chances=0)
    unseen = {user: list(truth.columns) for user in truth.index}
    liked = np.empty((len(truth), MOVIES_EACH))
    for turn in range(MOVIES_EACH):
        chosen = decisions.choose_many(list(unseen), list(unseen.values()))
        liked[:, turn] = [
            truth.loc[user, one.arm] for user, one in zip(unseen, chosen, strict=True)
        ]
        stars = np.clip(
            np.round(2 * (liked[:, turn] + 0.5 * rng.normal(size=len(truth)))) / 2, 0.5, 5
        )
        decisions.reward([one.decision_id for one in chosen], stars)
        for user, one in zip(unseen, chosen, strict=True):
            unseen[user].remove(one.arm)
    log = pd.read_csv(work / "log.csv")
    best = log.groupby("movie").rating.mean().sort_values(ascending=False).index[:MOVIES_EACH]
    ways = {
        "fitted": liked.mean(1),
        "best mean first": truth[best].to_numpy().mean(1),
        "by chance": truth.to_numpy().mean(1),
        "their own best": np.sort(truth.to_numpy(), axis=1)[:, -MOVIES_EACH:].mean(1),
    }
    gain = ways["fitted"] - ways["best mean first"]
    return {
        "users": len(truth),
        "movies_each": MOVIES_EACH,
        "liking": {name: float(one.mean()) for name, one in ways.items()},
        "gain": float(gain.mean()),
        "gain_stderr": float(gain.std(ddof=1) / np.sqrt(len(gain))),
    }


def main() -> None:
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("DIFFTS_DATA_DIR"))
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--work", type=Path, help="folder for logs and fits; else a temporary one")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    chosen = options.case or CASES
    data = data_folder(options.data)
    if data is None and set(chosen) != {"ratings"}:
        parser.error("--data: no ipinyou_slots there")
    made: dict[str, Any] = {}
    if options.out is not None and options.out.exists():
        made = json.loads(options.out.read_text())["cases"]
    with tempfile.TemporaryDirectory() as temporary:
        for name in chosen:
            work = (options.work or Path(temporary)) / name
            made[name] = globals()[name](work, data) | {"versions": circumstances()}
            if options.out is not None:
                kept = {"made_with": "python -m benchmarks.cases", "cases": made}
                options.out.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
