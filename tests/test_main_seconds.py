"""Of the seconds of the main results each is told once, by what it went into."""

import sys

import numpy as np
import pytest
from benchmarks.main_seconds import main, races, shares

from diffts.reproduction import PROFILES
from diffts.reproduction.store import Made, Part, Store


def test_seconds_are_told_by_what_they_went_into(tmp_path):
    """A training, a fit and a race; what a part is made of is no part."""
    store = Store(tmp_path, {})
    spent = {
        "maze/times/perfect-arms-seed0": {"seconds": 10.0, "compiling": 4.0},
        "maze/times/fit-perfect-below-v1": {"seconds": 3.0, "compiling": 1.0},
        "maze/runs/perfect-ucb1": {"seconds": 2.0, "compiling": 0.5},
    }
    for key, seconds in spent.items():
        store.save(Part(key, ""), Made({}, seconds, []))
    store.save(
        Part("maze/runs/none", "", ("maze/fits/a",)), Made({}, spent[key], [{"x": np.ones(1)}])
    )
    assert shares(store) == pytest.approx(
        {"compiling": 6.0, "learning": 6.0, "fitting": 2.0, "playing": 3.0}
    )


def test_what_the_paper_has_not_is_not_timed():
    """Nor is its own DiffTS, which is timed with the evaluation."""
    runs = races(PROFILES["paper"])
    assert {run.problem for run in runs} == {"popular-niche", "bidding", "maze"}
    assert {run.seed for run in runs} == {0, 1, 2}
    assert {run.learner for run in runs} == {"", "arms"}
    assert not [run for run in runs if run.components and run.data != "perfect"]
    assert {run.rule for run in runs if run.prior} == {"thompson", "default"}


def test_parts_that_are_there_already_are_not_timed(tmp_path, monkeypatch, capsys):
    """They would look as if they took no time."""
    monkeypatch.setattr(sys, "argv", ["main_seconds", "--keep", str(tmp_path)])
    with pytest.raises(SystemExit):
        main()
    assert "would not be timed" in capsys.readouterr().err
