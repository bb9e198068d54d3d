"""What the docs say can be run, runs."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_in_the_docs_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.S)
    module = ModuleType("docs")  # dataclasses look up the module that they are defined in
    monkeypatch.setitem(sys.modules, "docs", module)
    for block in blocks:
        exec(compile(block, str(page), "exec"), module.__dict__)


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
