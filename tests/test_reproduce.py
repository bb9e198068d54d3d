"""The reproduction: everything, tiny; nothing twice; and numbers that are what they say."""

import csv
import dataclasses
import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

from command_line import diffts as run_command
from diffts.errors import InvalidInputError
from diffts.learning import PROCEDURES
from diffts.reproduction import (
    EXPERIMENTS,
    PROFILES,
    ablations,
    evaluation,
    judge_claims,
    regret,
    reproduce,
    specs,
)
from diffts.reproduction.images import ImageSet
from diffts.reproduction.specs import (
    APPENDIX,
    ARMS,
    FRESH,
    NO_EM,
    NO_SURE,
    WARM_UPS,
    PriorSpec,
    Run,
    diffts,
    plan_for,
    sure_of,
    units_for,
)
from diffts.reproduction.store import Made, Part, Store
from diffts.reproduction.work import Reproduction

SMOKE, PAPER = PROFILES["smoke"], PROFILES["paper"]
TINY = specs._TINY_APPENDIX["residual-conv"]


@pytest.fixture(autouse=True)
def programs_are_kept(monkeypatch):
    """Else those of all other tests would be compiled again. (Forgetting them saves memory.)"""
    monkeypatch.setattr("jax.clear_caches", lambda: None)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "parts", {"profile": "test"})


# What is asked for


def test_main_results_are_among_the_eighteen():
    main = evaluation.main_panels(PAPER)
    assert len(main) == 6
    runs = {run for panel in main for run in panel.runs}
    assert runs <= {run for panel in evaluation.race_panels(PAPER) for run in panel.runs}


@pytest.mark.parametrize("name", ablations.ABLATIONS)
def test_ablations_are_of_the_papers_diffts_with_three_seeds(name):
    """And on both laws of Labeled Arms; the Gaussian beside them where data are imperfect."""
    panels = EXPERIMENTS[name].panels(PAPER)
    assert [(p.problem, p.noise_std) for p in panels] == [
        (problem, noise) for problem in ablations.PROBLEMS for noise in (0.05, 0.1)
    ]
    for panel in panels:
        for line in panel.lines:
            assert [run.seed for run in line.runs] == [0, 1, 2]
            assert {run.tasks for run in line.runs} == {FRESH}
        learners = {run.learner for run in panel.runs if run.prior}
        assert ARMS not in learners
        assert all(units_for(one) is not None for one in learners)
        assert (panel.lines[-1].label == "gts-full") == (panel.data != "perfect")
        first = panel.lines[0].runs[0]  # the paper's own, but on noisy data, where it only warms up
        assert (first.learner == APPENDIX) == (panel.data != "noisy")


def test_ablated_learners_change_one_thing():
    whole = plan_for("popular-niche", PAPER, APPENDIX).procedure
    ablated = plan_for("labeled-arms", PAPER, NO_SURE).procedure
    assert dataclasses.replace(whole, sure=0.0) == ablated
    without = plan_for("popular-niche", PAPER, NO_EM).procedure
    assert sum(p.steps for p in without.phases()) == sum(p.steps for p in whole.phases()) == 24_000
    assert [phase.name for phase in without.phases()] == ["warm-up"]
    for name, sure in WARM_UPS.items():
        procedure = plan_for("popular-niche", PAPER, name).procedure
        assert [(p.steps, p.sure) for p in procedure.phases()] == [(15_000, sure)]


def test_simulated_slots_are_named_so_everywhere():
    for experiment in EXPERIMENTS.values():
        if experiment.panels is not None:
            for panel in experiment.panels(SMOKE):
                if panel.problem == "bidding":
                    assert "simulated" in panel.title or "real" in panel.title


def test_every_run_has_a_place_of_its_own():
    runs = {
        run
        for experiment in EXPERIMENTS.values()
        if experiment.panels is not None
        for panel in experiment.panels(PROFILES["paper"])
        for line in panel.lines
        for run in line.runs
    }
    assert len({run.key for run in runs}) == len(runs)
    priors = {run.prior for run in runs if run.prior}
    assert len({(one.problem, one.name) for one in priors}) == len(priors)


def test_images_of_the_paper_profile_need_their_data(tmp_path):
    paper = ImageSet(Reproduction(PROFILES["paper"], Store(tmp_path / "paper", {})), "mnist")
    assert paper.pieces() == []
    (stand_in,) = ImageSet(Reproduction(SMOKE, Store(tmp_path / "smoke", {})), "mnist").pieces()
    assert stand_in.part.key == "images/mnist-stand-in"  # not the place of the real ones


# What is told


def save_run(store, run, regret_of_tasks):
    """A run with one record."""
    values = np.asarray(regret_of_tasks, np.float32)[None]
    arrays = {"rounds": np.array([10]), "regret": values}
    store.save(Part(run.key, ""), Made(arrays, {"seconds": 1.0}))


def summary(store, lines, title="a"):
    panel = regret.Panel(title, "maze", "imperfect", 0.1, tuple(lines))
    return regret.summary_of(panel, regret.curves(store, panel))


def test_the_band_has_tasks_and_training_seeds_in_it(store):
    runs = [diffts("maze", "perfect", 0.1, seed=seed) for seed in (0, 1)]
    save_run(store, runs[0], [1.0, 3.0])
    save_run(store, runs[1], [3.0, 9.0])
    curve = regret.curve(store, runs)
    # Tasks averaged over seeds: 2 and 6; seeds averaged over tasks: 2 and 6.
    assert curve.mean.tolist() == [4.0]
    assert curve.final.tolist() == [[1.0, 3.0], [3.0, 9.0]]
    np.testing.assert_allclose(curve.stderr, np.sqrt(8 / 2 + 8 / 2))


def test_gaps_are_taken_seed_by_seed_with_the_same_rewards(store):
    seeds = (0, 1)
    lines = (
        regret.Line("diffts", tuple(diffts("maze", "perfect", 0.1, seed=s) for s in seeds)),
        regret.Line("ucb1", tuple(Run("maze", "perfect", "ucb1", 0.1, seed=s) for s in seeds)),
    )
    for line, of_seeds in zip(lines, ([[1, 3], [11, 13]], [[2, 4], [12, 18]]), strict=True):
        for run, values in zip(line.runs, of_seeds, strict=True):
            save_run(store, run, values)
    told = summary(store, lines)["lines"]["ucb1"]
    # Gaps 1, 1 and 1, 5: tasks 1 and 3, seeds 1 and 3, although seeds differ by 10 themselves.
    assert told["above_first_line"] == 2.0
    np.testing.assert_allclose(told["stderr_of_that"], np.sqrt(2 / 2 + 2 / 2))


def test_a_summary_says_until_when_the_first_line_was_behind(store):
    lines = (
        regret.Line("diffts", (diffts("maze", "imperfect", 0.1),)),
        regret.Line("ucb1", (Run("maze", "perfect", "ucb1", 0.1),)),
        regret.Line("gmmts-10 (perfect data)", (Run("maze", "perfect", "gmmts-10", 0.1),), True),
    )
    curves = ([3.0, 4.0, 5.0, 5.5], [2.0, 4.5, 4.9, 9.0], [0.0] * 4)
    for line, values in zip(lines, curves, strict=True):
        regrets = np.array([values, values]).T  # two tasks alike
        arrays = {"rounds": np.arange(10, 50, 10), "regret": regrets}
        store.save(Part(line.runs[0].key, ""), Made(arrays, {"seconds": 1.0}))
    panel = summary(store, lines)
    assert panel["best"] == "diffts"  # at the last round
    assert panel["behind_until"] == 30  # of those who race; the reference is always below
    panel = summary(store, lines[:1])
    assert panel["behind_until"] == 0


def test_a_panel_is_shown_with_the_seeds_that_all_of_its_lines_have():
    panel = evaluation.race("maze", "perfect", 0.1, PAPER)

    def finished(is_played):
        return panel.finished(SimpleNamespace(is_played=is_played))

    everywhere = finished(lambda run: run.seed != 1)
    seeds = [[run.seed for run in line.runs] for line in everywhere.lines]
    assert seeds == [[0, 2]] * len(panel.lines)
    assert finished(lambda run: run.policy != "ucb1") is None
    assert finished(lambda _: True) == panel


def test_a_summary_ranks_those_who_race_and_leaves_references_out(store):
    lines = (
        regret.Line("diffts", (diffts("maze", "imperfect", 0.1),)),
        regret.Line("ucb1", (Run("maze", "perfect", "ucb1", 0.1),)),
        regret.Line("gmmts-10 (perfect data)", (Run("maze", "perfect", "gmmts-10", 0.1),), True),
    )
    for line, values in zip(lines, ([3, 5], [6, 9], [1, 1]), strict=True):
        save_run(store, line.runs[0], values)
    panel = summary(store, lines, "a\nb")
    assert panel["title"] == "a, b"
    assert (panel["problem"], panel["data"], panel["noise_std"]) == ("maze", "imperfect", 0.1)
    assert panel["best"] == "diffts"
    assert panel["ranking"] == ["diffts", "ucb1"]
    assert panel["lines"]["ucb1"]["above_first_line"] == 3.5
    np.testing.assert_allclose(panel["lines"]["ucb1"]["stderr_of_that"], 0.5)
    assert panel["lines"]["diffts"]["stderr_of_that"] == 0.0
    fields = [(x["policy"], x["components"], x["reference"]) for x in panel["lines"].values()]
    assert fields == [("diffts", None, False), ("ucb1", None, False), ("gmmts-10", 10, True)]
    panel = regret.Panel("a", "maze", "imperfect", 0.1, lines)
    rows = regret.rows([panel], [regret.curves(store, panel)])
    assert {row["policy"]: row["regret"] for row in rows} == {
        "diffts": 4.0, "ucb1": 7.5, "gmmts-10 (perfect data)": 1.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"names": ["fig-7"]}, "name: unknown 'fig-7'"),
        ({"profile": "huge"}, "--profile: unknown 'huge'"),
        ({"problems": ["chess"]}, "--problem: unknown 'chess'"),
        ({"data": ["clean"]}, "--data: unknown 'clean'"),
        ({"names": ["main"], "lines": ["chess"]}, "--line: unknown 'chess'"),
        ({"data": ["perfect"], "finished_only": True}, "--data: has no meaning with --finished"),
        ({"parts_only": True, "finished_only": True}, "--parts: has no meaning with --finished"),
        ({"seeds": 0}, "--seeds: must be a whole number from 1 to 2"),
        ({"seeds": 3}, "--seeds: must be a whole number from 1 to 2"),
        ({"data_dir": "no-such-folder"}, "--data-dir: no folder"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_done(tmp_path, arguments, message):
    given = {"names": [], "profile": "smoke", **arguments}
    if "data_dir" in given:
        given["data_dir"] = tmp_path / given["data_dir"]
    with pytest.raises(InvalidInputError, match=message):
        reproduce(given.pop("names"), given.pop("profile"), tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


def test_sizes_of_a_profile():
    paper = PROFILES["paper"]
    assert paper.fitted(PROCEDURES["paper"]) == PROCEDURES["paper"]
    small = SMOKE.fitted(PROCEDURES["ipinyou"])
    assert [(p.name, p.steps) for p in small.phases()] == [("warm-up", 2), ("round 1", 2)]


def test_what_is_said_of_sure():
    for learner, sure in ((APPENDIX, 0.1), (NO_SURE, 0.0), (ARMS, None), ("", None)):
        assert sure_of(Run("maze", "imperfect", "diffts", 0.1, learner)) == sure
    assert sure_of(diffts("maze", "perfect", 0.1, APPENDIX)) is None
    assert sure_of(diffts("bidding", "imperfect", 0.1, APPENDIX)) is None  # one for each repeat


def test_fewer_seeds_for_a_first_look(tmp_path):
    paper = PROFILES["paper"]
    assert paper.with_seeds(None) == paper.with_seeds(3) == paper
    one = paper.with_seeds(1)
    panels = [*evaluation.main_panels(one), *EXPERIMENTS["variance"].panels(one)]
    assert {run.seed for p in panels for line in p.lines for run in line.runs} == {0}
    assert paper.command_options == "--profile paper"
    assert one.command_options == "--profile paper --seeds 1"
    reproduce(["claims"], "smoke", tmp_path, seeds=1)
    with pytest.raises(InvalidInputError, match=r"holds parts of other settings \(seeds\)"):
        reproduce(["claims"], "smoke", tmp_path)


def test_a_folder_without_results_is_refused_and_not_made(tmp_path):
    with pytest.raises(InvalidInputError, match=r"--out: nothing is finished in .*mistyped"):
        reproduce((), "smoke", tmp_path / "mistyped", finished_only=True)
    assert not (tmp_path / "mistyped").exists()


# All of it


#: Experiments with several pictures, or with none.
PICTURES = {
    "tasks": evaluation.PROBLEMS,
    "noise-levels": evaluation.BOTH,
    "same-rule": evaluation.BOTH,
    "claims": (),
    "comparison": (),
}


def check_files(folder, name, options, problems=evaluation.PROBLEMS):
    """Rows, summary and pictures of an experiment are there."""
    several = problems if name == "tasks" else PICTURES.get(name)
    pictures = [f"{name}.png"] if several is None else [f"{name}-{one}.png" for one in several]
    for_print = [picture.replace(".png", ".pdf") for picture in pictures]
    for file in (f"{name}.csv", f"{name}.json", *pictures, *for_print):
        assert (folder / file).stat().st_size > 100, file
    summary = json.loads((folder / f"{name}.json").read_text())
    assert summary["command"] == f"diffts reproduce {name} {options}"
    assert name == "claims" or summary["made_with"][0]["seconds"] >= 0


def regrets_by_problem(file):
    with file.open() as opened:
        rows = list(csv.DictReader(opened))
    assert all(float(row["regret"]) >= -1e-3 for row in rows)
    return {row["problem"] for row in rows}


@pytest.fixture
def nothing_is_saved(monkeypatch):
    """Call it, and from then on nothing may be made, and pictures are no longer painted."""

    def never(*_, **__):
        raise AssertionError("done twice")

    def call():
        monkeypatch.setattr(Store, "save", never)
        monkeypatch.setattr(Figure, "savefig", lambda _, file, **__: file.write(b"a picture"))

    return call


POSSIBLE = set(EXPERIMENTS) - {"real-slots"}


@pytest.mark.slow(seconds=15)
def test_an_experiment_on_one_problem_and_nothing_twice(tmp_path, nothing_is_saved):
    one = ("--profile", "smoke", "--seeds", 1, "--problem", "popular-niche", "--out", tmp_path)
    result = run_command("reproduce", "variance", "claims", *one)
    assert result.returncode == 0, result.stderr
    assert "these verdicts say nothing about the paper" in result.stdout
    for name in ("variance", "claims"):
        check_files(tmp_path, name, "--profile smoke --seeds 1", ["popular-niche"])
    assert regrets_by_problem(tmp_path / "variance.csv") == {"popular-niche"}

    nothing_is_saved()
    before = (tmp_path / "variance.csv").read_bytes()
    (tmp_path / "variance.csv").unlink()
    again = reproduce(["variance"], "smoke", tmp_path, problems=["popular-niche"], seeds=1)
    assert again == {"variance": "2 of 6 plots"}
    assert (tmp_path / "variance.csv").read_bytes() == before


@pytest.mark.long(reason="every experiment: a dozen trainings, a minute of two cores")
def test_every_experiment_on_one_problem_and_nothing_twice(tmp_path, nothing_is_saved):
    """The problem that most experiments have; the parts of others are as if not made yet."""
    one = ("--profile", "smoke", "--seeds", 1, "--problem", "popular-niche", "--out", tmp_path)
    result = run_command("reproduce", *one)
    assert result.returncode == 0, result.stderr
    assert "these verdicts say nothing about the paper" in result.stdout
    assert "left out: its data are not in the data folder" in result.stdout
    for name in POSSIBLE:
        check_files(tmp_path, name, "--profile smoke --seeds 1", ["popular-niche"])
    assert regrets_by_problem(tmp_path / "main.csv") == {"popular-niche"}

    nothing_is_saved()
    before = (tmp_path / "main.csv").read_bytes()
    (tmp_path / "main.csv").unlink()
    again = reproduce([], "smoke", tmp_path, problems=["popular-niche"], seeds=1)
    assert again.pop("real-slots").startswith("left out")
    assert again == {
        **dict.fromkeys(("noise-levels", "same-rule", "comparison"), "2 of 8 plots"),
        "main": "2 of 6 plots", "calibration": "2 of 6 plots", "tasks": "1 of 4 plots",
        **dict.fromkeys(ablations.ABLATIONS, "2 of 6 plots"),
        **dict.fromkeys(("groups", "mnist", "fashion-mnist", "claims"), "done"),
    }  # fmt: skip
    assert (tmp_path / "main.csv").read_bytes() == before
    verdicts = {v.claim: v for v in judge_claims(tmp_path)}
    assert len(verdicts) == 15
    images = next(v for claim, v in verdicts.items() if claim.startswith("images"))
    assert images.of_the_papers == ("only of stand-in digits", None, "")


@pytest.mark.long(reason="all problems with two seeds: thirty trainings, five minutes")
def test_everything_tiny_and_nothing_twice(tmp_path, nothing_is_saved):
    """`diffts reproduce --profile smoke`, then again with nothing left to do."""
    command = [sys.executable, "-m", "diffts", "reproduce", "--profile", "smoke"]
    result = subprocess.run(
        [*command, "--out", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr[-3000:]
    for name in POSSIBLE:
        check_files(tmp_path, name, "--profile smoke")
    assert regrets_by_problem(tmp_path / "main.csv") == set(evaluation.MAIN_PROBLEMS)

    nothing_is_saved()
    before = (tmp_path / "main.csv").read_bytes()
    (tmp_path / "main.csv").unlink()
    # One problem alone is asked for; what others have finished is written, too.
    again = reproduce([], "smoke", tmp_path, problems=["maze"])
    assert again.pop("real-slots").startswith("left out")
    assert again == dict.fromkeys(POSSIBLE, "done")
    assert (tmp_path / "main.csv").read_bytes() == before


def test_what_is_finished_is_written_and_nothing_is_run(tmp_path, monkeypatch):
    work = Reproduction(SMOKE, Store(tmp_path / "parts", SMOKE.as_json()))
    for run in EXPERIMENTS["variance"].panels(SMOKE)[0].runs:
        arrays = {"rounds": np.array([10]), "regret": np.ones((1, 3))}
        part = work.run_part(run)
        work.store.save(part, Made(arrays, {"recipe": part.digest, "seconds": 1.0}))

    for key in ("maze/task-vectors", "maze/calibration/arms-seed0", "images/mnist-stand-in"):
        work.store.save(Part(key, ""), Made({}, {"recipe": "another than today's"}))

    def refuse(*_, **__):
        raise AssertionError

    for name in ("learn_priors", "simulate_side_by_side"):
        monkeypatch.setattr(f"diffts.reproduction.work.{name}", refuse)
    outcome = reproduce((), "smoke", tmp_path, finished_only=True)
    assert outcome["variance"] == "1 of 6 plots"
    told = json.loads((tmp_path / "variance.json").read_text())
    assert told["lacks"] == ["calibrated", "not calibrated", "partly calibrated"]
    assert told["lacks_in"] == ["labeled-arms", "labeled-arms-common", "popular-niche"]
    # What is refuted is refuted; what is not waits for all plots.
    begins = {"without": (False, ""), "calibrating": (None, "so far: ")}
    for begin, (agrees, before) in begins.items():
        (verdict,) = (v for v in judge_claims(tmp_path) if v.claim.startswith(f"{begin} "))
        judged = verdict.of_the_papers
        expected = f"{before}Popular and Niche, exact data, σ̂ = 0.05: 1.0 against"
        assert judged.measured.startswith(expected)
        assert judged.agrees is agrees
    with pytest.raises(InvalidInputError, match="--problem: has no meaning"):
        reproduce((), "smoke", tmp_path, problems=["maze"], finished_only=True)
    nothing = {outcome[name] for name in ("main", "tasks", "calibration", "groups", "mnist")}
    assert nothing == {"nothing of it is finished"}


@pytest.mark.slow
def test_what_is_missing_alone_is_played(tmp_path, monkeypatch):
    """A prior and a run that are there are used as they are."""
    store = Store(tmp_path / "parts", SMOKE.as_json())
    work = Reproduction(SMOKE, store)
    first = diffts("popular-niche", "perfect", 0.1, APPENDIX)
    work.play([first])
    note = store.note(first.key)
    prior = store.folder / work.prior_part(first.prior).apart[0] / "config.json"
    written = prior.stat().st_mtime_ns
    second = dataclasses.replace(first, noise_std=0.05)
    work.play([first, second])
    assert prior.stat().st_mtime_ns == written
    assert store.note(first.key) == note
    assert work.is_played(second)

    # Another recipe, and both prior and run are made anew; the baselines' are not touched.
    baseline = Run("popular-niche", "perfect", "gts-diag", 0.1)
    work.play([baseline])
    smaller = specs._TINY_APPENDIX | {"residual-conv": TINY | {"length": 4}}
    monkeypatch.setattr(specs, "_TINY_APPENDIX", smaller)
    assert not work.is_played(first)
    assert work.is_played(baseline)
    work.play([first])
    assert prior.stat().st_mtime_ns > written
    assert store.note(first.key)["recipe"] != note["recipe"]
    # Another seed has other rewards, and is another part.
    repeated = dataclasses.replace(baseline, seed=1)
    assert not work.is_played(repeated)
    work.play([repeated])
    regrets = [store.arrays(run.key)["regret"] for run in (baseline, repeated)]
    assert not np.array_equal(*regrets)
    told = Made(store.arrays(baseline.key), store.note(baseline.key))
    store.save(Part(repeated.key, ""), told)  # as if played with the first seed's rewards
    assert not work.is_played(repeated)
    assert all(store.note(key) for run in (first, baseline) for key in work.rests_on(run))

    monkeypatch.setattr("diffts.reproduction.work.FITS_VERSION", 99)
    assert not work.is_played(baseline)


@pytest.mark.slow
def test_a_stopped_training_goes_on_and_leaves_nothing_behind(tmp_path):
    said = []

    def stop(line, *_):
        said.append(line)
        if "training" in line:
            raise KeyboardInterrupt

    spec = PriorSpec("popular-niche", "perfect", APPENDIX)
    work = Reproduction(SMOKE, Store(tmp_path, SMOKE.as_json()), report=stop)
    with pytest.raises(KeyboardInterrupt):
        work.learn([spec])
    (state,) = (tmp_path / "popular-niche/states").iterdir()
    assert state.name.endswith("-seed0")
    work = Reproduction(SMOKE, Store(tmp_path, SMOKE.as_json()), report=lambda *_: None)
    work.tell = lambda *_: said.append("a step is done twice")
    work.learn([spec])
    assert "a step is done twice" not in said  # all had been done when it was stopped
    assert work.prior(spec).tau.shape[1] == 200
    assert not list((tmp_path / "popular-niche/states").iterdir())
