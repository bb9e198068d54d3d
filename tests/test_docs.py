"""What the docs say can be run, runs."""

import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from diffts.diffusion import Gaussian

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [pytest.param(README, marks=pytest.mark.slow), *sorted((ROOT / "docs").glob("*.md"))]


def run_blocks(page, monkeypatch):
    """Run the blocks of Python in a page; returns what they defined."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.S)
    module = ModuleType("docs")  # dataclasses look up the module that they are defined in
    monkeypatch.setitem(sys.modules, "docs", module)
    for block in blocks:
        exec(compile(block, str(page), "exec"), module.__dict__)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_in_the_docs_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = run_blocks(page, monkeypatch)
    if page.name == "README.md":
        past = said.past_tasks
        truth = Gaussian(past.mean(0), np.cov(past.T)).posterior(said.evidence)
        assert (truth.mean[0].round(2), truth.std[0].round(2)) == (0.79, 0.09)  # as it says
        # A chain of 20 steps is good to a quarter of a standard deviation (docs/samplers.md), and
        # 400 draws to a twentieth.
        assert np.abs((said.draws.mean(0) - truth.mean) / truth.std).max() < 0.25 + 4.5 / 20
        spread = said.draws.std(0) / truth.std
        assert np.abs(spread - 1).max() < 0.1 + 4.5 / np.sqrt(2 * 400)


def test_every_function_that_equations_md_names_exists():
    text = (ROOT / "docs" / "equations.md").read_text()
    sources = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ")][1:]
    assert rows
    for row in rows:
        for name in re.findall(r"`(\w+)", row[4]):
            assert re.search(rf"(def|class) {name}\b", sources), f"no {name}"
        for file in re.findall(r"`([\w/]+(?:\.py|/))`", row[3]):
            where = ROOT / "src" / "diffts" / file
            beside = ROOT / "src" / "diffts" / "diffusion" / "posterior" / file
            assert where.exists() or beside.exists(), f"no {file}"
