"""The command line as a person uses it; nearly all of it inside the tests' own process."""

import csv
import json
import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from command_line import diffts
from diffts import __version__
from diffts.bandits.policies import POLICIES
from diffts.diffusion import SAMPLERS
from diffts.problems import PROBLEMS, Problem
from diffts.problems.popular_niche_prior import exact_prior

ROW_KEYS = {
    "prior", "sampler", "steps", "noise_std",
    "observed_mean", "observed_sd", "unobserved_mean", "unobserved_sd",
    "exact_observed_mean", "exact_observed_sd", "exact_unobserved_mean", "exact_unobserved_sd",
}  # fmt: skip
COMMANDS = [
    "accuracy",
    "backtest",
    "compare",
    "demo",
    "fit",
    "groups",
    "inspect",
    "reproduce",
    "train",
]
#: A network that compiles in no time; 'arms', the default, has tests of its own.
OLDER = ("--network", "residual-mlp")


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


def test_the_version():
    result = diffts("--version")
    assert (result.returncode, result.stdout.strip()) == (0, f"diffts {__version__}")


def test_a_start_as_a_process():
    """With a device that is not there: JAX chooses one only once in a process."""
    result = start("accuracy", "--steps", 5, JAX_PLATFORMS="no-such-chip")
    assert result.returncode == 1
    assert result.stderr.startswith("error: JAX_PLATFORMS=no-such-chip: no such device here")
    assert result.stderr.count("\n") == 1


INTERRUPTED = """
import builtins, runpy, sys
plain = builtins.__import__
sys.argv = ["diffts", "accuracy"]
for module in ("typer", "jax", "equinox"):  # in the order in which a start comes to them
    def interrupted(name, *rest, **more):
        if name.split(".")[0] == module:
            raise KeyboardInterrupt
        return plain(name, *rest, **more)
    builtins.__import__ = interrupted
    try:
        runpy.run_module("diffts", run_name="__main__")
    except SystemExit as stop:
        print(module, stop.code)
"""


def test_ctrl_c_while_importing():
    result = start(code=INTERRUPTED)
    assert (result.stdout, result.stderr) == ("typer 130\njax 130\nequinox 130\n", "")


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
def test_accuracy_after_play_and_of_a_learned_denoiser(tmp_path, monkeypatch):
    quick = partial(exact_prior, draws=1)
    monkeypatch.setattr("diffts.experiments.play_accuracy.exact_prior", quick)
    monkeypatch.setattr("diffts.experiments.play_accuracy.ROUNDS", (2, 5))
    file = tmp_path / "rows.json"
    how = ("--sampler", "merged", "--steps", 5, "--samples", 50, "--learned", "builtin")
    result = diffts("accuracy", "--prior", "popular-niche", *how, "--json", file)
    assert result.returncode == 0, result.stderr
    assert "ratio of τ²" in result.stdout
    rows = json.loads(file.read_text())
    by_step = [row for row in rows if "excess" in row]
    played = [row for row in rows if "excess" not in row]
    assert [row["step"] for row in by_step] == [1, 2, 5, 10, 20, 40, 70]
    assert all(row["learned_tau"] > row["exact_tau"] for row in by_step)
    assert [(row["sampler"], row["rounds"]) for row in played] == [
        (name, rounds) for rounds in (2, 5) for name in ("exact", "merged")
    ]


@pytest.fixture
def few_tasks(monkeypatch):
    """Fewer past and test tasks than the problems have by themselves."""
    monkeypatch.setattr(Problem, "default_sizes", (100, 20, 10))


@pytest.mark.slow
@pytest.mark.usefixtures("few_tasks")
def test_groups_prints_and_writes_its_scores(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "scores.json"
    result = diffts("groups", "--network", "residual-mlp", "--train-steps", 20, "--json", file)
    assert result.returncode == 0, result.stderr
    scores = json.loads(file.read_text())
    assert [row["sampler"] for row in scores] == ["paper", "paper-sampled-noise"]
    assert all(0 <= row[name] <= 1 for row in scores for name in ("recall", "precision"))
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
@pytest.mark.usefixtures("few_tasks")
def test_train_inspect_and_compare_work_together(tmp_path):
    prior, json_file, figure = tmp_path / "prior", tmp_path / "race.json", tmp_path / "race.png"
    result = diffts("train", "groups", "--out", prior, "--train-steps", 20, *OLDER)
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
    result = diffts("groups", "--prior", prior, "--sampler", "moment-diagonal")
    assert result.returncode == 0, result.stderr
    assert "moment-diagonal" in result.stdout
    assert race["regret"].keys() == race["stderr"].keys() == {"diffts", "ucb1", "gts-full"}
    assert (race["horizon"], race["tasks"]) == (5, 3)
    assert figure.stat().st_size > 10_000
    other = diffts("compare", "labeled-arms", "--prior", prior, "--policies", "ucb1,diffts")
    assert other.returncode == 2
    assert "prior: has 200 arms" in other.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("few_tasks")
def test_rules_floors_and_noises_by_name(tmp_path):
    """Rules for whoever plays Thompson sampling; told rounds, right arms and what was believed."""
    file = tmp_path / "race.json"
    result = diffts(
        "compare", "groups", "--policies", "gts-diag,ucb1,gts-full:greedy", "--rule", "default",
        "--rule", "satisficing", "--floor", 0.001, "--noise-std", "auto", "--tasks", 3,
        "--horizon", 6, "--json", file, "--figure", tmp_path / "race.png",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    race = json.loads(file.read_text())
    names = ["gts-diag:default", "gts-diag:satisficing", "ucb1", "gts-full:greedy"]
    assert list(race["regret"]) == names
    assert (race["noise_std"], race["floor"]) == ("auto", 0.001)
    assert all(0 <= chance <= 1 for chance in race["chance_right"].values())
    assert "as believed" in result.stdout
    assert all(name in result.stdout for name in names)


PLUGIN = """
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from diffts.bandits.policies import POLICIES
from diffts.diffusion import SAMPLERS, PaperSampler
from diffts.problems import PROBLEMS, GaussianRewards, Problem


@dataclass(frozen=True)
class Slopes(Problem):
    name: ClassVar[str] = "slopes"
    n_arms: ClassVar[int] = 5
    noise_std: ClassVar[float] = 0.1
    horizon: ClassVar[int] = 8

    @property
    def rewards(self):
        return GaussianRewards(std=0.1)

    def _draw(self, n, rng):
        return rng.uniform(size=(n, 1)) * np.arange(5.0) / 5


class Same(PaperSampler):
    pass


PROBLEMS["slopes"] = Slopes
POLICIES["mine"] = POLICIES["ucb1"]
POLICIES["drawn"] = POLICIES["diffts"]
SAMPLERS["same"] = Same()
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A file that adds a problem, two policies and a sampler; the registries forget them."""
    before = [(registry, dict(registry)) for registry in (PROBLEMS, POLICIES, SAMPLERS)]
    file = tmp_path / "my plugin.py"
    file.write_text(PLUGIN)
    monkeypatch.chdir(tmp_path)
    yield file
    for registry, names in before:
        registry.clear()
        registry.update(names)


RACE = ("compare", "slopes", "--tasks", 4, "--past-tasks", 20, "--train-steps", 5, "--steps", 4)
RACE += OLDER


@pytest.mark.slow
def test_a_plugin_adds_a_problem_a_policy_and_a_sampler(tmp_path, plugin):
    """All seeds, samplers and results: rows, curves and means that agree with each other."""
    result = diffts(
        *RACE, "--plugin", plugin, "--policies", "mine,drawn,gts-full", "--sampler", "paper",
        "--sampler", "same", "--seeds", 2, "--seed", 7, "--json", "race.json",
        "--csv", "race.csv", "--figure", "race.png",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "4 tasks, 8 rounds, 2 seeds" in result.stdout
    assert sorted(os.listdir(tmp_path)) == ["my plugin.py", "race.csv", "race.json", "race.png"]
    race = json.loads((tmp_path / "race.json").read_text())
    labels = ["mine", "drawn (paper)", "drawn (same)", "gts-full"]
    assert list(race["regret"]) == list(race["curves"]) == labels
    # The same sampler under two names draws the same.
    assert race["curves"]["drawn (paper)"] == race["curves"]["drawn (same)"]
    told = {"problem": "slopes", "data": "exact", "corruption": None, "seeds": [7, 8],
            "samplers": ["paper", "same"], "steps": 4, "noise_std": 0.1}  # fmt: skip
    assert told.items() <= race.items()
    assert race["versions"].keys() == {"diffts", "jax", "python", "device", "commit"}
    with open(tmp_path / "race.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 * 2 * 8 * 4  # policies, seeds, rounds, tasks
    for label in labels:
        policy, _, sampler = label.removesuffix(")").partition(" (")
        mine = [row for row in rows if (row["policy"], row["sampler"]) == (policy, sampler)]
        assert {(row["problem"], row["noise_std"]) for row in mine} == {("slopes", "0.1")}
        last = np.array([float(row["regret"]) for row in mine if row["round"] == "8"])
        curve = race["curves"][label]
        assert (len(curve["rounds"]), curve["rounds"][-1]) == (8, 8)
        assert race["regret"][label] == curve["regret"][-1] == pytest.approx(last.mean())
        of_seeds = last.reshape(2, 4)
        of_the_two = of_seeds.mean(0).var(ddof=1) / 4 + of_seeds.mean(1).var(ddof=1) / 2
        assert race["stderr"][label] == curve["stderr"][-1] == pytest.approx(of_the_two**0.5)


@pytest.mark.slow
def test_two_seeds_are_two_races(tmp_path, plugin):
    """The same tasks, with other priors and other rewards; the baselines' fits are the same."""
    three = {"both": ("--seeds", 2), "first": (), "second": ("--seed", 1)}
    for name, seeds in three.items():
        options = (*RACE, "--plugin", plugin, "--policies", "diffts,gmmts-2", *seeds)
        result = diffts(*options, "--json", f"{name}.json", "--csv", f"{name}.csv")
        assert result.returncode == 0, result.stderr
    rows = {}
    for name in three:
        with open(tmp_path / f"{name}.csv") as file:
            rows[name] = list(csv.DictReader(file))
    assert [row for row in rows["both"] if row["seed"] == "0"] == rows["first"]
    others = [row for row in rows["both"] if row["seed"] == "1"]
    assert others != [row | {"seed": "1"} for row in rows["first"]]
    assert others != rows["second"]  # its tasks are others


@pytest.mark.slow
def test_a_prior_for_each_seed(tmp_path, plugin):
    """Two priors that were trained before play as the two that are learned on the way."""
    train = ("train", "slopes", "--plugin", plugin, "--past-tasks", 20, "--train-steps", 5)
    train += OLDER
    assert diffts(*train, "--out", "a").returncode == 0
    few = ("--policies", "diffts", "--plugin", plugin, "--seeds", 2)
    learned = diffts(*RACE, *few, "--csv", "learned.csv")
    assert learned.returncode == 0, learned.stderr
    given = diffts(*RACE, *few, "--prior", "a", "--prior", "a", "--csv", "given.csv")
    assert given.returncode == 0, given.stderr
    one = [(tmp_path / f"{name}.csv").read_text().splitlines() for name in ("learned", "given")]
    half = 1 + 8 * 4
    assert one[0][:half] == one[1][:half]
    assert one[0][half:] != one[1][half:]


@pytest.mark.slow
def test_imperfect_data_serve_all_policies(tmp_path):
    """Few past tasks, so few that some arms are observed too seldom to calibrate."""
    few = ("--data", "imperfect", "--missing", 0.8, "--past-tasks", 60)
    prior, file = tmp_path / "prior", tmp_path / "race.json"
    result = diffts("train", "groups", "--out", prior, "--train-steps", 30, *few, *OLDER)
    assert result.returncode == 0, result.stderr
    assert "Held-out CRPS" in result.stdout
    assert "observed too seldom to calibrate" in result.stdout
    race = ("--policies", "diffts,gts-diag,gts-full,gmmts-2", "--tasks", 3, "--horizon", 5)
    result = diffts("compare", "groups", *few, "--prior", prior, *race, "--steps", 5,
                    "--json", file)  # fmt: skip
    assert result.returncode == 0, result.stderr
    race = json.loads(file.read_text())
    assert len(race["regret"]) == 4
    assert (race["data"], race["corruption"]) == ("imperfect", {"missing": 0.8, "noise": 0.1})


@pytest.mark.slow
@pytest.mark.usefixtures("few_tasks")
def test_the_demo_runs_small(tmp_path):
    file = tmp_path / "out" / "demo.json"
    result = diffts(
        "demo", "--out", tmp_path / "out", "--tasks", 3, "--horizon", 10, "--train-steps", 20,
        "--json", file,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "is first" in result.stdout
    demo = json.loads(file.read_text())
    raced = {"diffts:default", "gts-full:default", "gts-full", "gmmts-10", "gts-diag", "ucb1"}
    assert demo["regret"].keys() == raced
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "regret.png", "tasks.png", "posterior.png", "demo.json",
    }  # fmt: skip
    assert os.listdir(tmp_path) == ["out"]
