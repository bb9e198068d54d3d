"""What is kept in results/rules and results/noise, as tables for people.

python -m benchmarks.rule_tables            the tables of docs/which-rule.md
python -m benchmarks.rule_tables --full     one for each problem and belief: results/rules/tables.md
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
RESULTS = Path(__file__).parent.parent / "results"
HORIZONS = (100, 300, 1000)
#: Problems in the order of the paper, then the laws that are nearly Gaussian; Maze has 300 rounds.
PROBLEMS = {
    "popular-niche": "Popular and Niche",
    "labeled-arms": "Labeled Arms",
    "bidding": "Bidding",
    "maze": "Maze",
    "factor-gaussian": "factor Gaussian",
    "bounded-ratings": "bounded ratings",
}
BELIEFS = ("diffts", "gts-full")


def main() -> None:
    rows = kept_rows("rules")
    lines = of_each_problem(rows) if "--full" in sys.argv else [*summary(rows), *noises()]
    print("\n".join(lines))


def kept_rows(kind: str) -> list[Row]:
    """All rows that are kept of a benchmark."""
    files = sorted((RESULTS / kind).glob("*.json"))
    return [row for file in files for row in json.loads(file.read_text())["rows"]]


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """For each horizon: regret as a share of Thompson sampling's, DiffTS / GTS-full."""
    found = {(r["problem"], r["belief"], r["rule"], r["horizon"]): r for r in rows}
    rules = list(dict.fromkeys(row["rule"] for row in rows if row["belief"] in BELIEFS))
    for horizon in HORIZONS:
        here = [p for p in PROBLEMS if (p, "diffts", "thompson", horizon) in found]
        yield from ("", f"After {horizon} rounds:", "")
        yield "| rule | " + " | ".join(PROBLEMS[p] for p in here) + " |"
        yield "|---|" + "---:|" * len(here)
        thompson = [[found[p, b, "thompson", horizon] for b in BELIEFS] for p in here]
        cells = [" / ".join(f"{row['regret']:.1f}" for row in pair) for pair in thompson]
        yield "| `thompson` itself | " + " | ".join(cells) + " |"
        for rule in rules:
            if rule != "thompson":
                pairs = [[found.get((p, b, rule, horizon)) for b in BELIEFS] for p in here]
                cells = [" / ".join(map(_ratio, pair)) for pair in pairs]
                yield f"| `{rule}` | " + " | ".join(cells) + " |"


def _ratio(row: Row | None) -> str:
    return "–" if row is None else f"{row['ratio']:.2f}"


def noises() -> Iterator[str]:
    """Bidding: numbers beside words; and how far "auto" is from the true noise elsewhere."""
    rows = kept_rows("noise")
    bidding = [row for row in rows if row["problem"] == "bidding"]
    names = list(dict.fromkeys(row["noise"] for row in bidding))
    yield from ("", "| policy, past data | " + " | ".join(map(str, names)) + " |")
    yield "|---|" + "---:|" * len(names)
    for policy, data in dict.fromkeys((row["policy"], row["data"]) for row in bidding):
        of_each = {r["noise"]: r for r in bidding if (r["policy"], r["data"]) == (policy, data)}
        cells = [f"{of_each[name]['regret']:.1f} ± {of_each[name]['stderr']:.1f}" for name in names]
        yield f"| `{policy}`, {data} | " + " | ".join(cells) + " |"
    auto = [row for row in rows if row["problem"] != "bidding" and row["noise"] == "auto"]
    yield ""
    for row in auto:
        before = row["regret"] - row["gap"]
        yield (
            f"- {PROBLEMS[row['problem']]}, `{row['policy']}`: {100 * row['gap'] / before:+.1f}% "
            f"(± {100 * row['gap_stderr'] / before:.1f}; {row['tasks']} tasks)"
        )


def of_each_problem(rows: Sequence[Row]) -> Iterator[str]:
    """A table for each problem and belief: regret, its tail, and the right arm."""
    yield from ("# Rules, problem by problem", "", "Made with `python -m benchmarks.rule_tables`.")
    for problem, belief in dict.fromkeys((row["problem"], row["belief"]) for row in rows):
        here = [r for r in rows if (r["problem"], r["belief"]) == (problem, belief)]
        horizons = sorted({row["horizon"] for row in here})
        heads = [f"{t} rounds" for t in horizons] + ["of Thompson's", "95th percentile", "right"]
        yield from ("", f"## {PROBLEMS[problem]}, {belief}", "")
        yield "| rule | " + " | ".join(heads) + " |"
        yield "|---|" + "---:|" * len(heads)
        for rule in dict.fromkeys(row["rule"] for row in here):
            of_rule = [row for row in here if row["rule"] == rule]
            cells = [f"{row['regret']:.1f} ± {row['stderr']:.1f}" for row in of_rule]
            cells += [" / ".join(f"{row['ratio']:.2f}" for row in of_rule)]
            cells += [f"{of_rule[-1]['p95']:.0f}", f"{of_rule[-1]['share_right']:.0%}"]
            yield f"| `{rule}` | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
