"""The paper's claims are judged by what was measured, and not before all of it was.

Of races both columns have the same figures here, unless a test says otherwise.
"""

import json

import pytest

from diffts.errors import ArtifactError
from diffts.reproduction import WHOSE, judge_claims, reproduce, tally
from diffts.reproduction.claims import Verdict
from diffts.reproduction.evaluation import (
    OURS_AS_IN_THE_PAPER,
    OURS_WITH_GIVEN_NOISE,
    OWN,
    THE_PAPERS,
)
from diffts.reproduction.judges import Judged
from diffts.reproduction.specs import APPENDIX, NO_EM, NO_SURE
from diffts.reproduction.store import SUMMARIES_VERSION, Store

#: What lines of ablations are, beside their labels.
FIELDS = {
    "partly calibrated": {"variance": "partial"},
    "not calibrated": {"variance": "plain"},
    "sampled noise": {"sampler": "paper-sampled-noise"},
    "without EM": {"learner": NO_EM},
    "SURE, no EM": {"learner": NO_EM},
    "λ = 0": {"sure": 0.0},
    "λ = 0.1": {"sure": 0.1},
}


def race(title, problem, regrets, best, data="perfect", noise_std=0.1):
    """A panel of a summary."""
    first = next(iter(regrets.values()))
    lines = {
        label: {
            "regret": value,
            "above_first_line": value - first,
            "stderr_of_that": 1.0,
            "policy": label,
            "components": 10 if label.startswith("gmmts") else None,
            "sure": None,
            "reference": label.endswith("(perfect data)"),
            **FIELDS.get(label, {}),
        }
        for label, value in regrets.items()
    }
    return {
        "title": title,
        "problem": problem,
        "data": data,
        "noise_std": noise_std,
        "lines": lines,
        "ranking": sorted((n for n in lines if not lines[n]["reference"]), key=regrets.get),
        "best": best,
    }


def write(folder, name, panels, of_the_papers=None, **more):
    """A summary of races."""
    others = {} if of_the_papers == [] else {THE_PAPERS: of_the_papers or panels}
    write_summary(folder, name, {"panels": panels, "panels_of": others, **more})


def write_summary(folder, name, told):
    lacks_in = ["maze"] if told.get("lacks") else []
    versioned = {"version": SUMMARIES_VERSION, "lacks": [], "lacks_in": lacks_in, **told}
    (folder / f"{name}.json").write_text(json.dumps(versioned))


def ours(folder):
    """What was judged of ours."""
    return [verdict.of_ours for verdict in judge_claims(folder)]


def test_claims_are_judged_by_what_was_measured(tmp_path):
    names = ("popular-niche", "bidding", "maze")
    regrets = {OWN: 10.0, "ucb1": 30.0, "gmmts-10": 20.0, "gts-full": 19.0}
    panels = [race(f"{p} {d}", p, regrets, OWN, data=d)
              for p in names for d in ("perfect", "imperfect")]  # fmt: skip
    write(tmp_path, "main", panels)
    first, twice, mixture, par, *others = ours(tmp_path)
    assert first == ("first in 6 of 6", True, "6 of 6")
    assert [one.holds for one in (twice, mixture, par)] == ["4 of 4", "2 of 2", "1 of 1"]
    assert twice.agrees
    assert mixture.agrees
    assert par.agrees
    assert {judged.agrees for judged in others} == {None}  # nothing to judge them by
    assert [verdict.of_the_papers for verdict in judge_claims(tmp_path)][:4] == [
        first,
        twice,
        mixture,
        par,
    ]
    panels[2] = race("bidding perfect", "bidding", {OWN: 13.0, "gmmts-10": 10.0}, "gmmts-10")
    write(tmp_path, "main", panels)
    first, _, _, par, *_ = ours(tmp_path)
    assert not first.agrees
    assert "first in 5 of 6; not in bidding perfect: 13.0, gmmts-10 10.0" in first.measured
    assert not par.agrees  # three standard errors worse
    write(tmp_path, "main", panels[:2], lacks=["gts-full"])
    assert ours(tmp_path)[0] == ("so far: first in 2 of 2", None, "2 of 2")


@pytest.mark.parametrize(
    ("lacks", "papers_too"),
    [
        ([OURS_AS_IN_THE_PAPER, OURS_WITH_GIVEN_NOISE], True),
        ([OURS_AS_IN_THE_PAPER, THE_PAPERS], False),
        ([THE_PAPERS], False),
    ],
)
def test_ours_is_judged_before_the_other_two_are_played(tmp_path, lacks, papers_too):
    panels = [race("a", "maze", {OWN: 10.0, "ucb1": 30.0}, OWN)] * 6
    write(tmp_path, "main", panels, panels if papers_too else panels[:4], lacks=lacks)
    of_the_papers, of_ours = judge_claims(tmp_path)[0][1:]
    assert of_ours == ("first in 6 of 6", True, "6 of 6")
    expected = of_ours if papers_too else ("so far: first in 4 of 4", None, "4 of 4")
    assert of_the_papers == expected


def test_nothing_of_the_papers_is_nothing_to_judge(tmp_path):
    panels = [race("a", "maze", {OWN: 10.0, "ucb1": 30.0}, OWN)] * 6
    write(tmp_path, "main", panels, [], lacks=[THE_PAPERS])
    first, twice, *_ = (verdict.of_the_papers for verdict in judge_claims(tmp_path))
    assert first == ("so far: first in 0 of 0", None, "0 of 0")
    assert twice == ("so far: nothing", None, "0 of 0")


def test_a_claim_on_baselines_needs_no_diffts(tmp_path):
    regrets = {OWN: 10.0, "gmmts-10": 20.0, "gts-full": 19.0}
    panels = [race("a", "maze", regrets, OWN), race("b", "popular-niche", regrets, OWN)]
    write(tmp_path, "main", panels, panels[:1], lacks=[THE_PAPERS])
    verdicts = judge_claims(tmp_path)
    (of_baselines,) = (v for v in verdicts if v.claim.startswith("with a mixture"))
    assert of_baselines.of_the_papers == of_baselines.of_ours
    assert of_baselines.of_ours[1:] == (True, "2 of 2")


def test_a_claim_of_two_experiments_needs_both(tmp_path):
    panels = [race("a", "popular-niche", {"with EM": 1.0, "without EM": 9.0}, "with EM")]
    write_summary(tmp_path, "incomplete-data", {"panels": panels})
    write_summary(tmp_path, "noisy-incomplete-data", {"panels": panels, "lacks": ["gts-full"]})

    def em():
        verdicts = judge_claims(tmp_path)
        return next(v.of_the_papers for v in verdicts if v.claim.startswith("EM lowers"))

    assert (em().agrees, em().holds) == (None, "2 of 2")
    write_summary(tmp_path, "noisy-incomplete-data", {"panels": panels})
    assert (em().agrees, em().holds) == (True, "2 of 2")
    write_summary(tmp_path, "noisy-incomplete-data", {"panels": []})
    assert (em().agrees, em().holds) == (None, "1 of 1")


def test_each_column_is_judged_by_its_own_races(tmp_path):
    first = race("a", "maze", {OWN: 10.0, "ucb1": 30.0}, OWN)
    second = race("a", "maze", {OWN: 40.0, "ucb1": 30.0}, "ucb1")
    write(tmp_path, "main", [first] * 6, [second] * 6)
    verdict = judge_claims(tmp_path)[0]
    assert verdict.of_ours == ("first in 6 of 6", True, "6 of 6")
    assert verdict.of_the_papers.measured.startswith("first in 0 of 6")
    assert verdict.of_the_papers.agrees is False
    row = verdict.as_row()
    assert [row[f"{whose}: agrees"] for whose in WHOSE] == [False, True]


def test_the_mixture_and_the_gaussian_are_compared_on_perfect_data(tmp_path):
    def main(of_mixture, imperfect=30.0):
        panels = [
            race(f"{p}, {d} data", p, {OWN: 1.0, "gmmts-10": m, "gmmts-25": 99.0,
                                       "gts-full": 20.0}, OWN, data=d)
            for p in ("popular-niche", "bidding", "maze")
            for d, m in (("perfect", of_mixture), ("imperfect", imperfect))
        ]  # fmt: skip
        write(tmp_path, "main", panels)
        verdicts = judge_claims(tmp_path)
        return next(v.of_ours for v in verdicts if v.claim.startswith("with a mixture"))

    assert main(25.0, imperfect=10.0).agrees  # the paper has no mixture from imperfect data
    verdict = main(19.0)  # the better one of the two counts
    assert verdict.agrees is False
    assert "popular-niche, perfect data: gmmts-10 19.0, gts-full 20.0" in verdict.measured
    assert "bidding" not in verdict.measured


def test_noise_levels_are_taken_together_problem_by_problem(tmp_path):
    """Every policy at its best level: DiffTS may be behind at one of them."""

    def verdict(elsewhere):
        panels = [
            race(f"σ̂ = {level}", p, {OWN: ours, "gts-full": other}, OWN, d, level)
            for p, d in ((f"problem {i}", d) for i in range(3) for d in ("perfect", "imperfect"))
            for level, ours, other in ((0.1, 12.0, 11.0), (0.2, 10.0, 15.0), (0.3, 20.0, 30.0))
        ]
        panels[-1]["lines"]["gts-full"]["regret"] = elsewhere
        write(tmp_path, "noise-levels", panels)
        return next(v.of_ours for v in judge_claims(tmp_path) if v.claim.startswith("over all"))

    assert verdict(30.0).agrees
    worse = verdict(9.0)
    assert worse.agrees is False
    assert worse.measured.startswith("smallest in 5 of 6")
    last = "problem 2, imperfect data: 10.0 (σ̂ = 0.2), gts-full 9.0 (σ̂ = 0.3)"
    assert worse.measured.endswith(last)


def test_agreeing_and_disagreeing_claims_are_counted(tmp_path):
    of_ours = [Judged("", agrees) for agrees in (True, False, None)]
    claims = [Verdict("a", Judged("", True), judged) for judged in of_ours]
    assert tally(claims) == dict(zip(WHOSE, ((3, 0, 0), (1, 1, 1)), strict=True))
    assert tally(claims)[WHOSE[1]].in_words == "1 of 3 claims agree, 1 does not, 1 is not decided."
    reproduce(["claims"], "smoke", tmp_path)
    told = json.loads((tmp_path / "claims.json").read_text())
    nothing = {"agree": 0, "disagree": 0, "undecided": 15}
    assert told["tally"] == dict.fromkeys(WHOSE, nothing)


def test_a_damaged_summary_or_marker_is_named(tmp_path):
    (tmp_path / "main.json").write_text("{")
    with pytest.raises(ArtifactError, match=r"main\.json: damaged"):
        judge_claims(tmp_path)
    (tmp_path / "settings.json").write_text("{")
    with pytest.raises(ArtifactError, match=r"settings\.json: damaged"):
        Store(tmp_path, {})


def test_our_mixtures_from_imperfect_data_do_not_race_in_the_papers_claims(tmp_path):
    """It has none, and compares with those of perfect data."""

    def verdicts(same, perfect):
        regrets = {OWN: 10.0, "gmmts-10": same, "gmmts-10 (perfect data)": perfect, "ucb1": 30.0}
        panel = race("bidding", "bidding", regrets, "gmmts-10", data="imperfect")
        write(tmp_path, "main", [panel] * 6)
        first, _, _, par, beside_perfect = ours(tmp_path)[:5]
        assert par.agrees is None
        return first.agrees, beside_perfect.agrees

    assert verdicts(10.0, 5.0) == (True, False)
    assert verdicts(5.0, 10.0) == (True, True)


def test_summaries_of_an_older_version_are_named(tmp_path):
    """Of the first run, say: its ablations were of another network."""
    for name in ("main", "variance"):
        write_summary(tmp_path, name, {"panels": [], "version": 1})
        with pytest.raises(ArtifactError, match=f"{name} written by another diffts"):
            judge_claims(tmp_path)
        (tmp_path / f"{name}.json").unlink()


def plot(problem, noise_std, **regrets):
    labels = {name.replace("_", " "): value for name, value in regrets.items()}
    return race(f"{problem}, {noise_std}", problem, labels, None, noise_std=noise_std)


def judged(tmp_path, start, **summaries):
    """Of the paper's DiffTS; ablations say nothing of ours."""
    for name, panels in summaries.items():
        content = panels if isinstance(panels, dict) else {"panels": panels}
        write_summary(tmp_path, name.replace("_", "-"), content)
    (found,) = (v for v in judge_claims(tmp_path) if v.claim.startswith(start))
    assert found.of_ours.agrees is None
    assert found.of_ours.measured.startswith(("does not apply", "not run"))
    return found.of_the_papers.agrees


def test_ablations_are_judged(tmp_path):
    """Each judge says yes to what the paper says and no to the contrary."""
    four = [(p, std) for p in ("labeled-arms", "popular-niche") for std in (0.1, 0.05)]

    def panels(**regrets):
        return [plot(p, std, **regrets) for p, std in four]

    variance = panels(calibrated=50.0, partly_calibrated=52.0, not_calibrated=90.0)
    assert judged(tmp_path, "without calibration", variance=variance)
    assert judged(tmp_path, "calibrating the last", variance=variance)
    common = plot(
        "labeled-arms-common", 0.1, calibrated=50.0, partly_calibrated=90.0, not_calibrated=50.0
    )
    for start in ("without calibration", "calibrating the last"):  # our variant is told alone
        assert judged(tmp_path, start, variance=[*variance, common])
    variance = panels(calibrated=50.0, partly_calibrated=60.0, not_calibrated=70.0)
    assert judged(tmp_path, "without calibration", variance=variance) is False
    assert judged(tmp_path, "calibrating the last", variance=variance) is False
    worse = panels(predicted_noise=50.0, sampled_noise=60.0)
    assert judged(tmp_path, "sampled noise", sampled_noise=worse)
    assert (
        judged(
            tmp_path,
            "sampled noise",
            sampled_noise=panels(predicted_noise=50.0, sampled_noise=51.0),
        )
        is False
    )
    helps = panels(with_EM=50.0, without_EM=60.0)
    too = [race("a", p, {"EM and SURE": 50.0, "SURE, no EM": 60.0}, None) for p, _ in four]
    assert judged(tmp_path, "EM lowers", incomplete_data=helps, noisy_incomplete_data=too)
    too[0] = race("a", "labeled-arms", {"EM and SURE": 50.0, "SURE, no EM": 51.0}, None)
    assert judged(tmp_path, "EM lowers", incomplete_data=helps, noisy_incomplete_data=too) is False
    sure = [
        race(
            p,
            p,
            {"λ = 0": 50.0, "λ = 0.1": 40.0 if p == "labeled-arms" else 60.0},
            None,
            noise_std=std,
        )
        for p, std in four
    ]
    assert judged(tmp_path, "λ = 0.1 helps", noisy_data=sure)
    sure[1] = race("a", "labeled-arms", {"λ = 0": 50.0, "λ = 0.1": 60.0}, None, "noisy", 0.05)
    assert judged(tmp_path, "λ = 0.1 helps", noisy_data=sure)  # nothing is said of that level
    common = race("a", "labeled-arms-common", {"λ = 0": 50.0, "λ = 0.1": 60.0}, None)
    assert judged(tmp_path, "λ = 0.1 helps", noisy_data=[*sure, common])  # our variant
    sure[2] = race("a", "popular-niche", {"λ = 0": 50.0, "λ = 0.1": 45.0}, None)
    assert judged(tmp_path, "λ = 0.1 helps", noisy_data=sure) is False


def test_other_claims_are_judged(tmp_path):
    def tau(error):
        errors = {APPENDIX: error, NO_SURE: 0.9}  # what is told of λ = 0 does not count
        rows = [
            {"problem": "maze", "learner": learner, "error": e, "error_first_ten": e}
            for learner, e in errors.items()
        ]
        return {"relative error of τ": rows}

    assert judged(tmp_path, "calibration from", calibration=tau(0.04))
    assert judged(tmp_path, "calibration from", calibration=tau(0.06)) is False

    def groups(*values):
        names = [
            f"{w} with {k} noise" for k in ("predicted", "sampled") for w in ("recall", "precision")
        ]
        return {"scores": dict(zip(names, values, strict=True))}

    assert judged(tmp_path, "20 Groups", groups=groups(1.0, 1.0, 0.84, 0.97))
    assert judged(tmp_path, "20 Groups", groups=groups(1.0, 1.0, 0.94, 1.0)) is False

    def scores(source, distance):
        one = {"Fréchet distance": distance, "hidden-pixel RMSE": 0.1}
        other = {"Fréchet distance": 5.0, "hidden-pixel RMSE": 0.3}
        return {
            "experiment": source,
            "source": source,
            "scores": {"clean": one, "corrupted": one, "corrupted images": other},
        }

    both = {"mnist": scores("mnist", 1.0), "fashion_mnist": scores("fashion_mnist", 2.0)}
    assert judged(tmp_path, "images", **both)
    assert judged(tmp_path, "images", **{**both, "mnist": scores("mnist", 9.0)}) is False
    assert judged(tmp_path, "images", **{**both, "mnist": scores("stand-in digits", 1.0)}) is None


def test_what_cannot_change_is_decided(tmp_path):
    """Plots to come mend no claim that one refutes; those that do not count are not needed."""

    def verdict(begin, whose="of_the_papers"):
        found = (v for v in judge_claims(tmp_path) if v.claim.startswith(begin))
        return getattr(next(found), whose).agrees

    won, lost = (race("a", "maze", {OWN: 10.0, "ucb1": other}, best, noise_std=level)
                 for other, best, level in ((30.0, OWN, 0.1), (9.0, "ucb1", 0.2)))  # fmt: skip
    for firsts, of, expected in ((14, 17, None), (13, 17, False), (15, 16, None)):
        panels = [won] * firsts + [lost] * (of - firsts)
        write(tmp_path, "noise-levels", [won] * 18, panels, lacks=[THE_PAPERS])
        assert verdict("lowest regret in 15") is expected
        assert verdict("lowest regret in 15", "of_ours") is True
    # Another noise level of a problem may be its best one.
    for lacks_in, expected in ((["maze"], None), (["bidding"], False)):
        of = {"lacks": [THE_PAPERS], "lacks_in": lacks_in}
        write(tmp_path, "noise-levels", [won], [lost], **of)
        assert verdict("over all noise levels") is expected
    lines = {"calibrated": 10.0, "partly calibrated": 10.1, "not calibrated": 20.0}
    for lacks_in, expected in ((["labeled-arms"], None), (["labeled-arms-common"], True)):
        panels = [race("a", "popular-niche", lines, "calibrated")]
        told = {"panels": panels, "lacks": ["calibrated"], "lacks_in": lacks_in}
        write_summary(tmp_path, "variance", told)
        assert verdict("without calibration") is expected
        assert verdict("calibrating the last step") is expected
