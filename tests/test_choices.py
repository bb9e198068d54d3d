"""What serves to choose, sweeps and benchmarks, does not look at test tasks."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted([*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "scripts").glob("*.py")])

#: They learn from the training tasks of a split and judge nothing.
LEARN_ONLY = {"make_builtin_priors.py"}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_benchmarks_and_scripts_draw_development_tasks(script):
    """Their tasks come from ``sets_for_choices``, which puts development tasks in their place."""
    text = script.read_text()
    assert script.name in LEARN_ONLY or not re.search(r"problem\w*\.split\(|\)\.split\(seed", text)
    if re.search(r"\.test\b", text):
        assert "sets_for_choices(" in text


def test_the_scripts_that_sweep_are_among_them():
    names = {path.name for path in SCRIPTS}
    assert {"regret.py", "imperfect.py", "baselines.py", "tune_bidding.py"} <= names
