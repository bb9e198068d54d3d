"""The figures of docs/arms.md are those of the result files."""

import json
from pathlib import Path

import numpy as np
from benchmarks.decision_tables import baselines, errors, ours, regret

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/arms.md").read_text()


def test_the_tables_are_those_of_the_files():
    wanted = [*ours(), *baselines()]
    for line in wanted:
        assert line in PAGE
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    assert len(rows) == len([line for line in wanted if line.startswith("| ")])


def test_sentences_have_figures_of_the_files():
    page = " ".join(PAGE.split())
    exact = json.loads((ROOT / "results/rules/exact-popular-niche.json").read_text())["rows"]
    exact = next(row["regret"] for row in exact if row["rule"] == "bayes-ucb")
    said = f"{regret('popular-niche'):.1f} after 1000 rounds, where the default rule on the exact"
    assert f"{said} posterior has {exact:.1f}" in page
    gaussian = regret("baselines-popular-niche", policy="gts-full")
    assert f"and GTS-full {gaussian:.1f}" in page
    assert f"errs by {errors('popular-niche')} at steps" in page


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


def test_speeds_are_those_of_the_files():
    page = " ".join(PAGE.split())

    def cells(file, program):
        text = (ROOT / f"benchmarks/results/{file}.md").read_text()
        (line,) = (line for line in text.splitlines() if line.startswith(f"| {program}"))
        return [cell.strip().partition(" (")[0] for cell in line.split("|")[2:-1]]

    paper, thompson, default = "paper's network", "arms, sampler merged", "arms, one pass"
    cpu = {program: cells("arms-cpu", program)[:2] for program in (paper, thompson, default)}
    for program, said in ((default, "{} for one task and {}"), (paper, "sampler took {} and {}")):
        assert said.format(*cpu[program]) in page
    assert "Thompson sampling {} and {}".format(*cpu[thompson]) in page
    fast = [cells("arms-h200-12-steps", program)[-1] for program in (default, thompson)]
    assert "makes {} decisions a second, Thompson sampling {}".format(*fast) in page
    assert f"made {cells('arms-h200', paper)[-1]}" in page
