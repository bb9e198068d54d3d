"""The evaluation: what it asks for, on which tasks, and what it tells of them."""

import json

import numpy as np
import pytest
from benchmarks import evaluation_tables as tables

from diffts.learning import PaperProcedure, TrainingConfig
from diffts.problems import get_problem
from diffts.reproduction import EXPERIMENTS, PROFILES, reproduce
from diffts.reproduction import evaluation as ev
from diffts.reproduction.claims import Verdict
from diffts.reproduction.judges import Judged
from diffts.reproduction.problem_data import SEED, TEST_SEED
from diffts.reproduction.specs import APPENDIX, ARMS, FRESH, MANY, REAL, Run, plan_for, units_for
from diffts.reproduction.store import Made, Part, Store, write_json
from diffts.reproduction.work import Reproduction

PAPER, SMOKE = PROFILES["paper"], PROFILES["smoke"]


def runs_of(panels):
    return {run for panel in panels for run in panel.runs}


def test_eighteen_plots_have_three_diffts_all_baselines_and_three_seeds():
    panels = ev.race_panels(PAPER)
    assert len(panels) == len(ev.same_rule_panels(PAPER)) == 18
    for panel in panels:
        racing = [line.label for line in panel.lines if not line.reference]
        paths = ["ucb1-three-paths"] if panel.problem == "maze" else []
        given = [ev.OURS_WITH_GIVEN_NOISE] if panel.problem == "bidding" else []
        assert racing == [*ev.CONTENDERS, *given, "ucb1", *paths, *ev.BASELINES]
        for line in panel.lines:
            assert [run.seed for run in line.runs] == [0, 1, 2]
            assert {run.tasks for run in line.runs} <= {FRESH, MANY}


def test_everybody_in_the_table_plays_all_tasks_by_both_rules():
    for panel in ev.comparison_panels(PAPER):
        labels = {line.label for line in panel.lines}
        assert {f"{one}:default" for one in ev.BASELINES} < labels
        assert {ev.OURS, ev.OURS_AS_IN_THE_PAPER, *ev.BASELINES} < labels
        few = {run.policy for run in panel.runs if run.tasks != MANY}
        assert few == (set(ev.regret.MIXTURES) if panel.problem == "maze" else set())


def test_real_slots_are_played_by_the_same_policies():
    panels = ev.real_slot_panels(PAPER)
    assert len(panels) == 6
    for panel, simulated in zip(panels, ev.race_panels(PAPER)[8:14], strict=True):
        assert "real slots" in panel.title
        assert {run.tasks for run in panel.runs} == {REAL}
        assert [line.label for line in panel.lines] == [line.label for line in simulated.lines]


def test_the_papers_has_nothing_of_ours():
    for problem in ev.PROBLEMS:
        plan = plan_for(problem, PAPER, APPENDIX)
        assert isinstance(plan.procedure, PaperProcedure)
        assert plan.config == TrainingConfig()  # the paper's
        assert not plan.options
        assert plan.network in ("residual-conv", "unet-1d", "unet-2d")
        assert plan.config.steps == 15_000
        assert units_for(APPENDIX) is not None
        assert plan_for(problem, PAPER, ARMS).network == "arms"
        of = (problem, "imperfect", 0.1, (0,))
        (run,) = ev.contender(ev.THE_PAPERS, *of).runs
        assert (run.learner, run.sampler, run.rule, run.noise) == (
            APPENDIX,
            "paper",
            "thompson",
            "",
        )
        (run,) = ev.contender(ev.OURS_AS_IN_THE_PAPER, *of).runs
        assert (run.learner, run.rule, run.noise) == (ARMS, "thompson", "")


def test_with_one_rule_all_have_the_same_noise():
    for panel in ev.same_rule_panels(PAPER):
        assert {(run.rule, run.noise, run.noise_std) for run in panel.runs} == {
            ("default", "", panel.noise_std)
        }


def test_tasks_are_fresh_and_the_few_are_the_first_of_the_many(tmp_path):
    data = Reproduction(SMOKE, Store(tmp_path, {})).problem("popular-niche")
    few, many = data.test(FRESH), data.test(MANY)
    assert (len(few), len(many)) == (3, 6)
    np.testing.assert_array_equal(few, many[:3])
    problem = get_problem("popular-niche")
    known = [problem.split(20, 20, 20, seed=SEED), problem.sets_for_choices()]
    for sets in known:
        for tasks in sets:
            assert not (tasks[:, None] == few[None]).all(-1).any()
    assert TEST_SEED != SEED


def test_ucb_on_mazes_starts_with_the_sets_that_it_was_given(tmp_path):
    work = Reproduction(SMOKE, Store(tmp_path, {}))
    two, three = (
        work._actions(ev.baseline(name, "maze", "perfect", 0.1, (0,)).runs[0]).cover()
        for name in ("ucb1", "ucb1-three-paths")
    )
    assert (len(two), len(three)) == (2, 3)


def test_a_mixture_is_kept_by_half_of_its_numbers(tmp_path):
    data = Reproduction(SMOKE, Store(tmp_path, {})).problem("bidding")
    first, again = (data.mixture("perfect", 2, seed=1) for _ in range(2))
    np.testing.assert_array_equal(first.covariances, again.covariances)
    np.testing.assert_array_equal(first.covariances, first.covariances.swapaxes(1, 2))
    other = data.mixture("perfect", 2, seed=2)
    assert not np.array_equal(first.means, other.means)


@pytest.mark.slow(seconds=8)
def test_the_work_can_be_divided_by_data_and_by_line(tmp_path):
    how = {"problems": ["popular-niche"], "data": ["imperfect"], "lines": ["gts-diag"], "seeds": 1}
    names = ["noise-levels", "comparison"]
    assert reproduce(names, "smoke", tmp_path, parts_only=True, **how) == {}
    assert [path.name for path in tmp_path.iterdir()] == ["parts"]
    outcome = reproduce(names, "smoke", tmp_path, **how)
    assert outcome == dict.fromkeys(names, "nothing of it is finished")
    made = sorted(path.stem for path in (tmp_path / "parts/popular-niche/runs").iterdir())
    assert made == ["imperfect-gts-diag-sigma0.1-many"]


# What is told


@pytest.fixture
def work(tmp_path):
    return Reproduction(SMOKE, Store(tmp_path / "parts", {}))


def played(work, panels, regrets):
    """As if a line's runs had such regrets, task by task, at the end."""
    for panel in panels:
        for line in panel.lines:
            for run in line.runs:
                values = np.asarray(regrets(line.label, run.seed), np.float32)[None]
                arrays = {"rounds": np.array([10]), "regret": values}
                arrays |= {"late_rounds": np.array([10]), "late_regret": values}
                work.store.save(Part(run.key, ""), Made(arrays, {"seconds": 1.0}))


def test_each_diffts_is_judged_without_the_other_two(work, tmp_path):
    panels = ev.race_panels(SMOKE)
    means = {ev.OURS: 1.0, ev.OURS_AS_IN_THE_PAPER: 2.0, ev.THE_PAPERS: 9.0, "gts-full": 3.0}
    played(work, panels, lambda label, _: means.get(label, 5.0) + np.array([0.0, 0.1, 0.2]))
    rows, told = ev.tell(work, panels, tmp_path / "evaluation")
    plots = len(panels)
    all_first = {"plots": plots, "first": plots, "first_by_two_standard_errors": plots}
    assert told["first"][ev.OURS] == told["first"][ev.OURS_AS_IN_THE_PAPER] == all_first
    assert told["first"][ev.THE_PAPERS]["first"] == 0
    for panel in told["panels_of"][ev.THE_PAPERS]:
        assert panel["ranking"][-1] == ev.OWN  # under this name, in the place of ours
        assert panel["lines"][ev.OWN]["regret"] == pytest.approx(9.1)
        assert not {ev.OURS, ev.THE_PAPERS} & set(panel["lines"])
    assert {row["policy"] for row in rows} == {line.label for p in panels for line in p.lines}
    for kind in ev.BOTH:
        assert (tmp_path / f"evaluation-{kind}.png").exists()
        assert (tmp_path / f"evaluation-{kind}.pdf").exists()
    json.dumps(told)


def test_a_plot_waits_for_baselines_and_seeds_but_not_for_the_other_two_diffts(work, tmp_path):
    first, second = ev.race_panels(SMOKE)[:2]
    arrays = {"rounds": np.array([10]), "regret": np.arange(3.0)[None]}

    def played_by(panel, leave_out=()):
        for line in panel.lines:
            for run in line.runs:
                if (line.label, run.seed) not in leave_out and line.label not in leave_out:
                    part = work.run_part(run)
                    work.store.save(part, Made(arrays, {"recipe": part.digest}))

    played_by(first, leave_out=[(ev.THE_PAPERS, 1), "gts-full"])
    assert first.finished(work) is None
    played_by(first, leave_out=[(ev.THE_PAPERS, 1)])
    played_by(second)
    panels = [first.finished(work), second.finished(work)]
    assert panels[0].lines == tuple(one for one in first.lines if one.label != ev.THE_PAPERS)
    assert panels[1] == second
    _, told = ev.tell(work, panels, tmp_path / "noise-levels")
    assert [told["first"][label]["plots"] for label in ev.CONTENDERS] == [2, 2, 1]


def test_ours_is_counted_with_given_noise_where_it_has_another(work, tmp_path):
    panels = [panel for panel in ev.race_panels(SMOKE) if panel.data == "perfect"]
    means = {ev.OURS: 1.0, ev.OURS_WITH_GIVEN_NOISE: 7.0}
    played(work, panels, lambda label, _: means.get(label, 5.0) + np.arange(3.0))
    _, told = ev.tell(work, panels, tmp_path / "noise-levels")
    first = {label: count["first"] for label, count in told["first"].items()}
    assert (first[ev.OURS], first[ev.OURS_WITH_GIVEN_NOISE]) == (4, 3)
    assert told["first"][ev.OURS_WITH_GIVEN_NOISE]["plots"] == 4
    for panel in told["panels"]:
        assert set(panel["ranking"][1:]) == {"ucb1", "gts-diag", "gts-full"} | (
            {"ucb1-three-paths"} if panel["problem"] == "maze" else set()
        )


def test_a_lead_counts_by_two_standard_errors_of_its_own(work, tmp_path):
    panels = ev.race_panels(SMOKE)[:1]
    noisy = np.array([-30.0, 0.0, 30.0])
    played(work, panels, lambda label, _: 5.0 + (label != ev.OURS) * (1.0 + noisy))
    _, told = ev.tell(work, panels, tmp_path / "evaluation")
    count = {"plots": 1, "first": 1, "first_by_two_standard_errors": 0}
    assert told["first"][ev.OURS] == count


def test_the_table_says_how_far_each_is_above_ours(work, tmp_path):
    panels = ev.comparison_panels(SMOKE)[:1]
    means = {ev.OURS: 4.0, "gts-full:default": 6.0}
    tasks = np.array([0.0, 1.0, 2.0])
    played(work, panels, lambda label, seed: means.get(label, 8.0) + (1 + seed) * tasks)
    rows, told = ev.tell_comparison(work, panels, tmp_path / "comparison")
    row = {row["policy"]: row for row in rows}["gts-full:default"]
    assert (row["above_ours"], row["stderr_of_that"]) == (2.0, 0.0)
    assert (row["tasks"], row["seeds"], row["regret"]) == (3, 2, 7.5)
    assert row["p95"] == pytest.approx(np.quantile(6.0 + np.outer([1, 2], tasks), 0.95), abs=1e-3)
    assert len(told["rows"]) == len(rows)


def test_the_default_rule_on_sets_has_a_version_of_its_own(work, monkeypatch):
    """So that what was played by an older one is played anew; other rules and single arms stay."""

    def digests():
        return {
            (problem, rule): work.run_part(
                Run(problem, "perfect", "gts-diag", 0.1, tasks=FRESH, rule=rule)
            ).digest
            for problem in ("maze", "popular-niche")
            for rule in ("thompson", "default")
        }

    before = digests()
    monkeypatch.setattr("diffts.reproduction.work.DEFAULT_RULE_ON_SETS", 99)
    changed = {key for key, value in digests().items() if value != before[key]}
    assert changed == {("maze", "default")}


# Its page


@pytest.fixture
def summaries(work, tmp_path, monkeypatch):
    """Those of races in which DiffTS by the default rule has 1, by others 2 or 9, and others 5."""
    means = {ev.OURS: 1.0, ev.OURS_AS_IN_THE_PAPER: 2.0, ev.THE_PAPERS: 9.0}
    means[ev.OURS_WITH_GIVEN_NOISE] = means[ev.OURS]  # the same runs as of the same rule
    means |= {"gts-full:default": 4.0, "gts-diag:default": 6.0}
    told = {
        "noise-levels": (ev.race_panels(SMOKE), ev.tell),
        "same-rule": (ev.same_rule_panels(SMOKE), ev.tell),
        "comparison": (ev.comparison_panels(SMOKE), ev.tell_comparison),
    }
    for panels, _ in told.values():
        played(work, panels, lambda label, _: means.get(label, 5.0) + np.array([-1.0, 0.0, 1.0]))
    for name, (panels, tell) in told.items():
        write_json(tmp_path / f"{name}.json", tell(work, panels, tmp_path / name)[1])
    verdicts = [
        Verdict("λ helps (by two s.e.)", Judged("", True, "2 of 2"), Judged("", False, "1 of 2")),
        Verdict("EM helps", Judged("so far: …", None, "3 of 4"), Judged("does not apply", None)),
        Verdict("it is so", Judged("not run: a", None), Judged("so far: nothing", None, "0 of 0")),
    ]
    write_json(tmp_path / "claims.json", {"claims": [one.as_row() for one in verdicts]})
    monkeypatch.setattr(tables, "FOLDER", tmp_path)


@pytest.mark.usefixtures("summaries")
def test_tables_of_the_page_are_those_of_the_summaries():
    races = {line.split(" | ")[0]: line.count("9.0 ± ") for line in tables.races()}
    assert races["| DiffTS (paper)"] == 8  # four problems, two kinds of data
    assert "| DiffTS, default rule" in races
    assert "| UCB1-three-paths" in races
    wins = list(tables.firsts())
    assert "| DiffTS, default rule | as in the paper | 8 | 8 | 8 |" in wins
    assert "| DiffTS (paper) | as in the paper | 8 | 0 | 0 |" in wins
    assert "| DiffTS, default rule | by our rule | 8 | 8 | 8 |" in wins
    assert [line[-8:] for line in tables.same_rule()][2:] == ["| 0.25 |"] * 8
    rows = {row.split(" | ")[0]: row for row in list(tables.comparison())[2:]}
    assert rows["| GTS-full"].count("5.0 ± ") == 8
    assert rows["| GTS-full, default rule"].count("4.0 ± ") == 8
    assert rows["| UCB1-three-paths"].count("5.0 ± ") == 2
    assert not any("data)" in name for name in rows)
    others = list(tables.closest())[2:]
    assert len(others) == 8
    told = "| 1.0 ± 0.6 | GTS-full, default rule | 4.0 ± 0.6 | 3.0 ± 0.0 | 2, 5 |"
    assert all(row.endswith(told) for row in others)
    verdicts = {row.split(" | ")[0]: row for row in tables.claims()}
    assert "| yes, 2 of 2 | no, 1 of 2 |" in verdicts["| λ helps (by two s.e.)"]
    assert verdicts["| EM helps"].endswith("| so far, 3 of 4 | – |")
    assert verdicts["| it is so"].endswith("| not run | nothing yet |")


@pytest.mark.parametrize("page", tables.PAGES)
def test_a_page_has_the_tables_of_the_published_files(page):
    text = (tables.ROOT / page).read_text()
    assert tables.TABLE.search(text)
    assert tables.with_tables(text) == text  # else: python -m benchmarks.evaluation_tables --write


def test_each_table_stands_once():
    pages = [(tables.ROOT / page).read_text() for page in tables.PAGES]
    assert sorted(name for text in pages for name in tables.TABLE.findall(text)) == sorted(
        tables.TABLES
    )


def test_the_page_says_that_it_is_not_finished():
    """As long as an experiment lacks something, or is not there at all."""
    page = (tables.ROOT / "docs/evaluation.md").read_text()
    finished = [
        (tables.FOLDER / f"{name}.json").exists() and not tables.read(name).get("lacks")
        for name in EXPERIMENTS
    ]
    assert ("**It is not finished**" in page) != all(finished)


def test_another_file_is_another_table(monkeypatch, tmp_path):
    page = "<!-- table: firsts -->\n\n| old |\n| - |\n\nA sentence.\n<!-- another -->\n"
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    count = {"plots": 7, "first": 3, "first_by_two_standard_errors": 2}
    for name in ("noise-levels", "same-rule"):
        write_json(tmp_path / f"{name}.json", {"first": {ev.OURS: count}})
    text = tables.with_tables(page)
    assert "| DiffTS, default rule | by our rule | 7 | 3 | 2 |\n\nA sentence.\n" in text
    assert "old" not in text
    assert tables.with_tables(text) == text
    assert tables.with_tables("<!-- table: firsts -->\n| no newline |") in text
