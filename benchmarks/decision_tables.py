"""The tables of docs/arms.md and docs/samplers.md, from results/decisions and results/steps.

python -m benchmarks.decision_tables
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent.parent / "results"
FOLDER = RESULTS / "decisions"
ROUNDS = ("40", "100", "300", "1000")
Row = dict[str, Any]


def main() -> None:
    print("\n".join([*ours(), "", *baselines(), "", *chains()]))


@cache
def rows() -> tuple[Row, ...]:
    """All rows of all files, each with the name of its file."""
    found = []
    for path in sorted(FOLDER.glob("*.json")):
        found += [row | {"file": path.stem} for row in json.loads(path.read_text())["rows"]]
    return tuple(found)


def groups(of_ours: bool) -> dict[tuple[Any, ...], list[Row]]:
    """Rows that differ in their seed alone."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows():
        if (row["policy"] == "diffts") == of_ours:
            key = (row["file"], row["policy"], row["rule"], row["noise"])
            found.setdefault(key, []).append(row)
    return found


def ours() -> Iterator[str]:
    """Mean regret of the priors of all seeds at each horizon, its standard error and its tail."""
    yield "| run | rule | σ̂ | seeds | " + " | ".join(ROUNDS) + " | 95% |"
    yield "|---|---|---|---|" + "---:|" * (len(ROUNDS) + 1)
    for (file, _, rule, noise), found in groups(of_ours=True).items():
        yield f"| {file} | `{rule}` | {noise} | {len(found)} | {cells(found)} |"


def baselines() -> Iterator[str]:
    """The same of the baselines."""
    yield "| run | policy | σ̂ | " + " | ".join(ROUNDS) + " | 95% |"
    yield "|---|---|---|" + "---:|" * (len(ROUNDS) + 1)
    for (file, policy, rule, noise), found in groups(of_ours=False).items():
        yield f"| {file} | `{policy}:{rule}` | {noise} | {cells(found)} |"


def chains() -> Iterator[str]:
    """Thompson sampling by chains of several lengths: regret, and the gap to the longest."""
    yield "| problem | tasks | steps | regret | above the longest chain |"
    yield "|---|---:|---:|---:|---:|"
    found: dict[tuple[str, int], dict[int, Row]] = {}
    for path in sorted((RESULTS / "steps").glob("*.json")):
        for row in json.loads(path.read_text())["rows"]:
            found.setdefault((row["problem"], row["tasks"]), {})[row["steps"]] = row
    for (problem, tasks), by_steps in found.items():
        longest = np.array(by_steps[max(by_steps)]["regret_of_tasks"])
        for steps, row in sorted(by_steps.items()):
            of_tasks = np.array(row["regret_of_tasks"])
            gap, error = of_tasks - longest, of_tasks.std(ddof=1) / np.sqrt(tasks)
            above = f"{gap.mean():+.1f} ± {gap.std(ddof=1) / np.sqrt(tasks):.1f}"
            told = f"{of_tasks.mean():.1f} ± {error:.1f}"
            last = "–" if steps == max(by_steps) else above
            yield f"| {problem} | {tasks} | {steps} | {told} | {last} |"


def cells(found: list[Row]) -> str:
    """Regret at each horizon and the 95th percentile of a task, over seeds."""
    last = max(found[0]["regret"], key=int)
    reached = [t for t in ROUNDS if t in found[0]["regret"]]
    told = {t: f"{np.mean([row['regret'][t] for row in found]):.1f}" for t in reached}
    told[last] += f" ± {standard_error(found):.1f}"
    tail = np.mean([row["p95"] for row in found])
    return " | ".join([*(told.get(t, "–") for t in ROUNDS), f"{tail:.1f}"])


def standard_error(found: list[Row]) -> float:
    """Of the mean regret, over tasks and, where there are several, over seeds."""
    tasks = np.array([row["regret_of_tasks"] for row in found])
    variance = tasks.mean(0).var(ddof=1) / tasks.shape[1]
    if len(found) > 1:
        variance += tasks.mean(1).var(ddof=1) / len(found)
    return float(np.sqrt(variance))


def regret(file: str, rule: str = "default", policy: str = "diffts", noise: float = 0.1) -> float:
    """Mean regret of a run's last round, over seeds."""
    wanted = (file, policy, rule, noise)
    found = groups(of_ours=policy == "diffts")[wanted]
    return float(np.mean([list(row["regret"].values())[-1] for row in found]))


def errors(file: str) -> str:
    """τ of a run's first denoiser at some steps, as a sentence has them."""
    row = next(row for row in rows() if row["file"] == file and row["policy"] == "diffts")
    return ", ".join(f"{value:.4f}" for value in row["tau"].values())


if __name__ == "__main__":
    main()
