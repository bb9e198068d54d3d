"""The paper's claims are judged by what was measured, and not before all of it was.

Of races both columns have the same figures here, unless a test says otherwise.
"""

import json

import pytest

from diffts.errors import ArtifactError
from diffts.reproduction import judge_claims, reproduce, tally
from diffts.reproduction.claims import Judged, Verdict
from diffts.reproduction.evaluation import THE_PAPERS
from diffts.reproduction.specs import APPENDIX, ARMS, NO_EM
from diffts.reproduction.store import Store

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
    told = {"panels": panels, "panels_of": {THE_PAPERS: of_the_papers or panels}, **more}
    (folder / f"{name}.json").write_text(json.dumps(told))


def ours(folder):
    """What was judged of ours."""
    return [verdict.of_ours for verdict in judge_claims(folder)]


def test_claims_are_judged_by_what_was_measured(tmp_path):
    names = ("popular-niche", "bidding", "maze")
    regrets = {"diffts": 10.0, "ucb1": 30.0, "gmmts-10": 20.0, "gts-full": 19.0}
    panels = [race(f"{p} {d}", p, regrets, "diffts", data=d)
              for p in names for d in ("perfect", "imperfect")]  # fmt: skip
    write(tmp_path, "main", panels)
    first, twice, mixture, par, *others = ours(tmp_path)
    assert (first.measured, first.agrees) == ("first in 6 of 6", True)
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
    panels[2] = race("bidding perfect", "bidding", {"diffts": 13.0, "gmmts-10": 10.0}, "gmmts-10")
    write(tmp_path, "main", panels)
    first, _, _, par, *_ = ours(tmp_path)
    assert not first.agrees
    assert "first in 5 of 6; not in bidding perfect: 13.0, gmmts-10 10.0" in first.measured
    assert not par.agrees  # three standard errors worse
    write(tmp_path, "main", panels[:2], complete=False)
    assert ours(tmp_path)[0] == ("so far: first in 2 of 2", None)
    # All plots, but not with all of their seeds.
    write(tmp_path, "main", panels, complete=False)
    assert ours(tmp_path)[0].measured.startswith("so far: first in 5 of 6")
    assert ours(tmp_path)[0].agrees is None


def test_each_column_is_judged_by_its_own_races(tmp_path):
    first = race("a", "maze", {"diffts": 10.0, "ucb1": 30.0}, "diffts")
    second = race("a", "maze", {"diffts": 40.0, "ucb1": 30.0}, "ucb1")
    write(tmp_path, "main", [first] * 6, [second] * 6)
    verdict = judge_claims(tmp_path)[0]
    assert verdict.of_ours == ("first in 6 of 6", True)
    assert verdict.of_the_papers.measured.startswith("first in 0 of 6")
    assert verdict.of_the_papers.agrees is False
    row = verdict.as_row()
    assert (row["ours: agrees"], row["the paper's: agrees"]) == (True, False)


def test_the_mixture_and_the_gaussian_are_compared_on_perfect_data(tmp_path):
    def main(of_mixture, imperfect=30.0):
        panels = [
            race(f"{p}, {d} data", p, {"diffts": 1.0, "gmmts-10": m, "gmmts-25": 99.0,
                                       "gts-full": 20.0}, "diffts", data=d)
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
            race(f"σ̂ = {level}", p, {"diffts": ours, "gmmts-10": other}, "diffts", d, level)
            for p, d in ((f"problem {i}", d) for i in range(3) for d in ("perfect", "imperfect"))
            for level, ours, other in ((0.1, 12.0, 11.0), (0.2, 10.0, 15.0), (0.3, 20.0, 30.0))
        ]
        panels[-1]["lines"]["gmmts-10"]["regret"] = elsewhere
        write(tmp_path, "noise-levels", panels)
        return next(v.of_ours for v in judge_claims(tmp_path) if v.claim.startswith("over all"))

    assert verdict(30.0).agrees
    worse = verdict(9.0)
    assert worse.agrees is False
    assert worse.measured.startswith("smallest in 5 of 6")
    last = "problem 2, imperfect data: 10.0 (σ̂ = 0.2), gmmts-10 9.0 (σ̂ = 0.3)"
    assert worse.measured.endswith(last)


def test_agreeing_and_disagreeing_claims_are_counted(tmp_path):
    of_ours = [Judged("", agrees) for agrees in (True, False, None)]
    claims = [Verdict("a", Judged("", True), judged) for judged in of_ours]
    assert tally(claims) == {"the paper's": (3, 0, 0), "ours": (1, 1, 1)}
    assert tally(claims)["ours"].in_words == "1 of 3 claims agree, 1 does not, 1 is not decided."
    reproduce(["claims"], "smoke", tmp_path)
    told = json.loads((tmp_path / "claims.json").read_text())
    nothing = {"agree": 0, "disagree": 0, "undecided": 15}
    assert told["tally"] == {"the paper's": nothing, "ours": nothing}


def test_a_damaged_summary_or_marker_is_named(tmp_path):
    (tmp_path / "main.json").write_text("{")
    with pytest.raises(ArtifactError, match=r"main\.json: damaged"):
        judge_claims(tmp_path)
    (tmp_path / "settings.json").write_text("{")
    with pytest.raises(ArtifactError, match=r"settings\.json: damaged"):
        Store(tmp_path, {})


def test_references_are_no_mixtures_of_the_race(tmp_path):
    """From imperfect data: beside mixtures of the same data, and beside those of perfect data."""

    def verdicts(same, perfect):
        regrets = {"diffts": 10.0, "gmmts-10": same, "gmmts-10 (perfect data)": perfect}
        panel = race("bidding", "bidding", regrets, "diffts", data="imperfect")
        write(tmp_path, "main", [panel])
        par, beside_perfect = ours(tmp_path)[3:5]
        return par.agrees, beside_perfect.agrees

    assert verdicts(10.0, 5.0) == (True, False)
    assert verdicts(5.0, 10.0) == (False, True)


def test_summaries_of_an_older_version_are_named(tmp_path):
    panel = race("a", "maze", {"diffts": 1.0, "ucb1": 2.0}, "diffts")
    del panel["lines"]["ucb1"]["reference"]
    write(tmp_path, "main", [panel])
    with pytest.raises(ArtifactError, match=r"main .*no 'reference'.* with --finished"):
        judge_claims(tmp_path)


def plot(problem, noise_std, **regrets):
    labels = {name.replace("_", " "): value for name, value in regrets.items()}
    return race(f"{problem}, {noise_std}", problem, labels, None, noise_std=noise_std)


def judged(tmp_path, start, **summaries):
    for name, panels in summaries.items():
        content = panels if isinstance(panels, dict) else {"panels": panels}
        (tmp_path / f"{name.replace('_', '-')}.json").write_text(json.dumps(content))
    (found,) = (v for v in judge_claims(tmp_path) if v.claim.startswith(start))
    judged = (found.of_the_papers, found.of_ours)
    return next((one.agrees for one in judged if one.agrees is not None), None)


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
    assert not judged(tmp_path, "without calibration", variance=variance)
    assert not judged(tmp_path, "calibrating the last", variance=variance)
    worse = panels(predicted_noise=50.0, sampled_noise=60.0)
    assert judged(tmp_path, "sampled noise", sampled_noise=worse)
    assert not judged(
        tmp_path, "sampled noise", sampled_noise=panels(predicted_noise=50.0, sampled_noise=51.0)
    )
    helps = panels(with_EM=50.0, without_EM=60.0)
    too = [race("a", p, {"EM and SURE": 50.0, "SURE, no EM": 60.0}, None) for p, _ in four]
    assert judged(tmp_path, "EM lowers", incomplete_data=helps, noisy_incomplete_data=too)
    too[0] = race("a", "labeled-arms", {"EM and SURE": 50.0, "SURE, no EM": 51.0}, None)
    assert not judged(tmp_path, "EM lowers", incomplete_data=helps, noisy_incomplete_data=too)
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
    assert not judged(tmp_path, "λ = 0.1 helps", noisy_data=sure)


def test_other_claims_are_judged(tmp_path):
    def tau(*errors):
        (tmp_path / "calibration.json").write_text(
            json.dumps(
                {
                    "relative error of τ": [
                        {"problem": "maze", "learner": learner, "error": e, "error_first_ten": e}
                        for learner, e in zip((APPENDIX, ARMS), errors, strict=True)
                    ]
                }
            )
        )
        (verdict,) = (v for v in judge_claims(tmp_path) if v.claim.startswith("calibration from"))
        return verdict.of_the_papers.agrees, verdict.of_ours.agrees

    assert tau(0.04, 0.06) == (True, False)
    assert tau(0.06, 0.04) == (False, True)

    def groups(*values):
        names = [
            f"{w} with {k} noise" for k in ("predicted", "sampled") for w in ("recall", "precision")
        ]
        return {"scores": dict(zip(names, values, strict=True))}

    assert judged(tmp_path, "20 Groups", groups=groups(1.0, 1.0, 0.84, 0.97))
    assert not judged(tmp_path, "20 Groups", groups=groups(1.0, 1.0, 0.94, 1.0))

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
    assert not judged(tmp_path, "images", **{**both, "mnist": scores("mnist", 9.0)})
    assert judged(tmp_path, "images", **{**both, "mnist": scores("stand-in digits", 1.0)}) is None
