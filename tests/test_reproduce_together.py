"""A reproduction that several processes divide is whole, and learns nothing twice."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from diffts.reproduction import EXPERIMENTS, PROFILES

SCRIPT = Path(__file__).parent.parent / "scripts" / "reproduce_together.py"
PAPER = PROFILES["paper"]


def panels():
    return [
        (name, panel)
        for name, experiment in EXPERIMENTS.items()
        if experiment.panels is not None
        for panel in experiment.panels(PAPER)
    ]


def test_jobs_make_every_run_and_each_learns_what_no_other_does():
    made = {}  # by job
    for name, job in runpy.run_path(str(SCRIPT))["all_jobs"]("paper").items():
        problem, data, _ = name.split("/")
        made[name] = {
            run
            for experiment, panel in panels()
            if experiment in job["names"] and (panel.problem, panel.data) == (problem, data)
            for line in panel.lines
            if line.label in job["lines"]
            for run in line.runs
        }
    wanted = {run for _, panel in panels() for run in panel.runs}
    assert set().union(*made.values()) == wanted
    assert sum(map(len, made.values())) == len(wanted)
    learned = [{run.prior for run in runs if run.prior} for runs in made.values()]
    assert sum(map(len, learned)) == len(set().union(*learned))
    fitted = [
        {(run.problem, run.data, run.fit) for run in runs if run.fit} for runs in made.values()
    ]
    assert sum(map(len, fitted)) == len(set().union(*fitted))


@pytest.mark.slow(seconds=8)
def test_two_processes_make_parts_of_one_folder(tmp_path):
    jobs = ["popular-niche/perfect/others", "labeled-arms-common/noisy/others"]
    how = ["--profile", "smoke", "--out", tmp_path, "--at-once", "2"]
    result = subprocess.run(
        [sys.executable, SCRIPT, *how, *jobs], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert {f"done: {job}" for job in jobs} <= set(result.stdout.splitlines())
    for problem, run in (
        ("popular-niche", "perfect-gts-full-sigma0.1-many"),
        ("labeled-arms-common", "noisy-gts-full-sigma0.05-fresh"),
    ):
        assert (tmp_path / "parts" / problem / "runs" / f"{run}.npz").exists()


@pytest.mark.slow(seconds=4)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["maze/perfect/nobodys"], "no job 'maze/perfect/nobodys'; --list names them"),
        (["--at-once", "0"], "--at-once: at least 1"),
    ],
)
def test_bad_requests_are_refused(tmp_path, arguments, message):
    out = tmp_path / "out"
    result = subprocess.run(
        [sys.executable, SCRIPT, "--profile", "smoke", "--out", out, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert message in result.stderr
    assert not out.exists()
