"""Clicks of the Open Bandit Dataset as a log of decisions: a group of users is a task.

python examples/open_bandit.py --data open_bandit --out clicks [--task hours]

DIR of --data holds random/men/men.csv.gz and bts/men/men.csv.gz: uniform play, and Thompson
sampling. Writes log.csv, to fit on, and judge.csv, the uniform log of other tasks, to backtest on.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

FEATURES = [f"user_feature_{i}" for i in range(4)]


def decisions(rounds: pd.DataFrame, task: str = "users") -> pd.DataFrame:
    """The rounds with a task: users with the same four features, or an hour and a position."""
    if task == "users":
        names = rounds[FEATURES[0]].str[:4]
        for feature in FEATURES[1:]:
            names = names + "-" + rounds[feature].str[:4]  # they are hashes: four letters will do
    else:
        hour = pd.to_datetime(rounds.timestamp, format="ISO8601").dt.hour
        names = "hour " + hour.astype(str) + ", place " + rounds.position.astype(str)
    return pd.DataFrame(
        {
            "task": names,
            "item": rounds.item_id,
            "click": rounds.click,
            "chance": rounds.propensity_score,
            "time": rounds.timestamp,
        }
    )


def main() -> None:
    """From two logs to log.csv and judge.csv."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--task", choices=("users", "hours"), default="users")
    parser.add_argument("--campaign", choices=("all", "men", "women"), default="men")
    options = parser.parse_args()
    name = options.campaign
    logs = {
        policy: decisions(
            pd.read_csv(options.data / policy / name / f"{name}.csv.gz"), options.task
        )
        for policy in ("random", "bts")
    }
    both = pd.concat(logs.values())
    fitted = sorted(both.task.unique())[::2]  # every other task; the rest judge
    log = both[both.task.isin(fitted)]
    judge = logs["random"][~logs["random"].task.isin(fitted)]
    options.out.mkdir(parents=True, exist_ok=True)
    log.to_csv(options.out / "log.csv", index=False)
    judge.to_csv(options.out / "judge.csv", index=False)
    for file, rows in (("log.csv", log), ("judge.csv", judge)):
        print(f"{file}: {len(rows)} rows, {rows.task.nunique()} tasks, {rows.click.sum()} clicks")


if __name__ == "__main__":
    main()
