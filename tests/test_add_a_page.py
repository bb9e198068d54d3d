"""The three pages 'Add a …', followed to the letter in a copy of the package."""

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
NAMES = ("policy", "problem", "sampler")
COPIED = ("constraints.txt", "pyproject.toml", "src", "tests")


class Page(NamedTuple):
    """What a page says: which code to put where, how to register it, and what to run then."""

    new_file: str
    code: str
    registry: str
    registration: str
    contract: str
    keyword: str

    @classmethod
    def read(cls, path):
        text = path.read_text()
        steps = re.split(r"^\*\*\d\. ", text, flags=re.M)
        assert len(steps) == 4, "three numbered steps"
        write, register, run = steps[1:]
        (new_file,) = re.findall(r"^Write it\*\*, here into `(\S+?)`", write)
        (registry,) = re.findall(r"^Give it a name\*\*.*? in `(\S+?)`", register)
        (command,) = re.findall(r"^```\n\S+/python -m (pytest .*)\n```", run, flags=re.M)
        _, contract, _, keyword = command.split()
        code = re.findall(r"^```python\n(.*?)^```", write, flags=re.M | re.S)[0]
        (registration,) = re.findall(r"^```diff\n(.*?)^```", register, flags=re.M | re.S)
        return cls(new_file, code, registry, registration, contract, keyword)

    def follow(self, root):
        new_file, registry = root / self.new_file, root / self.registry
        assert not new_file.exists()
        new_file.write_text(self.code)
        text = registry.read_text()
        for shown, new in re.findall(r"((?:^ .*\n)+)((?:^\+.*\n)+)", self.registration, re.M):
            above, below = (re.sub(r"^.", "", part, flags=re.M) for part in (shown, new))
            assert f"\n{text}".count(f"\n{above}") == 1, (
                f"not one place in {self.registry}:\n{above}"
            )
            text = f"\n{text}".replace(f"\n{above}", f"\n{above}{below}")[1:]
        registry.write_text(text)


@pytest.fixture(scope="module")
def pages():
    return {name: Page.read(ROOT / "docs" / f"add-a-{name}.md") for name in NAMES}


@pytest.fixture(scope="module")
def copy(tmp_path_factory, pages):
    """The package and its tests, with all that the three pages add."""
    root = tmp_path_factory.mktemp("copy")
    for name in COPIED:
        copied = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copied(ROOT / name, root / name)
    for page in pages.values():
        page.follow(root)
    return root


def run(copy, *command):
    environment = {**os.environ, "PYTHONPATH": str(copy / "src")}
    for name in [name for name in environment if name.startswith(("PYTEST_", "COV_"))]:
        del environment[name]
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=copy, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_code_and_registration_are_as_clean_as_the_rest(copy, pages):
    files = [file for page in pages.values() for file in (page.new_file, page.registry)]
    run(copy, "ruff", "check", "--no-cache", *files)
    run(copy, "ruff", "format", "--no-cache", "--check", *files)


@pytest.mark.slow
def test_what_the_pages_add_passes_the_contracts_that_they_promise(copy, pages):
    """In one process: ``pytest CONTRACT… -k NAME…``."""
    report = copy / "report.xml"
    contracts = [page.contract for page in pages.values()]
    keywords = " or ".join(page.keyword for page in pages.values())
    run(
        copy, "pytest", *contracts, "-k", keywords, "-p", "no:cacheprovider", f"--junitxml={report}"
    )
    passed = {
        (case.get("classname").split(".")[1], case.get("name"))
        for case in ElementTree.parse(report).iter("testcase")
        if len(case) == 0  # neither failed nor skipped
    }
    for page in pages.values():
        contract = Path(page.contract).stem
        of_the_page = [name for file, name in passed if file == contract and page.keyword in name]
        assert len(of_the_page) > 5, f"hardly any test of {contract} ran for {page.keyword}"
