"""What was learned or measured outlives a stop, a full disk and a lost folder."""

import json
import os
import shlex
import signal
import threading
import warnings

import numpy as np
import pytest

from command_line import diffts
from diffts import DiffusionPrior
from diffts.bandits.simulate import Simulation
from diffts.cli import console
from diffts.experiments import compare, learning_plan
from diffts.learning import Progress, TrainingConfig, TrainingStopped
from diffts.learning.training import refuse_divergence
from diffts.problems import Problem
from diffts.storage import save_folder

OLDER = ("--network", "residual-mlp")  # compiles in no time
TRAIN = ("train", "groups", "--train-steps", 300, "--past-tasks", 20, *OLDER)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """The current folder, and another one for temporary files."""
    for name in ("here", "tmp"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    return tmp_path / "here"


@pytest.fixture
def quick(monkeypatch):
    """A small network and blocks of a few steps."""
    learn = learning_plan.learn_prior
    small = {"width": 4, "n_blocks": 1}
    monkeypatch.setattr(
        learning_plan, "learn_prior", lambda *a, **k: learn(*a, **{**k, "options": small})
    )


@pytest.fixture
def another_network(monkeypatch):
    """Whatever a command would learn: a network that compiles in no time, for three blocks."""
    learn = learning_plan.learn_prior
    other = {"network": "residual-mlp", "options": {"width": 4, "n_blocks": 1}}
    other["config"] = TrainingConfig(steps=300)

    def learn_another(past, calibration, *, seed, checkpoint, on_progress, **_):
        how = {"seed": seed, "checkpoint": checkpoint, "on_progress": on_progress}
        return learn(past, calibration, **how, **other)

    monkeypatch.setattr(learning_plan, "learn_prior", learn_another)


@pytest.fixture
def few_tasks(monkeypatch):
    """Fewer past and test tasks than the problems have by themselves."""
    monkeypatch.setattr(Problem, "default_sizes", (100, 20, 10))


@pytest.fixture
def signal_at(monkeypatch):
    """Send this process a signal when the training has told of so many blocks."""

    def arrange(number, block):
        plain = console.learning_progress
        blocks = []

        def told():
            blocks.append(1)
            if len(blocks) == block:
                os.kill(os.getpid(), number)

        monkeypatch.setattr(
            "diffts.cli.learning.learning_progress", lambda *given: _Telling(plain(*given), told)
        )

    return arrange


class _Telling:
    def __init__(self, inside, told):
        self.inside, self.told = inside, told

    def __enter__(self):
        advance = self.inside.__enter__()
        return lambda *arguments: (advance(*arguments), self.told())

    def __exit__(self, *error):
        return self.inside.__exit__(*error)


def command_in(stderr):
    """The arguments of the command that is printed to go on with."""
    line = next(line for line in stderr.splitlines() if "go on with: " in line)
    program, *arguments = shlex.split(line.split("go on with: ")[1])
    assert program == "diffts"
    return arguments


def weights(folder):
    return [np.asarray(leaf) for leaf in DiffusionPrior.load(folder).denoiser.network.inward.weight]


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_training_goes_on_to_the_same_weights(here, signal_at, number, code):
    signal_at(number, 2)
    result = diffts(*TRAIN, "--out", "my prior")
    assert result.returncode == code
    assert "Traceback" not in result.stderr
    assert "the training is kept in my prior-checkpoint" in result.stderr
    assert os.listdir(here) == ["my prior-checkpoint"]
    signal_at(number, 99)
    again = diffts(*command_in(result.stderr))
    assert again.returncode == 0, again.stderr
    assert diffts(*TRAIN, "--out", "whole").returncode == 0
    np.testing.assert_array_equal(weights("my prior"), weights("whole"))
    # What was asked for stays; what was not is gone.
    assert sorted(os.listdir(here)) == ["my prior", "my prior-checkpoint", "whole"]


@pytest.mark.parametrize("data", ["exact", "imperfect"])
def test_from_either_kind_of_data(here, monkeypatch, data):
    """The learner keeps its state (see test_stopped_training.py); the command says how to go on."""

    def learn(*_, checkpoint, **__):
        save_folder(checkpoint, "diffts.training", 1, {}, {"x": np.zeros(1)})
        raise TrainingStopped(checkpoint, 100)

    monkeypatch.setattr(learning_plan, "learn_prior", learn)
    result = diffts(*TRAIN, "--out", "p", "--data", data)
    assert result.returncode == 130
    assert os.listdir(here) == ["p-checkpoint"]
    assert command_in(result.stderr) == [
        *map(str, TRAIN), "--out", "p", "--data", data, "--checkpoint", "p-checkpoint",
    ]  # fmt: skip
    # Once more: the first one is not written over, and a line tells of it.
    result = diffts(*TRAIN, "--out", "p", "--data", data)
    assert sorted(os.listdir(here)) == ["p-checkpoint", "p-checkpoint-2"]
    assert "note: p-checkpoint holds a stopped training" in result.stderr
    # With a folder of one's own the same command goes on.
    result = diffts(*TRAIN, "--out", "p", "--data", data, "--checkpoint", "mine")
    assert command_in(result.stderr)[-2:] == ["--checkpoint", "mine"]
    assert command_in(result.stderr).count("--checkpoint") == 1


@pytest.mark.usefixtures("another_network", "few_tasks")
@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", "groups", "--past-tasks", 20, "--policies", "diffts"),
        ("demo", "--tasks", 2, "--horizon", 2),
    ],
)
def test_races_keep_their_training(here, signal_at, arguments):
    signal_at(signal.SIGINT, 2)
    result = diffts(*arguments)
    assert result.returncode == 130
    (kept,) = os.listdir(here)
    assert kept.endswith("-checkpoint")
    assert command_in(result.stderr)[-2:] == ["--checkpoint", kept]
    assert (here / kept / "config.json").exists()


@pytest.mark.parametrize(
    ("command", "options"),
    [("compare", ("popular-niche", "--policies", "diffts,ucb1")), ("demo", ())],
)
def test_a_race_that_is_stopped_keeps_its_prior(here, monkeypatch, command, options):
    def stop(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)

    prior = DiffusionPrior.gaussian(np.zeros(200), np.eye(200))
    monkeypatch.setattr(learning_plan, "learn_prior", lambda *_, **__: prior)
    monkeypatch.setattr(compare, "simulate", stop)
    result = diffts(command, *options, "--tasks", 7, "--horizon", 3)
    assert result.returncode == 143
    (kept,) = os.listdir(here)
    assert kept == ("out-prior" if command == "demo" else "diffts-popular-niche-prior")
    assert DiffusionPrior.load(kept).n_arms == 200
    again = command_in(result.stderr)
    assert again[:2] == ["compare", "popular-niche"]
    assert again[again.index("--prior") + 1] == kept
    if command == "demo":
        return  # the same policies: their fits would take a while
    monkeypatch.setattr(compare, "simulate", lambda *_, **__: RUN)
    again = diffts(*again)
    assert again.returncode == 0, again.stderr
    assert "ucb1" in again.stdout


SEEDS = ("compare", "groups", "--policies", "diffts", "--seeds", 2, "--past-tasks", 20)


def test_several_trainings_go_on_from_where_they_were(here, monkeypatch):
    """Stopped in the second of them: the first is not lost, and each has a state of its own."""
    begun = []

    def learn(*_, checkpoint, seed, **__):
        begun.append((seed, checkpoint.name, (checkpoint / "config.json").exists()))
        save_folder(checkpoint, "diffts.training", 1, {}, {"x": np.zeros(1)})
        if len(begun) == 2:
            raise TrainingStopped(checkpoint, 100)
        return DiffusionPrior.gaussian(np.zeros(200), np.eye(200))

    monkeypatch.setattr(learning_plan, "learn_prior", learn)
    monkeypatch.setattr(compare, "simulate", lambda *_, **__: RUN)
    result = diffts(*SEEDS)
    assert result.returncode == 130
    assert os.listdir(here) == ["diffts-groups-checkpoint"]
    again = diffts(*command_in(result.stderr))
    assert again.returncode == 0, again.stderr
    assert begun == [
        (0, "seed-0", False), (1, "seed-1", False), (0, "seed-0", True), (1, "seed-1", True),
    ]  # fmt: skip


def test_several_priors_are_kept(here, monkeypatch):
    def stop(*_, **__):
        os.kill(os.getpid(), signal.SIGINT)

    priors = iter(DiffusionPrior.gaussian(np.full(200, mean), np.eye(200)) for mean in (0.0, 1.0))
    monkeypatch.setattr(learning_plan, "learn_prior", lambda *_, **__: next(priors))
    monkeypatch.setattr(compare, "simulate", stop)
    result = diffts(*SEEDS)
    assert result.returncode == 130
    kept = ["diffts-groups-prior", "diffts-groups-prior-2"]
    assert sorted(os.listdir(here)) == kept
    assert [float(DiffusionPrior.load(folder).shift) for folder in kept] == [0.0, 1.0]
    monkeypatch.setattr(compare, "simulate", lambda *_, **__: RUN)
    again = diffts(*command_in(result.stderr))
    assert again.returncode == 0, again.stderr


def assert_training_leaves_nothing(folder, code, said):
    result = diffts(*TRAIN, "--out", "p")
    assert result.returncode == code
    assert result.stderr.startswith(said)
    assert os.listdir(folder) == []


def test_stopped_before_anything_was_learned(here, monkeypatch):
    def stop(*_, **__):
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(learning_plan, "learn_prior", stop)
    assert_training_leaves_nothing(here, 130, "stopped: nothing is kept")


def test_a_second_signal_does_not_break_the_saving(monkeypatch):
    """A second Ctrl-C, out of impatience, while the first one is being seen to."""

    def learn(*_, **__):
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(learning_plan, "learn_prior", learn)
    result = diffts(*TRAIN, "--out", "p")
    assert result.returncode == 130
    assert result.stderr.startswith("note: stopping already")


def test_signals_are_given_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    diffts("--version")
    assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


PRIOR = DiffusionPrior.gaussian([0.0, 1.0], np.eye(2))


def test_a_lost_folder_after_the_training(here, monkeypatch):
    def learn(*_, **__):
        (here / "p").write_text("the folder is gone, a file is in its place")
        return PRIOR

    monkeypatch.setattr(learning_plan, "learn_prior", learn)
    result = diffts(*TRAIN, "--out", "p")
    assert result.returncode == 1
    assert result.stderr.startswith("error: p: cannot be made a folder")
    elsewhere = result.stderr.split("the prior is in ")[1].strip()
    assert DiffusionPrior.load(elsewhere).n_arms == 2
    assert os.listdir(here) == ["p"]


def test_a_full_disk_after_the_training(monkeypatch):
    """Full where --out is; elsewhere there is room."""
    plain = os.fsync

    def full(handle):
        if "/here/" in os.readlink(f"/proc/self/fd/{handle}"):
            raise OSError(28, "No space left on device")
        plain(handle)

    monkeypatch.setattr(learning_plan, "learn_prior", lambda *_, **__: PRIOR)
    monkeypatch.setattr("diffts.files.os.fsync", full)
    result = diffts(*TRAIN, "--out", "p")
    assert result.returncode == 1
    assert ".safetensors: cannot be written (No space left on device)" in result.stderr
    assert DiffusionPrior.load(result.stderr.split("the prior is in ")[1].strip()).n_arms == 2


RUN = Simulation(
    rounds=np.arange(1, 3), regret=np.ones((2, 4)), simple_regret=np.zeros((2, 4)),
    chance_right=np.ones((2, 4)), chosen=np.zeros((2, 4), int),
    seconds=1.0, decisions_per_second=1.0,
)  # fmt: skip


@pytest.fixture
def played(monkeypatch):
    """Races that take no time."""
    monkeypatch.setattr(compare, "simulate", lambda *_, **__: RUN)


RACE = ("compare", "groups", "--policies", "ucb1,uniform", "--tasks", 4, "--horizon", 2)


@pytest.mark.usefixtures("played")
def test_a_picture_that_fails_takes_nothing_with_it(here):
    result = diffts(*RACE, "--json", "race.json", "--figure", "/dev/full")
    assert result.returncode == 1
    assert result.stderr == "error: /dev/full: No space left on device\n"
    assert "2 rounds" in result.stdout
    assert json.loads((here / "race.json").read_text())["tasks"] == 4


@pytest.mark.usefixtures("played")
def test_a_result_that_cannot_be_written_is_elsewhere(here):
    result = diffts(*RACE, "--json", "/dev/full", "--figure", "race.pdf")
    assert result.returncode == 1
    assert result.stderr.startswith("error: /dev/full: No space left on device; the result is in ")
    elsewhere = result.stderr.split("the result is in ")[1].strip()
    with open(elsewhere) as file:
        assert json.load(file)["tasks"] == 4
    assert "2 rounds" in result.stdout
    assert (here / "race.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.usefixtures("played")
def test_pictures_whole_or_not_at_all(here, monkeypatch):
    (here / "race.png").write_bytes(b"the old one")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("diffts.files.os.fsync", full)
    result = diffts(*RACE, "--figure", "race.png")
    assert result.returncode == 1
    assert result.stderr == "error: race.png: No space left on device\n"
    assert (here / "race.png").read_bytes() == b"the old one"
    assert os.listdir(here) == ["race.png"]


@pytest.mark.usefixtures("played")
def test_results_go_through_links_and_to_devices(here):
    (here / "target").write_text("old")
    (here / "link.json").symlink_to("target")
    assert diffts(*RACE, "--json", "link.json", "--figure", "[bold].SVG").returncode == 0
    assert json.loads((here / "target").read_text())["tasks"] == 4
    assert (here / "link.json").is_symlink()
    assert "<svg" in (here / "[bold].SVG").read_text()
    assert diffts(*RACE, "--json", "/dev/null", "--figure", "/dev/null").returncode == 0


@pytest.mark.usefixtures("played")
def test_a_table_that_cannot_be_printed_leaves_the_rest(here, monkeypatch):
    """Standard output is full, or its reader is gone."""

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("diffts.cli.race.out.print", full)
    result = diffts(*RACE, "--json", "race.json", "--figure", "race.png")
    assert result.returncode == 1
    assert result.stderr == "error: standard output: No space left on device\n"
    assert sorted(os.listdir(here)) == ["race.json", "race.png"]


def test_a_training_that_diverges_leaves_nothing(here, monkeypatch):
    def learn(*_, checkpoint, **__):
        save_folder(checkpoint, "diffts.training", 1, {}, {"x": np.zeros(1)})
        refuse_divergence(float("nan"), 200)

    monkeypatch.setattr(learning_plan, "learn_prior", learn)
    said = "error: training diverged: the loss is nan at step 200"
    assert_training_leaves_nothing(here, 2, said)


def test_a_warning_is_one_line(monkeypatch):
    def learn(*_, **__):
        warnings.warn("checkpoint not saved", UserWarning, stacklevel=1)
        return PRIOR

    monkeypatch.setattr(learning_plan, "learn_prior", learn)
    result = diffts(*TRAIN, "--out", "p")
    assert (result.returncode, result.stderr) == (0, "warning: checkpoint not saved\n")


def test_away_from_a_terminal_long_work_prints_lines(monkeypatch):
    """Time passes when the test says so."""
    told, printed = threading.Event(), threading.Event()

    def wait_for(done):
        if not printed.is_set() and not told.is_set():
            told.wait()  # the first fifteen seconds
            return False
        printed.set()
        return done.wait()

    def learn(*_, on_progress, **__):
        on_progress(Progress("training", 1, 1, 100, 300, 0.5, float("nan")))
        told.set()
        printed.wait()
        return PRIOR

    monkeypatch.setattr(console, "_wait_for", wait_for)
    monkeypatch.setattr(learning_plan, "learn_prior", learn)
    result = diffts(*TRAIN, "--out", "p")
    assert result.returncode == 0
    assert result.stderr == "learning the prior: 100/300, loss 0.5000\n"
