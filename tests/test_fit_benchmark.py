"""The benchmark of fits on a machine that has no packages to read tables with."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from benchmarks.kept_log import keep_log, kept_log

from diffts.logs import Facts, Log

ROOT = Path(__file__).parents[1]
#: As on a machine where they are not installed.
WITHOUT_TABLES = """
import sys, importlib.machinery as machinery
found = machinery.PathFinder.find_spec
absent = {"pandas", "ibis", "duckdb", "pyarrow", "sklearn"}
machinery.PathFinder.find_spec = classmethod(
    lambda cls, name, *rest: None if name.partition(".")[0] in absent else found(name, *rest)
)
"""


def test_a_counted_log_comes_back(tmp_path):
    facts = Facts(rows_read=9, dropped={"no arm": 2}, rare_arms={"z": 1.0}, seldom_arms=("y",))
    log = Log(["ann", "bob"], ["x", "y"], [[2, 1], [0, 4]], [[0.5, 1], [0, 0.2]],
              [[0.5, 0], [0, 0.7]], facts, rows=[[1, 1], [0, 2]])  # fmt: skip
    keep_log(log, tmp_path / "log.npz", "factor-gaussian")
    again, law = kept_log(tmp_path / "log.npz")
    assert law == "factor-gaussian"
    assert (again.tasks, again.arms, again.facts) == (log.tasks, log.arms, log.facts)
    for name in ("counts", "means", "squares", "rows"):
        np.testing.assert_array_equal(getattr(again, name), getattr(log, name))


def test_fits_and_their_benchmark_load_without_tables():
    program = f"{WITHOUT_TABLES}\nimport benchmarks.fit, diffts.fitting, json\n"
    program += "print(json.dumps(sorted(absent & set(sys.modules))))"
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == []


def test_the_page_has_the_figures_of_the_result_file():
    (row,) = json.loads((ROOT / "results/fit/popular-niche.json").read_text())["rows"]
    page = " ".join((ROOT / "docs/from-your-csv.md").read_text().split())
    regret = [row["candidates"][kind]["regret"]["1000"] for kind in ("diffusion", "gaussian")]
    assert f"A log of {row['rows']:,} rows" in page
    assert f"took {row['seconds_in_all']:.0f} seconds" in page
    assert row["chosen"] == "diffusion"
    assert f"was {regret[0]:.1f}, a Gaussian's {regret[1]:.1f}" in page
    early = [row["candidates"][kind]["regret"]["100"] for kind in ("diffusion", "gaussian")]
    assert f"After 100 decisions it was {early[0]:.1f} and {early[1]:.1f}" in page
    (row,) = json.loads((ROOT / "results/fit/popular-niche-h200.json").read_text())["rows"]
    assert f"the same log took {row['seconds_in_all']:.0f} seconds on an H200" in page
    steps = {one["kind"]: one["steps"] for one in row["judged"]}["diffusion"]["made"]
    assert f"the network had time for {steps} steps" in page
    assert row["chosen"] == "gaussian"
