"""The tables of docs/which-rule.md and results/rules/tables.md are those of the result files."""

from pathlib import Path

import pytest
from benchmarks.rule_tables import kept_rows, noises, of_each_problem, summary

ROOT = Path(__file__).parent.parent


def test_each_line_of_the_tables_stands_in_the_page():
    page = (ROOT / "docs/which-rule.md").read_text()
    for line in [*summary(kept_rows("rules")), *noises()]:
        assert line in page


def test_no_other_row_of_a_table_has_figures_of_rules():
    page = (ROOT / "docs/which-rule.md").read_text().split("## How they fare")[1]
    told = [*summary(kept_rows("rules")), *noises()]
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert rows
    assert not [line for line in rows if line not in told]


def test_costs_are_those_of_the_last_run():
    """Milliseconds of each rule: one task and 100, DiffTS and GTS-full."""
    page = (ROOT / "docs/which-rule.md").read_text()
    told = (ROOT / "benchmarks/results/rule-cost-cpu.md").read_text()
    rows = [
        [cell.strip() for cell in line.split("|")[1:]] for line in told.splitlines() if "|" in line
    ]
    names = [row[0] for row in rows]
    for rule in ("thompson", "bayes-ucb", "greedy", "knowledge-gradient"):
        first = names.index(rule)
        of_rule = [rows[at] for at in (first, names.index(rule, first + 1))]
        cells = [f"{row[at]} ms" for row in of_rule for at in (1, 4)]
        assert f"| `{rule}` | " + " | ".join(cells) + " |" in page


def test_costs_on_a_gpu_are_those_of_its_run():
    page = (ROOT / "docs/which-rule.md").read_text()
    told = (ROOT / "benchmarks/results/rule-cost-h200.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in told.splitlines()]
    of_each = {row[0]: row for row in rows if row}
    for rule in ("thompson", "bayes-ucb", "greedy", "knowledge-gradient"):
        _, one, _, _, many, _, speed = of_each[rule]
        assert f"| `{rule}` | {one} ms | {many} ms | {speed} |" in page
    one, many = (of_each["32"][at].replace("×", " times") for at in (2, 5))
    assert f"32 draws take {one} as long as one for one task, {many} for 100 tasks" in page


def test_tables_of_each_problem_are_up_to_date():
    lines = (ROOT / "results/rules/tables.md").read_text().splitlines()
    assert lines == list(of_each_problem(kept_rows("rules")))


@pytest.mark.parametrize("belief", ["diffts", "gts-full"])
def test_the_default_is_nowhere_worse_than_thompson_sampling(belief):
    """By more than one standard error of the difference, task by task."""
    rows = [r for r in kept_rows("rules") if r["belief"] == belief and r["rule"] == "bayes-ucb"]
    assert {row["problem"] for row in rows} >= {"popular-niche", "labeled-arms", "bidding", "maze"}
    for row in rows:
        thompson = row["regret"] / row["ratio"]
        assert row["regret"] - thompson < row["saved_stderr"]
