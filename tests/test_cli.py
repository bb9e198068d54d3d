"""The command line as a person uses it; nearly all of it inside the tests' own process."""

import json
import os
import subprocess
import sys

import pytest

import diffts as package
from command_line import diffts
from diffts import __version__

ROW_KEYS = {
    "prior", "sampler", "steps", "noise_std",
    "observed_mean", "observed_sd", "unobserved_mean", "unobserved_sd",
    "exact_observed_mean", "exact_observed_sd", "exact_unobserved_mean", "exact_unobserved_sd",
}  # fmt: skip
COMMANDS = ["accuracy", "groups", "demo", "compare", "train", "inspect", "reproduce"]


def start(*arguments, code="", **environment):
    """``python -m diffts`` in a process of its own, or some code before it."""
    command = ["-c", code] if code else ["-m", "diffts"]
    inherited = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    return subprocess.run(
        [sys.executable, *command, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**inherited, "COLUMNS": "100", **environment},
    )


def test_a_start_as_a_process():
    result = start("--version")
    assert (result.returncode, result.stdout.strip()) == (0, f"diffts {__version__}")


@pytest.mark.slow
def test_a_mistake_as_a_process():
    """A device that is not there: JAX chooses one only once in a process."""
    result = start("accuracy", "--steps", 5, JAX_PLATFORMS="no-such-chip")
    assert result.returncode == 1
    assert result.stderr.startswith("error: JAX_PLATFORMS=no-such-chip: no such device here")
    assert result.stderr.count("\n") == 1


INTERRUPTED = """
import builtins, sys
plain = builtins.__import__
def interrupted(name, *rest, **more):
    if name.split(".")[0] == {module!r}:
        raise KeyboardInterrupt
    return plain(name, *rest, **more)
builtins.__import__ = interrupted
sys.argv = ["diffts", "accuracy"]
import runpy
runpy.run_module("diffts", run_name="__main__")
"""


@pytest.mark.parametrize("module", ["typer", "jax", "equinox"])
def test_ctrl_c_while_importing(module):
    result = start(code=INTERRUPTED.format(module=module))
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")


def test_the_package_is_light_until_it_is_used():
    code = "import sys, diffts.cli; print(sorted({'jax', 'numpy', 'typer'} & set(sys.modules)))"
    assert start(code=code).stdout == "[]\n"


def test_every_public_name_is_there():
    for name in package.__all__:
        assert getattr(package, name) is not None
        assert name in dir(package)
    assert package.storage.CONFIG == "config.json"
    with pytest.raises(AttributeError, match="no attribute 'oracle'"):
        _ = package.oracle
    with pytest.raises(ImportError):
        from diffts import oracle  # noqa: F401


def test_the_experiments_are_listed():
    result = diffts("reproduce", "--list")
    assert result.returncode == 0
    for name in ("main", "noise-levels", "variance", "groups", "fashion-mnist"):
        assert name in result.stdout


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_has_examples(command):
    result = diffts(*command, "--help")
    assert result.returncode == 0
    assert "Example" in result.stdout


@pytest.mark.slow
def test_accuracy_prints_a_table_and_writes_json(tmp_path):
    file = tmp_path / "rows.json"
    result = diffts("accuracy", "--steps", 10, "--samples", 500, "--json", file)
    assert result.returncode == 0, result.stderr
    assert "gaussian-5d-many" in result.stdout
    rows = json.loads(file.read_text())
    assert len(rows) == 5 * 5 * 2
    assert all(row.keys() == ROW_KEYS for row in rows)
    assert {row["sampler"] for row in rows} == {"paper", "moment"}
    single = next(row for row in rows if row["prior"] == "gaussian-1d" and row["noise_std"] == 1)
    assert (single["exact_observed_mean"], single["unobserved_mean"]) == (0.5, None)
    assert single["exact_observed_sd"] == pytest.approx(0.5**0.5)


@pytest.mark.slow
def test_groups_prints_and_writes_its_scores(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "scores.json"
    result = diffts("groups", "--network", "residual-mlp", "--train-steps", 20, "--json", file)
    assert result.returncode == 0, result.stderr
    scores = json.loads(file.read_text())
    assert list(scores) == [
        "recall_predicted", "precision_predicted", "recall_sampled", "precision_sampled",
    ]  # fmt: skip
    assert all(0 <= value <= 1 for value in scores.values())
    assert os.listdir(tmp_path) == ["scores.json"]


@pytest.mark.slow
def test_compiled_programs_are_kept_between_starts(tmp_path):
    """All of them: which ones must not depend on how long this machine took to compile."""
    arguments = ("compare", "groups", "--policies", "ucb1", "--tasks", 2, "--horizon", 3)
    kept = []
    for _ in range(2):
        result = start(*arguments, XDG_CACHE_HOME=str(tmp_path))
        assert result.returncode == 0, result.stderr
        kept.append({path.name for path in tmp_path.rglob("*-cache")})
    assert kept[0] == kept[1]
    # Those that compile in a few milliseconds, too.
    assert any("convert_element_type" in name for name in kept[0])


@pytest.mark.slow
def test_train_inspect_and_compare_work_together(tmp_path):
    prior, json_file, figure = tmp_path / "prior", tmp_path / "race.json", tmp_path / "race.png"
    result = diffts("train", "groups", "--out", prior, "--steps", 20)
    assert result.returncode == 0, result.stderr
    assert os.listdir(tmp_path) == ["prior"]
    result = diffts("inspect", prior)
    assert result.returncode == 0, result.stderr
    assert "residual-mlp" in result.stdout
    assert (prior / "prior.png").stat().st_size > 10_000
    result = diffts(
        "compare", "groups", "--prior", prior, "--policies", "diffts,ucb1,gts-full",
        "--tasks", 3, "--horizon", 5, "--steps", 5, "--json", json_file, "--figure", figure,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    race = json.loads(json_file.read_text())
    assert {"horizon", "tasks", "regret", "stderr", "seconds"} <= race.keys()
    assert race["regret"].keys() == race["stderr"].keys() == {"diffts", "ucb1", "gts-full"}
    assert (race["horizon"], race["tasks"]) == (5, 3)
    assert figure.stat().st_size > 10_000
    other = diffts("compare", "labeled-arms", "--prior", prior, "--policies", "ucb1,diffts")
    assert other.returncode == 2
    assert "prior: has 200 arms" in other.stderr


@pytest.mark.slow
def test_imperfect_data_serve_all_policies(tmp_path):
    """Few past tasks, so few that some arms are observed too seldom to calibrate."""
    few = ("--data", "imperfect", "--missing", 0.8, "--past-tasks", 60)
    prior, file = tmp_path / "prior", tmp_path / "race.json"
    result = diffts("train", "groups", "--out", prior, "--steps", 30, *few)
    assert result.returncode == 0, result.stderr
    assert "Held-out CRPS" in result.stdout
    assert "observed too seldom to calibrate" in result.stdout
    race = ("--policies", "diffts,gts-diag,gts-full,gmmts-2", "--tasks", 3, "--horizon", 5)
    result = diffts("compare", "groups", *few, "--prior", prior, *race, "--steps", 5,
                    "--json", file)  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert len(json.loads(file.read_text())["regret"]) == 4


@pytest.mark.slow
def test_the_demo_runs_small(tmp_path):
    file = tmp_path / "out" / "demo.json"
    result = diffts(
        "demo", "--out", tmp_path / "out", "--tasks", 3, "--horizon", 10, "--train-steps", 20,
        "--json", file,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "is first" in result.stdout
    demo = json.loads(file.read_text())
    assert demo["regret"].keys() == {"diffts", "ucb1", "gts-diag", "gts-full", "gmmts-10"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "regret.png", "tasks.png", "posterior.png", "demo.json",
    }  # fmt: skip
    assert os.listdir(tmp_path) == ["out"]
