"""The figures of docs/arms.md are those of the result files."""

import json
from pathlib import Path

import numpy as np
from benchmarks.decision_tables import errors, table

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/arms.md").read_text()


def regret(file, rule):
    rows = json.loads((ROOT / "results" / file).read_text())["rows"]
    return next(row for row in rows if row["rule"] == rule and row.get("horizon", 1000) == 1000)


def test_the_table_is_that_of_the_files():
    for line in table():
        assert line in PAGE
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    assert len(rows) == len([line for line in table() if line.startswith("| ")])


def test_sentences_have_figures_of_the_files():
    ours = regret("decisions/popular-niche-sees-arms.json", "default")["regret"]["1000"]
    exact = regret("rules/exact-popular-niche.json", "bayes-ucb")["regret"]
    gaussian = regret("rules/gts-full-popular-niche.json", "bayes-ucb")["regret"]
    assert f"{ours:.1f} after 1000 rounds, where the default" in PAGE
    assert f"rule on the exact posterior has {exact:.1f}" in PAGE
    assert f"and GTS-full {gaussian:.1f}" in PAGE
    assert f"errs by {errors('popular-niche-sees-arms')} at steps" in PAGE
    rows = json.loads(
        (ROOT / "results/decisions/popular-niche-imperfect-observed.json").read_text()
    )
    network, gaussian = (row["regret"]["1000"] for row in rows["rows"])
    assert f"{network:.1f}, where GTS-full has {gaussian:.1f} by the same rule and data" in PAGE
    thompson = regret("decisions/popular-niche.json", "thompson")["regret"]["1000"]
    assert f"Thompson sampling has {thompson:.1f}" in PAGE
    assert f"it has {regret('rules/exact-popular-niche.json', 'thompson')['regret']:.1f}\n" in PAGE


def test_bernoulli_beside_the_best_number():
    page = (ROOT / "docs/which-rule.md").read_text().replace("\n", " ")
    for file in ("bidding-noises", "bidding-imperfect-noises"):
        rows = json.loads((ROOT / f"results/decisions/{file}.json").read_text())["rows"]
        of_tasks = {row["noise"]: np.array(row["regret_of_tasks"]) for row in rows}
        word = of_tasks.pop("bernoulli")
        best = min(of_tasks.values(), key=np.mean)
        gap = 100 * (word - best) / best.mean()
        told = f"{gap.mean():+.1f}% (± {gap.std(ddof=1) / np.sqrt(len(gap)):.1f}"
        assert told in page
