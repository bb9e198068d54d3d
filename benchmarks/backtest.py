"""Off-policy estimates on real clicks: each policy's click rate from the other one's log.

The Open Bandit Dataset has two logs of each campaign, of the same week: uniform, and Bernoulli
Thompson sampling (BTS). So what the one says of the other's policy can be held against the truth.

python -m benchmarks.backtest [--data FOLDER] [--campaign NAME]… [--out FILE.json]

FOLDER holds random/men/men.csv.gz and its like; by default DIFFTS_OPEN_BANDIT, or
../shared/data/open_bandit. Users with the same four features are one task. BTS changed in the
course of the week: its chances are its mean ones, the share of each item at each position of its
own log.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from diffts.backtest import (
    OPEN_BANDIT,
    BacktestResult,
    Estimate,
    LoggedRounds,
    backtest,
    read_rounds,
)
from diffts.circumstances import circumstances

CAMPAIGNS = ("all", "men", "women")


class Found(NamedTuple):
    """A policy judged by the other one's log, and by its own."""

    policy: str
    log: LoggedRounds
    result: BacktestResult
    on_policy: Estimate


def data_folder(named: str | None) -> Path | None:
    """The folder of the data, if it is there."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data" / "open_bandit"
    folder = Path(named) if named else beside
    return folder if (folder / "random" / "all").is_dir() else None


def both_ways(folder: Path, campaign: str) -> Iterator[Found]:
    """BTS judged by the uniform log, and the uniform policy judged by BTS's."""
    logs = {
        name: read_rounds(folder / name / campaign / f"{campaign}.csv.gz", OPEN_BANDIT)
        for name in ("random", "bts")
    }
    own = {
        name: backtest("logged", log, baselines=(), estimators=["ips"])["logged", "ips"]
        for name, log in logs.items()
    }
    target = {"bts": mean_chances(logs["bts"], logs["random"])}
    yield Found("bts", logs["random"], backtest(target, logs["random"], baselines=()), own["bts"])
    judged = backtest("uniform", logs["bts"], baselines=())
    yield Found("uniform", logs["bts"], judged, own["random"])


def mean_chances(of: LoggedRounds, at: LoggedRounds) -> NDArray[np.float64]:
    """The share of each arm at a round's position in one log, for the rounds of another, (R, K)."""
    assert of.arms == at.arms
    assert of.position is not None
    assert at.position is not None
    places, place = np.unique(of.position, return_inverse=True)
    counts = np.zeros((len(places), of.n_arms))
    np.add.at(counts, (place, of.arm), 1.0)
    chances = np.zeros((len(at), at.n_arms))
    rows = np.searchsorted(places, at.position)
    chances[at.row] = (counts / counts.sum(axis=1, keepdims=True))[rows]
    return chances


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("DIFFTS_OPEN_BANDIT"))
    parser.add_argument("--campaign", action="append", choices=CAMPAIGNS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    folder = data_folder(options.data)
    if folder is None:
        parser.error("--data: no Open Bandit data there")
    console, rows = Console(width=130), list[dict[str, Any]]()
    for campaign in options.campaign or CAMPAIGNS:
        for found in both_ways(folder, campaign):
            log = "uniform" if found.policy == "bts" else "bts"
            own = found.on_policy
            console.print(
                f"\n{campaign}: {found.policy} from the {log} log; its own log has {own.value:.5f} "
                f"({own.low:.5f} to {own.high:.5f})",
                highlight=False,
            )
            console.print(found.result.table(), highlight=False)
            for warning in found.result.warnings:
                console.print(f"warning: {warning}", highlight=False)
            rows.append(
                {
                    "campaign": campaign,
                    "policy": found.policy,
                    "log": log,
                    "on_policy": own._asdict(),
                    **found.result.to_json(),
                }
            )
    if options.out is not None:
        made = {"command": "python -m benchmarks.backtest", "with": circumstances(), "rows": rows}
        options.out.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
