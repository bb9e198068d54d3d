"""The tables of docs/reproduction.md and docs/evaluation.md, from the summaries in results/paper.

python -m benchmarks.evaluation_tables
python -m benchmarks.evaluation_tables --write
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from diffts.figures.style import label_of
from diffts.reproduction.claims import WHOSE
from diffts.reproduction.evaluation import (
    BASELINES,
    BOTH,
    CONTENDERS,
    MAIN_NOISE,
    OURS,
    OURS_AS_IN_THE_PAPER,
    OURS_WITH_GIVEN_NOISE,
    OWN,
    PROBLEMS,
    THE_PAPERS,
)
from diffts.reproduction.judges import Judged
from diffts.reproduction.regret import KINDS, TITLES

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "results/paper"
PAGES = ("docs/reproduction.md", "docs/evaluation.md")
#: A comment that names a table, and the table.
TABLE = re.compile(r"<!-- table: (\w+) -->\n+(?:\|.*(?:\n|\Z))*")
Json = dict[str, Any]


#: In the order of the table of all tasks.
POLICIES = (
    OURS,
    OURS_WITH_GIVEN_NOISE,
    OURS_AS_IN_THE_PAPER,
    *(name for one in reversed(BASELINES) for name in (one, f"{one}:default")),
    "ucb1",
    "ucb1-three-paths",
)
VERDICTS = {True: "yes", False: "no", None: "so far"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put them into their pages")
    write = parser.parse_args().write
    for page in PAGES:
        text = with_tables((ROOT / page).read_text())
        if write:
            (ROOT / page).write_text(text)
        else:
            print(f"## {page}", *(found[0] for found in TABLE.finditer(text)), sep="\n\n")


def with_tables(text: str) -> str:
    """A page, with today's tables below the comments that name them."""

    def table(found: re.Match[str]) -> str:
        return "\n".join([f"<!-- table: {found[1]} -->", *TABLES[found[1]](), ""])

    return TABLE.sub(table, text)


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
        for problem, data in _columns()
        if panel(evaluation["panels"], problem, data, MAIN_NOISE[problem])
    ]
    yield from _header("policy", columns)
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
        counts = read(name)["first"]
        for label in (OURS, OURS_WITH_GIVEN_NOISE, OURS_AS_IN_THE_PAPER, THE_PAPERS):
            if label in counts:
                told = "plots", "first", "first_by_two_standard_errors"
                cells = (label_of(label), rule, *(str(counts[label][of]) for of in told))
                yield "| " + " | ".join(cells) + " |"


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
            f"| {_problem(plot['problem'])} | {KINDS[plot['data']]} "
            f"| {plot['noise_std']:g} | {with_error(ours)} | {policy} | {with_error(other)} "
            f"| {ours['regret'] / other['regret']:.2f} |"
        )


def comparison() -> Iterator[str]:
    """400 tasks: every policy by both rules, a column for each problem and kind of data."""
    rows = {
        (row["policy"], row["problem"], row["data"]): row
        for row in read("comparison")["rows"]
        if not row["reference"]
    }
    columns = [c for c in _columns() if (OURS, *c) in rows]
    yield from _header("policy", columns)
    for policy in POLICIES:
        found = [rows.get((policy, *column)) for column in columns]
        if any(found):
            cells = (_with_tasks(row) if row else "–" for row in found)
            yield f"| {label_of(policy)} | " + " | ".join(cells) + " |"


def _with_tasks(row: Json) -> str:
    """Regret and its standard error; the number of tasks where they are fewer."""
    fewer = f" ({row['tasks']} tasks)" if row["tasks"] == 100 else ""
    return with_error(row) + fewer


def closest() -> Iterator[str]:
    """400 tasks: ours beside the best other policy by any rule, with tails."""
    yield "| problem | data | DiffTS | best other policy | | gap | 95% of tasks below |"
    yield "|---|---|---:|---|---:|---:|---:|"
    for problem, data in _columns():
        rows = [
            row
            for row in read("comparison")["rows"]
            if (row["problem"], row["data"]) == (problem, data) and not row["reference"]
        ]
        if not rows:
            continue
        (ours,) = (row for row in rows if row["policy"] == OURS)
        others = (row for row in rows if not row["policy"].startswith("diffts"))
        best = min(others, key=lambda row: float(row["regret"]))
        yield (
            f"| {_problem(problem)} | {KINDS[data]} | {with_error(ours)} | "
            f"{label_of(best['policy'])} | {_with_tasks(best)} | "
            f"{best['above_ours']:.1f} ± {best['stderr_of_that']:.1f} | "
            f"{ours['p95']:.0f}, {best['p95']:.0f} |"
        )


def claims() -> Iterator[str]:
    """What the paper says, and in how many cases it holds of the paper's DiffTS and of ours."""
    yield "| the paper says | " + " | ".join(WHOSE) + " |"
    yield "|---|---|---|"
    for row in read("claims")["claims"]:
        cells = [row["claim"]]
        for whose in WHOSE:
            measured, agrees, holds = (row[f"{whose}: {of}"] for of in Judged._fields)
            if measured.startswith("not run"):
                cells.append("not run")
            elif not holds:  # it does not apply
                cells.append("–")
            elif holds == "0 of 0":
                cells.append("nothing yet")
            else:
                cells.append(f"{VERDICTS[agrees]}, {holds}")
        yield "| " + " | ".join(cells) + " |"


def _columns() -> list[tuple[str, str]]:
    return [(problem, data) for problem in PROBLEMS for data in BOTH]


def _problem(name: str) -> str:
    return TITLES[name].partition(" (")[0]


def _header(first: str, columns: list[tuple[str, str]]) -> Iterator[str]:
    names = (f"{_problem(problem)}, {KINDS[data]}" for problem, data in columns)
    yield f"| {first} | " + " | ".join(names) + " |"
    yield "|---|" + "---:|" * len(columns)


def with_error(line: Json) -> str:
    """Regret and its standard error."""
    return f"{line['regret']:.1f} ± {line['stderr']:.1f}"


TABLES = {of.__name__: of for of in (races, claims, firsts, same_rule, comparison, closest)}

if __name__ == "__main__":
    main()
