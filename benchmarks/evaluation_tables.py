"""The tables of docs/evaluation.md, from results/evaluation/noise-levels.json and its neighbours.

python -m benchmarks.evaluation_tables
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from diffts.figures.style import label_of
from diffts.reproduction.evaluation import (
    BASELINES,
    BOTH,
    CONTENDERS,
    MAIN_NOISE,
    OURS,
    OWN,
    PROBLEMS,
)
from diffts.reproduction.regret import TITLES

FOLDER = Path(__file__).parent.parent / "results/evaluation"
Json = dict[str, Any]
#: As the docs say it.
KINDS = {"perfect": "exact", "imperfect": "imperfect"}


def main() -> None:
    for table in TABLES:
        print("\n".join(table()), end="\n\n")


def read(name: str) -> Json:
    """A summary."""
    summary: Json = json.loads((FOLDER / f"{name}.json").read_text())
    return summary


def panel(panels: list[Json], problem: str, data: str, noise: float) -> Json | None:
    """One plot, if it is finished."""
    wanted = (problem, data, noise)
    found = (p for p in panels if (p["problem"], p["data"], p["noise_std"]) == wanted)
    return next(found, None)


def races() -> Iterator[str]:
    """Regret at the noise level of the main results: a column for each problem and kind of data."""
    evaluation = read("noise-levels")
    summaries = {OURS: evaluation["panels"], **evaluation["panels_of"]}
    columns = [
        (problem, data)
        for problem in PROBLEMS
        for data in BOTH
        if panel(evaluation["panels"], problem, data, MAIN_NOISE[problem])
    ]
    names = (f"{TITLES[p].partition(' (')[0]}, {KINDS[data]}" for p, data in columns)
    yield "| policy | " + " | ".join(names) + " |"
    yield "|---|" + "---:|" * len(columns)
    for policy in (*CONTENDERS, *reversed(BASELINES), "ucb1", "ucb1-three-paths"):
        cells = []
        for problem, data in columns:
            own = policy if policy in summaries else OURS
            plot = panel(summaries[own], problem, data, MAIN_NOISE[problem])
            line = (plot or {"lines": {}})["lines"].get(OWN if policy in CONTENDERS else policy)
            cells.append(with_error(line) if line else "–")
        if any(cell != "–" for cell in cells):
            yield f"| {label_of(policy)} | " + " | ".join(cells) + " |"


def firsts() -> Iterator[str]:
    """In how many plots each DiffTS is first, among baselines by the paper's rule and by ours."""
    yield "| | baselines | plots | first | by two standard errors |"
    yield "|---|---|---:|---:|---:|"
    for name, rule in (("noise-levels", "as in the paper"), ("same-rule", "by our rule")):
        for label, count in read(name)["first"].items():
            numbers = (count[of] for of in ("plots", "first", "first_by_two_standard_errors"))
            yield f"| {label_of(label)} | {rule} | " + " | ".join(map(str, numbers)) + " |"


def same_rule() -> Iterator[str]:
    """Our prior beside the best other one, all by our rule and with the same noise."""
    yield "| problem | data | σ̂ | DiffTS | best other | | ratio |"
    yield "|---|---|---:|---:|---|---:|---:|"
    for plot in read("same-rule")["panels"]:
        others = {name: line for name, line in plot["lines"].items() if name != OWN}
        best = min(others, key=lambda name: others[name]["regret"])
        ours, other = plot["lines"][OWN], others[best]
        policy = label_of(best.partition(":")[0])
        yield (
            f"| {TITLES[plot['problem']].partition(' (')[0]} | {KINDS[plot['data']]} "
            f"| {plot['noise_std']:g} | {with_error(ours)} | {policy} | {with_error(other)} "
            f"| {ours['regret'] / other['regret']:.2f} |"
        )


def comparison() -> Iterator[str]:
    """400 tasks: each policy by both rules, with its tail and its gap to ours."""
    yield "| problem | data | policy | tasks | regret | 95% | above ours |"
    yield "|---|---|---|---:|---:|---:|---:|"
    for row in read("comparison")["rows"]:
        if row["reference"]:
            continue
        told = label_of(row["policy"])
        gap = f"{row['above_ours']:.1f} ± {row['stderr_of_that']:.1f}"
        yield (
            f"| {TITLES[row['problem']].partition(' (')[0]} | {KINDS[row['data']]} | {told} "
            f"| {row['tasks']} | {row['regret']:.1f} ± {row['stderr']:.1f} | {row['p95']:.1f} "
            f"| {'–' if row['policy'] == OURS else gap} |"
        )


def with_error(line: Json) -> str:
    """Regret and its standard error."""
    return f"{line['regret']:.1f} ± {line['stderr']:.1f}"


#: In the order of the page.
TABLES = (races, firsts, same_rule, comparison)

if __name__ == "__main__":
    main()
