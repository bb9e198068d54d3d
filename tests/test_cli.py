"""The command line as a person uses it: in a process of its own."""

import json
import os
import subprocess
import sys

import pytest

from diffts import __version__

ROW_KEYS = {
    "prior", "sampler", "steps", "noise_std",
    "observed_mean", "observed_sd", "unobserved_mean", "unobserved_sd",
    "exact_observed_mean", "exact_observed_sd", "exact_unobserved_mean", "exact_unobserved_sd",
}  # fmt: skip


@pytest.fixture(scope="module")
def diffts(tmp_path_factory):
    cache = tmp_path_factory.mktemp("cache")

    def run(*arguments):
        environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "COLUMNS": "100"}
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        return subprocess.run(
            [sys.executable, "-m", "diffts", *map(str, arguments)],
            capture_output=True,
            text=True,
            env=environment,
        )

    run.cache = cache
    return run


def test_version(diffts):
    result = diffts("--version")
    assert (result.returncode, result.stdout.strip()) == (0, f"diffts {__version__}")


COMMANDS = ["accuracy", "groups", "demo", "compare", "train", "inspect", "reproduce"]


def test_the_experiments_are_listed(diffts):
    result = diffts("reproduce", "--list")
    assert result.returncode == 0
    for name in ("main", "noise-levels", "variance", "groups", "fashion-mnist"):
        assert name in result.stdout


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_has_examples(diffts, command):
    result = diffts(*command, "--help")
    assert result.returncode == 0
    assert "Example" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["accuracy", "--sampler", "gibbs"], "sampler: unknown 'gibbs'"),
        (["accuracy", "--steps", "0"], "steps"),
        (["accuracy", "--steps", "101"], "steps"),
        (["accuracy", "--steps", "many"], "steps"),
        (["accuracy", "--samples", "1"], "samples"),
        (["accuracy", "--seed", "-1"], "seed"),
        (["accuracy", "--json", "no/such/folder/a.json"], "--json"),
        (["accuracy", "--json", "."], "--json"),
        (["groups", "--network", "oracle"], "network"),
        (["groups", "--train-steps", "0"], "steps"),
        (["compare", "chess"], "problem: unknown 'chess'"),
        (["compare", "groups", "--prior", "builtin"], "prior: none is built in for 'groups'"),
        (["compare", "maze", "--prior", "builtin", "--data", "imperfect"], "--prior"),
        (["compare", "maze", "--prior", "builtin", "--past-tasks", "50"], "--past-tasks"),
        (["reproduce", "figure-7"], "name: unknown 'figure-7'"),
        (["reproduce", "--profile", "huge"], "--profile: unknown 'huge'"),
        (["reproduce", "--problem", "chess"], "--problem: unknown 'chess'"),
        (["reproduce", "--data-dir", "no-such-folder"], "--data-dir"),
        (["reproduce", "--out", __file__], "--out"),
        (["compare", "groups", "--policies", "diffts,oracle"], "policies: unknown 'oracle'"),
        (["compare", "groups", "--policies", ","], "policies"),
        (["compare", "groups", "--policies", "ucb1,ucb1"], "policies"),
        (["compare", "groups", "--horizon", "0"], "horizon"),
        (["compare", "groups", "--tasks", "0"], "tasks"),
        (["compare", "groups", "--noise-std", "0"], "noise_std"),
        (["compare", "groups", "--steps", "500"], "steps"),
        (["compare", "groups", "--figure", "no/such/folder/a.png"], "--figure"),
        (["compare", "groups", "--logs", "."], "logs"),
        (["compare", "bidding", "--logs", "no-such-folder"], "no-such-folder"),
        (["compare", "groups", "--data", "dirty"], "data: unknown 'dirty'"),
        (["compare", "groups", "--data", "imperfect", "--missing", "1"], "missing"),
        (["compare", "groups", "--data", "imperfect", "--noise", "-1"], "noise"),
        (["compare", "groups", "--data", "imperfect", "--procedure", "luck"], "procedure"),
        (["compare", "groups", "--data", "imperfect", "--sure", "much"], "sure"),
        (["compare", "groups", "--procedure", "paper"], "only with --data imperfect"),
        (["train", "groups", "--out", "x", "--noise", "0.3"], "only with --data imperfect"),
        (["compare", "groups", "--past-tasks", "1"], "past_tasks"),
        (["train", "groups"], "--out"),
        (["train", "chess", "--out", "x"], "problem"),
        (["fly"], "fly"),
        (["--fly"], "--fly"),
    ],
)
def test_a_users_mistake_is_one_clear_line_and_exit_code_2(diffts, arguments, named):
    result = diffts(*arguments)
    assert result.returncode == 2
    assert named in result.stderr
    assert "Traceback" not in result.stderr + result.stdout


@pytest.mark.slow
def test_accuracy_prints_a_table_and_writes_json(diffts, tmp_path):
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
def test_groups_prints_and_writes_its_scores(diffts, tmp_path):
    file = tmp_path / "scores.json"
    result = diffts("groups", "--network", "residual-mlp", "--train-steps", 20, "--json", file)
    assert result.returncode == 0, result.stderr
    scores = json.loads(file.read_text())
    assert list(scores) == [
        "recall_predicted", "precision_predicted", "recall_sampled", "precision_sampled",
    ]  # fmt: skip
    assert all(0 <= value <= 1 for value in scores.values())


@pytest.mark.slow
def test_compiled_programs_are_kept_between_starts(diffts):
    arguments = ("accuracy", "--steps", 7, "--samples", 100, "--sampler", "moment")
    assert diffts(*arguments).returncode == 0
    kept = {path.name for path in diffts.cache.rglob("*-cache")}
    assert kept
    assert diffts(*arguments).returncode == 0
    assert {path.name for path in diffts.cache.rglob("*-cache")} == kept


@pytest.mark.slow
def test_train_inspect_and_compare_work_together(diffts, tmp_path):
    prior, json_file, figure = tmp_path / "prior", tmp_path / "race.json", tmp_path / "race.png"
    result = diffts("train", "groups", "--out", prior, "--steps", 20)
    assert result.returncode == 0, result.stderr
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
    other = diffts("compare", "labeled-arms", "--prior", prior, "--policies", "diffts")
    assert other.returncode == 2
    assert "prior: has 200 arms" in other.stderr
    missing = diffts("inspect", tmp_path / "nothing")
    assert missing.returncode == 1
    assert "no config.json" in missing.stderr


@pytest.mark.slow
def test_imperfect_data_serve_all_policies(diffts, tmp_path):
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
def test_the_demo_runs_small(diffts, tmp_path):
    file = tmp_path / "demo.json"
    result = diffts(
        "demo", "--out", tmp_path / "out", "--tasks", 3, "--horizon", 10, "--train-steps", 20,
        "--json", file,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "is first" in result.stdout
    demo = json.loads(file.read_text())
    assert demo["regret"].keys() == {"diffts", "ucb1", "gts-diag", "gts-full", "gmmts-10"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "regret.png", "tasks.png", "posterior.png",
    }  # fmt: skip
