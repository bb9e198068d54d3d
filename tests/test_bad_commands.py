"""Whatever a user asks of the command line: one line, exit code 1 or 2, nothing half-written.

Learning and playing are replaced by a failure, so that each case is refused before any work.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from command_line import diffts
from diffts import DiffusionPrior

HUGE = "1000000000000"
MOST = str(2**63 - 1)
LONG_NAME = "x" * 300


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A folder with things to stumble over, as the current one."""
    for name in ("here", "tmp", "outside"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    Path("file").write_text("mine")
    Path("folder").mkdir()
    Path("foreign").mkdir()
    Path("foreign/config.json").write_text('{"model": "other"}')
    Path("loop").symlink_to("loop")
    Path("dangling").symlink_to("nowhere/at/all")
    Path("notes.txt").write_text("no log\n")
    Path("link.json").symlink_to("target.json")
    Path("target.json").write_text("{}")
    os.link("target.json", "twin.png")
    Path("ok.py").write_text("import diffts\n")
    Path("broken.py").write_text("x = 1\ny = (\n")
    Path("wrong.py").write_text("def f():\n    return 1 / 0\n\nf()\n")
    Path("leaves.py").write_text("raise SystemExit('enough')\n")
    prior = DiffusionPrior.gaussian([0.0, 0.5, 1.0], np.eye(3))
    prior.save("prior")
    for damage in ("cut", "gone", "list", "newer", "nan"):
        prior.save(damage)
    arrays = next(Path("cut").glob("*.safetensors"))
    os.truncate(arrays, 20)
    next(Path("gone").glob("*.safetensors")).unlink()
    Path("list/config.json").write_text("[]")
    config = json.loads(Path("newer/config.json").read_text())
    Path("newer/config.json").write_text(json.dumps(config | {"version": 99}))
    Path("nan/config.json").write_text('{"kind": NaN}')
    return tmp_path


@pytest.fixture(autouse=True)
def no_work(monkeypatch):
    def fail(*_, **__):
        raise AssertionError("work began")

    for name in ("learning_plan.learn_prior", "learning_plan.choose_sure", "compare.simulate"):
        monkeypatch.setattr(f"diffts.experiments.{name}", fail)
    monkeypatch.setattr("diffts.reproduction.work.Reproduction.play", fail)
    # Building exact priors is most of the time of a row that is never measured.
    monkeypatch.setattr("diffts.experiments.accuracy._Case.diffusion_prior", lambda _: GAUSSIAN)
    monkeypatch.setattr(DiffusionPrior, "posterior_sample", fail)


GAUSSIAN = DiffusionPrior.gaussian([0.0], [[1.0]])


def tree(folder):
    """Everything below a folder: names, and what is in the files."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        if path.is_file()
        else "link"
        if path.is_symlink()
        else "folder"
        for path in sorted(folder.rglob("*"))
    }


CASES = [
    # --- the issue's own -------------------------------------------------------------------------
    ("compare groups --figure race.xyz", "--figure: race.xyz has no suffix of a picture"),
    (f"compare groups --horizon {HUGE}", "horizon: must be a whole number from 1 to 16777216"),
    (f"compare groups --tasks {HUGE}", r"tasks: 1000000000000 would need about"),
    (f"demo --horizon {HUGE}", "horizon: must be"),
    (f"demo --tasks {HUGE}", "tasks: 1000000000000 would need about"),
    ("compare groups --json a.png --figure a.png", "--json, --figure: both are a.png"),
    # --- names that are none ---------------------------------------------------------------------
    ("fly", "fly"),
    ("--fly", "--fly"),
    ("compare", "Missing argument"),
    ("compare chess", "problem: unknown 'chess'"),
    ("compare ''", "problem: unknown ''"),
    ("compare ünïcødé-☃", "problem: unknown 'ünïcødé-☃'"),
    ("compare [/red]", "problem: unknown '[/red]'"),
    ("compare groups --policies ''", "policies: none given"),
    ("compare groups --policies ,", "policies: none given"),
    ("compare groups --policies ucb1,ucb1", "policies: one is given twice"),
    ("compare groups --policies diffts,oracle", "policies: unknown 'oracle'"),
    ("compare groups --policies gmmts-99999", "policies: unknown 'gmmts-99999'"),
    ("compare groups --policies gmmts-0", "policies: unknown 'gmmts-0'"),
    ("compare groups --policies gmmts--1", "policies: unknown 'gmmts--1'"),
    ("compare groups --policies ucb1,gmmts-9999", "gmmts-9999 has more components than there are"),
    ("compare groups --policies gmmts-20 --past-tasks 19", "more components than there are past"),
    ("compare groups --sampler gibbs", "sampler: unknown 'gibbs'"),
    ("compare groups --rule luck", "rule: unknown 'luck'"),
    ("compare groups --rule ''", "rule: unknown ''"),
    ("compare groups --rule greedy --rule greedy", "policies: one is given twice"),
    ("compare groups --policies gts-full:luck", "rule: unknown 'luck'"),
    ("compare groups --policies oracle:greedy", "policies: unknown 'oracle'"),
    ("compare groups --policies gts-full:", "rule: unknown ''"),
    ("compare maze --rule knowledge-gradient", "knowledge-gradient compares arms one by one"),
    ("demo --rule luck", "rule: unknown 'luck'"),
    ("compare groups --floor 2", "floor: must be a number from 0 to 1"),
    ("compare groups --floor nan", "floor: must be a number from 0 to 1"),
    ("compare groups --noise-std loud", "noise: unknown 'loud'; expected a number above 0"),
    ("compare groups --noise-std bernoulli", "BernoulliNoise is for rewards from 0 to 1"),
    ("compare groups --sampler paper --sampler gibbs", "sampler: unknown 'gibbs'"),
    ("compare groups --data dirty", "data: unknown 'dirty'"),
    ("compare groups --data clean", "data: 'clean' is now called 'exact'"),
    ("train groups --out x --data clean", "data: 'clean' is now called 'exact'"),
    ("compare groups --procedure luck --data imperfect", "procedure: unknown 'luck'"),
    ("compare groups --procedure paper", "only with --data imperfect"),
    ("train chess --out x", "problem: unknown 'chess'"),
    ("train groups --out x --network oracle", "network: unknown 'oracle'"),
    ("train groups --out x --network ''", "network: unknown ''"),
    ("train groups --out x --noise 0.3", "only with --data imperfect"),
    ("train groups --out x --paper-recipe --data imperfect", "--paper-recipe"),
    ("groups --network oracle", "network: unknown 'oracle'"),
    ("groups --sampler gibbs", "sampler: unknown 'gibbs'"),
    ("accuracy --sampler gibbs", "sampler: unknown 'gibbs'"),
    ("accuracy --sampler ''", "sampler: unknown ''"),
    ("accuracy --prior maze", "prior: unknown 'maze'"),
    ("accuracy --learned builtin", "--learned: goes with --prior popular-niche"),
    ("accuracy --prior popular-niche --learned no-such", "no-such"),
    ("accuracy --prior popular-niche --sampler gibbs", "sampler: unknown 'gibbs'"),
    ("reproduce figure-7", "name: unknown 'figure-7'"),
    ("reproduce --profile huge", "--profile: unknown 'huge'"),
    ("reproduce --problem chess", "--problem: unknown 'chess'"),
    ("reproduce --finished --problem maze", "--problem: has no meaning with --finished"),
    ("reproduce --finished", "--out: nothing is finished"),
    # --- numbers: none, too small, too large -----------------------------------------------------
    ("compare groups --horizon 0", "horizon"),
    ("compare groups --horizon -5", "horizon"),
    ("compare groups --horizon nan", "--horizon"),
    ("compare groups --horizon 1e3", "--horizon"),
    ("compare groups --horizon ''", "--horizon"),
    ("compare groups --tasks 0", "tasks"),
    ("compare groups --tasks -1", "tasks"),
    ("compare groups --tasks inf", "--tasks"),
    ("compare groups --noise-std 0", "noise_std"),
    ("compare groups --noise-std -1", "noise_std"),
    ("compare groups --noise-std nan", "noise_std"),
    ("compare groups --noise-std inf", "noise_std: must be a number from"),
    ("compare groups --steps 0", "steps"),
    ("compare groups --steps 500", "steps"),
    ("compare groups --steps nan", "--steps"),
    ("compare groups --steps -1", "steps"),
    ("compare groups --train-steps 0", "steps"),
    (f"compare groups --train-steps {HUGE}", "steps: must be a whole number from 1 to 2147483647"),
    ("compare groups --past-tasks 1", "past_tasks"),
    ("compare groups --past-tasks -10", "past_tasks"),
    (f"compare groups --past-tasks {HUGE}", "past_tasks: 1000000000000 would need about"),
    ("compare groups --seed -1", "seed"),
    (f"compare groups --seed {MOST}", "seed"),
    (f"compare groups --seed {HUGE}{HUGE}", "seed"),
    ("compare groups --seed 1.5", "--seed"),
    ("compare groups --seeds 0", "seeds: must be a whole number of at least 1"),
    ("compare groups --seeds two", "--seeds"),
    (f"compare groups --seeds {HUGE}", "seeds: 1000000000000 would need about"),
    (f"compare groups --seeds 2 --seed {2**63 - 101}", "seed"),
    ("compare groups --data imperfect --missing 1", "missing: must be in [0, 1), got 1.0"),
    ("compare groups --data imperfect --missing nan", "missing"),
    ("compare groups --data imperfect --missing -0.1", "missing"),
    ("compare groups --data imperfect --noise -1", "noise"),
    ("compare groups --data imperfect --noise inf", "noise"),
    ("compare groups --data imperfect --noise nan", "noise"),
    ("compare groups --data imperfect --sure much", "sure: expected a number or 'auto'"),
    ("compare groups --data imperfect --sure -1", "sure: must be at least 0"),
    ("compare groups --data imperfect --sure nan", "sure"),
    ("compare groups --data imperfect --sure inf", "sure"),
    ("compare groups --data imperfect --sure ''", "sure: expected a number or 'auto'"),
    (f"compare groups --data imperfect --train-steps {HUGE}", "steps: must be"),
    ("compare groups --data imperfect --train-steps 0", "steps: must be"),
    (
        "train groups --out x --steps 20",
        "--steps: the length of a chain; gradient steps are --train",
    ),
    ("train groups --out x --train-steps 0", "steps"),
    ("train groups --out x --train-steps -3", "steps"),
    ("train groups --out x --train-steps nan", "--train-steps"),
    (f"train groups --out x --train-steps {HUGE}", "steps"),
    (f"train groups --out x --train-steps {2**31 - 1} --data imperfect --procedure paper", "steps"),
    ("train groups --out x --seed -1", "seed"),
    (f"train groups --out x --past-tasks {HUGE}", "past_tasks"),
    ("train groups --out x --data imperfect --missing 2", "missing"),
    ("groups --train-steps 0", "steps"),
    ("groups --seed -1", "seed"),
    ("accuracy --steps 0", "steps"),
    ("accuracy --steps 101", "steps"),
    ("accuracy --steps many", "--steps"),
    ("accuracy --samples 1", "samples"),
    ("accuracy --samples -1", "samples"),
    (f"accuracy --samples {HUGE}", "samples: 1000000000000 would need about"),
    ("demo --tasks 0", "tasks"),
    ("demo --horizon 0", "horizon"),
    ("demo --train-steps 0", "steps"),
    ("demo --seed -1", "seed"),
    ("reproduce --seeds 0", "seeds"),
    ("reproduce --seeds 99", "seeds"),
    # --- places that are none --------------------------------------------------------------------
    ("accuracy --json .", "--json: . is a folder"),
    ("accuracy --json ''", "--json"),
    ("accuracy --json no/such/folder/a.json", "--json: no folder"),
    ("accuracy --json file/a.json", "--json"),
    ("accuracy --json /proc/diffts.json", "--json: /proc/diffts.json cannot be written"),
    ("accuracy --json loop", "--json"),
    ("accuracy --json dangling", "--json: no folder"),
    (f"accuracy --json {LONG_NAME}", "--json"),
    ("groups --json folder", "--json: folder is a folder"),
    ("groups --checkpoint file", "--checkpoint: file is not a folder"),
    ("groups --checkpoint foreign", "--checkpoint: foreign holds another config.json"),
    ("compare groups --json folder", "--json: folder is a folder"),
    ("compare groups --json /proc/self/status", "--json: /proc/self/status cannot be written"),
    ("compare groups --json target.json --figure twin.png", "both are target.json"),
    ("compare groups --csv folder", "--csv: folder is a folder"),
    ("compare groups --csv ''", "--csv"),
    ("compare groups --csv a.csv --json a.csv", "--json, --csv: both are a.csv"),
    ("compare groups --csv ok.py --plugin ok.py", "--csv: ok.py is read by --plugin"),
    # --- files of the user's own -----------------------------------------------------------------
    ("compare groups --plugin ''", "--plugin"),
    ("compare groups --plugin none.py", "--plugin: none.py cannot be read (No such file"),
    ("compare groups --plugin folder", "--plugin: folder cannot be read (Is a directory)"),
    ("compare groups --plugin broken.py", "--plugin: broken.py, line 2: SyntaxError: "),
    ("compare groups --plugin wrong.py", "--plugin: wrong.py, line 2: ZeroDivisionError: division"),
    ("compare groups --plugin leaves.py", "--plugin: leaves.py, line 1: SystemExit: "),
    ("compare chess --plugin ok.py", "problem: unknown 'chess'"),
    ("train groups --out x --plugin wrong.py", "--plugin: wrong.py, line 2"),
    ("accuracy --plugin wrong.py", "--plugin: wrong.py, line 2"),
    ("compare groups --json prior/config.json --prior prior", "--json: prior/config.json is read"),
    ("compare groups --figure no/such/folder/a.png", "--figure: no folder"),
    ("compare groups --figure folder", "--figure: folder has no suffix"),
    ("compare groups --figure ''", "--figure"),
    ("compare groups --figure race", "--figure: race has no suffix"),
    ("compare groups --figure race.pgf", "--figure: race.pgf has no suffix of a picture"),
    ("compare groups --figure /proc/race.png", "--figure: /proc/race.png cannot be written"),
    ("compare groups --figure file/race.png", "--figure"),
    ("compare groups --checkpoint file", "--checkpoint: file is not a folder"),
    ("compare groups --logs .", "logs: only for the bidding problem"),
    ("compare bidding --logs no-such-folder", "no-such-folder"),
    ("compare bidding --logs folder", "logs: folder 'folder' has no iPinYou logs"),
    ("compare bidding --logs notes.txt", "logs"),
    ("compare bidding --logs file", "logs: 'file' is not a .txt"),
    ("compare bidding --logs notes.txt --json notes.txt", "--json: notes.txt is read by --logs"),
    ("compare bidding --logs ''", "--logs"),
    ("compare bidding --logs notes.txt --min-prices 0", "min_prices"),
    ("train groups", "--out"),
    ("train groups --out ''", "--out"),
    ("train groups --out file", "--out: file is not a folder"),
    ("train groups --out file/deeper/prior", "--out"),
    ("train groups --out foreign", "--out: foreign holds another config.json"),
    ("train groups --out /proc/prior", "--out: /proc/prior cannot be written"),
    ("train groups --out dangling", "--out: dangling is not a folder"),
    ("train groups --out loop", "--out"),
    ("train groups --out x --checkpoint x", "--out, --checkpoint: both are x"),
    ("train groups --out x --checkpoint file", "--checkpoint: file is not a folder"),
    ("train groups --out x --checkpoint prior", "--checkpoint: prior holds another config.json"),
    ("train groups --out x --checkpoint /proc/y", "--checkpoint: /proc/y cannot be written"),
    ("demo --out file", "--out: file is not a folder"),
    ("demo --out x --json x", "--json, --out: both are x"),
    ("demo --out x --json x/regret.png", "--json, picture regret.png of --out: both are"),
    ("demo --out /dev/null/x", "--out"),
    ("reproduce --out file", "--out: file is not a folder"),
    ("reproduce --out /proc/results", "--out: /proc/results cannot be written"),
    ("reproduce --data-dir no-such-folder", "--data-dir"),
    ("reproduce --data-dir ''", "--data-dir"),
    # --- priors that are none --------------------------------------------------------------------
    ("compare groups --prior prior --policies ucb1,diffts", "prior: has 3 arms, groups has 200"),
    ("compare groups --prior nothing", "nothing: no config.json there"),
    ("compare groups --prior ''", "--prior: is empty"),
    ("compare groups --prior file", "file/config.json: cannot be read"),
    ("compare groups --prior foreign", "foreign: holds None"),
    ("compare groups --prior builtin", "prior: none is built in for 'groups'"),
    ("compare maze --prior builtin --data imperfect", "--prior: built-in ones"),
    ("compare maze --prior builtin --past-tasks 50", "--past-tasks"),
    ("compare groups --seeds 3 --prior prior --prior prior", "--prior: 2 of them for 3 seeds"),
    ("groups --prior prior", "prior: has 3 arms, groups has 200"),
    ("groups --prior builtin", "prior: none is built in for 'groups'"),
    ("groups --prior ''", "--prior: is empty"),
    ("groups --prior prior --json prior/config.json", "--json: prior/config.json is read"),
    ("inspect", "Missing argument"),
    ("inspect ''", "is empty"),
    ("inspect nothing", "nothing: no config.json there"),
    ("inspect file", "file/config.json: cannot be read"),
    ("inspect cut", "damaged (its hash is not the one"),
    ("inspect gone", "cannot be read (No such file"),
    ("inspect list", "foreign, not written by diffts"),
    ("inspect newer", "written in format 99"),
    ("inspect nan", "nan: holds nan"),
    ("inspect prior --figure prior.xyz", "--figure: prior.xyz has no suffix"),
    ("inspect prior --figure prior/config.json", "--figure: prior/config.json has no suffix"),
    ("inspect prior --figure /proc/prior.png", "--figure: /proc/prior.png cannot be written"),
    ("inspect [/bold]", "[/bold]: no config.json there"),
]


def arguments_of(line):
    return ["" if word == "''" else word for word in line.split()]


@pytest.mark.parametrize(("line", "named"), CASES, ids=[line[:60] for line, _ in CASES])
def test_one_line_and_nothing_half_written(world, line, named):
    before = tree(world)
    result = diffts(*arguments_of(line))
    assert result.returncode in (1, 2), result
    assert named in result.stderr
    assert "Traceback" not in result.stderr + result.stdout
    assert result.stdout == ""
    if not result.stderr.startswith("Usage: "):  # Typer's own, in a box
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1
    assert tree(world) == before


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    "line",
    [
        "accuracy",
        "compare groups --policies diffts",
        "compare groups --policies ucb1",
        "demo",
        "groups",
        "reproduce",
        "reproduce groups",
        "train groups --out x",
        "train groups --out x --data imperfect --sure auto",
    ],
)
def test_work_that_begins_is_noticed(line):
    """Else a case above could be refused in the middle of it."""
    with pytest.raises(AssertionError, match="work began"):
        diffts(*line.split())


def test_there_are_enough_of_them():
    assert len({line for line, _ in CASES}) == len(CASES) > 130


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("line", "package", "words"),
    [
        ("demo", "matplotlib", "the demo needs matplotlib: pip install 'diffts[figures]'"),
        ("compare groups --figure a.png", "matplotlib", "drawing needs matplotlib: pip install"),
        ("inspect prior", "matplotlib", "drawing needs matplotlib: pip install"),
        ("demo", "sklearn", "gmmts-10 needs scikit-learn: pip install 'diffts[mixtures]'"),
        ("compare groups", "sklearn", "gmmts-10 needs scikit-learn: pip install"),
    ],
)
def test_a_package_that_is_not_installed_is_named_before_any_work(
    monkeypatch, line, package, words
):
    monkeypatch.setitem(sys.modules, package, None)
    result = diffts(*line.split())
    assert result.returncode == 1
    assert result.stderr.startswith(f"error: {words}")
    assert result.stderr.count("\n") == 1


@pytest.mark.usefixtures("world")
def test_names_that_are_not_utf8():
    """Bytes of another encoding in a name, as they come from the command line."""
    name = os.fsdecode(b"prior-\xff")
    result = diffts("inspect", name)
    assert result.returncode == 1
    assert "no config.json there" in result.stderr


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError("Unable to allocate 7 TiB"), "out of memory: Unable to allocate 7 TiB"),
        (MemoryError(), "out of memory: ask for less"),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory\nallocating"), "out of memory on the"),
        (OSError(28, "No space left on device", "x.bin"), "x.bin: No space left on device"),
        (OSError(28, "No space left on device"), "standard output: No space left on device"),
    ],
)
def test_what_the_machine_lacks_is_one_line(monkeypatch, error, words):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("diffts.experiments.compare.simulate", fail)
    result = diffts("compare", "groups", "--policies", "ucb1")
    assert result.returncode == 1
    assert result.stderr.startswith(f"error: {words}")
    assert result.stderr.count("\n") == 1


@pytest.mark.usefixtures("world")
def test_what_nobody_foresaw_keeps_its_traceback(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("a bug")

    monkeypatch.setattr("diffts.experiments.compare.simulate", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        diffts("compare", "groups", "--policies", "ucb1")


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("error", [AssertionError(), RuntimeError("Unable to initialize backend")])
def test_a_device_that_is_not_there(monkeypatch, error):
    """JAX fails in either way, without CUDA's package and with it."""

    def fail():
        raise error

    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    monkeypatch.setattr("jax.devices", fail)
    result = diffts("compare", "groups", "--policies", "ucb1")
    assert result.returncode == 1
    assert result.stderr.startswith("error: JAX_PLATFORMS=cuda: no such device here")
    assert "Traceback" not in result.stderr
