"""The simulator of Bidding can be fitted to one half of the slots and looked at on the other."""

import contextlib
import importlib.util
import io
import json
import runpy
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from diffts.problems import simulated_slots
from diffts.reproduction import EXPERIMENTS, PROFILES

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "scripts" / "tune_bidding.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("tune_bidding", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_data(folder, of_held_out=0):
    """Made-up logs: 11 slots of 60 prices each, ``of_held_out`` more in those that are held out."""
    campaigns, slots = folder / "ipinyou_campaigns", folder / "ipinyou_slots"
    campaigns.mkdir(parents=True)
    slots.mkdir()
    for campaign in (1458, 3358, 3386, 3427, 3476):
        content = {"price_counter_train": [1] * 301}
        (campaigns / f"{campaign}.info.json").write_text(json.dumps(content))
    held_out = set(np.random.default_rng(0).permutation(11)[5:].tolist())
    rng = np.random.default_rng(1)
    rows = ["slotid,payprice"]
    for slot in range(11):
        prices = rng.integers(20, 120, size=60) + (of_held_out if slot in held_out else 0)
        rows += [f"slot{slot:02d},{price}" for price in prices]
    (slots / "merged_slot_prices.csv").write_text("\n".join(rows))


def run(folder, *options):
    """As ``python scripts/tune_bidding.py``, but in the tests' own process."""
    out = io.StringIO()
    with (
        mock.patch.object(sys, "argv", [str(SCRIPT), str(folder), "--slots", "200", *options]),
        contextlib.redirect_stdout(out),
    ):
        runpy.run_path(str(SCRIPT), run_name="__main__")
    return out.getvalue()


def test_halves_are_disjoint_fixed_and_cover_all_slots(script):
    slots = np.arange(11.0)[:, None]
    first, second = script.halves(slots)
    assert (len(first), len(second)) == (5, 6)
    assert sorted(np.concatenate([first, second]).ravel()) == slots.ravel().tolist()
    np.testing.assert_array_equal(first, script.halves(slots)[0])
    assert first.ravel().tolist() != [0, 1, 2, 3, 4]  # not by their names


def test_the_score_sees_one_half_alone(tmp_path):
    write_data(tmp_path / "a")
    write_data(tmp_path / "b", of_held_out=150)
    told, other = (run(tmp_path / name, "--split") for name in "ab")
    score, beside = told.split("the other 6 real slots")
    other_score, other_beside = other.split("the other 6 real slots")
    assert score == other_score
    assert beside != other_beside
    assert "5 real ones" in score
    assert "11 real ones" in run(tmp_path / "a")
    assert run(tmp_path / "a") != run(tmp_path / "b")


def test_the_transfer_to_real_slots_says_that_the_simulator_was_fitted_to_them():
    experiment = EXPERIMENTS["real-slots"]
    assert "fitted" in experiment.about
    assert "no independent test" in experiment.caveat
    assert all("fitted" in panel.title for panel in experiment.panels(PROFILES["paper"]))
    assert "cannot be tested on" in simulated_slots.__doc__
    summary = json.loads((ROOT / "results" / "first-run" / "real-slots.json").read_text())
    assert summary["caveat"] == experiment.caveat
    assert "No independent test" in (ROOT / "docs" / "reproduction.md").read_text()
