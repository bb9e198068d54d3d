"""Who judges the paper's claims: judges of a summary, made from judges of a plot."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from diffts.reproduction import ablations
from diffts.reproduction.evaluation import OURS, OWN
from diffts.reproduction.regret import TITLES
from diffts.reproduction.specs import APPENDIX, NO_EM

Json = dict[str, Any]


class Judged(NamedTuple):
    """What was measured, in words, and whether it agrees; None where nothing can be said.

    ``holds`` says in how many cases (plots, numbers) of those that were judged, as '3 of 4'.
    """

    measured: str
    agrees: bool | None
    holds: str = ""


def _judged(measured: str, cases: Sequence[bool]) -> Judged:
    """It agrees if it does in all cases."""
    return Judged(measured, all(cases) if cases else None, f"{sum(cases)} of {len(cases)}")


#: Of summaries, or of one plot; a plot can be passed over.
Judge = Callable[..., Judged]
PlotJudge = Callable[[Json], Judged | None]


def of_races(judge: Judge, whose: str) -> Judge:
    """A judge of races, told of those with one of the three DiffTS and the paper's baselines."""

    def judge_one(summary: Json) -> Judged:
        panels = ({OURS: summary["panels"]} | summary["panels_of"]).get(whose, [])
        return judge(summary | {"panels": [_as_in_the_paper(panel) for panel in panels]})

    return judge_one


def is_racing_mixture(line: Json) -> bool:
    """Whether it is a mixture, and no reference."""
    return bool(line["components"]) and not line["reference"]


def _as_in_the_paper(panel: Json) -> Json:
    """A plot without our mixtures from imperfect data; references stay."""
    if panel["data"] == "perfect":
        return panel
    lines = {name: one for name, one in panel["lines"].items() if not is_racing_mixture(one)}
    ranking = [name for name in panel["ranking"] if name in lines]
    return panel | {"lines": lines, "ranking": ranking, "best": ranking[0]}


def plots(judge: PlotJudge, *problems: str) -> Judge:
    """All plots of a summary, or of some problems, one by one; a judge may pass over a plot."""

    def judge_all(summary: Json) -> Judged:
        panels = summary["panels"]
        if problems:
            panels = [p for problem in problems for p in panels if p["problem"] == problem]
        return _judged(*_one_by_one(judge, panels))

    return judge_all


def _one_by_one(judge: PlotJudge, panels: Sequence[Json]) -> tuple[str, list[bool]]:
    """What was measured in all plots, and the verdicts of those that have one."""
    found = [(p["title"], judged) for p in panels if (judged := judge(p))]
    text = "; ".join(f"{title}: {one.measured}" for title, one in found)
    return text, [one.agrees for _, one in found if one.agrees is not None]


def _best(panel: Json, suits: Callable[[Json], bool]) -> str | None:
    """The label of the lowest of the lines that suit."""
    labels = [label for label, line in panel["lines"].items() if suits(line)]
    return min(labels, key=lambda label: panel["lines"][label]["regret"], default=None)


def _lead(panel: Json, other: str) -> str:
    """DiffTS beside another line, with the standard error of the gap, by task and by seed."""
    line = panel["lines"][other]
    gap = f"gap {line['above_first_line']:.1f} ± {line['stderr_of_that']:.1f}"
    return f"{panel['lines'][OWN]['regret']:.1f}, {other} {line['regret']:.1f} ({gap})"


def first(least: int, *, of: int) -> Judge:
    """DiffTS is first in at least so many plots; open while those to come could still decide."""

    def judge(summary: Json) -> Judged:
        behind = [panel for panel in summary["panels"] if panel["best"] != OWN]
        firsts = len(summary["panels"]) - len(behind)
        holds = f"{firsts} of {len(summary['panels'])}"
        leads = "; ".join(f"{p['title']}: {_lead(p, p['best'])}" for p in behind)
        text = f"first in {holds}; not in {leads}" if behind else f"first in {holds}"
        to_come = of - len(summary["panels"])
        agrees = None if firsts < least <= firsts + to_come else firsts >= least
        return Judged(text, agrees, holds)

    return judge


def far_ahead(panel: Json) -> Judged:
    """DiffTS is far below the best baseline."""
    other = next(name for name in panel["ranking"] if name != OWN)
    ratio = panel["lines"][other]["regret"] / panel["lines"][OWN]["regret"]
    return Judged(f"{ratio:.2f} times", ratio > 1.75)


def no_worse(suits: Callable[[Json], bool]) -> PlotJudge:
    """DiffTS is no worse, by two standard errors, than the best line that suits."""

    def judge(panel: Json) -> Judged | None:
        if (best := _best(panel, suits)) is None:
            return None
        line = panel["lines"][best]
        return Judged(_lead(panel, best), line["above_first_line"] > -2 * line["stderr_of_that"])

    return judge


def mixture_below_gaussian(panel: Json) -> Judged | None:
    """The paper shows the better one of its mixtures, and has none from imperfect data."""
    mixture = _best(panel, lambda line: bool(line["components"]))
    if panel["data"] != "perfect" or mixture is None:
        return None
    first, second = (panel["lines"][label]["regret"] for label in (mixture, "gts-full"))
    return Judged(f"{mixture} {first:.1f}, gts-full {second:.1f}", first > second)


def over_noise_levels(summary: Json) -> Judged:
    """Each policy at its best noise level, for each problem and kind of data."""
    races = defaultdict(list)
    for panel in summary["panels"]:
        for label in panel["ranking"]:
            one = (panel["lines"][label]["regret"], label, panel["noise_std"])
            races[panel["problem"], panel["data"]].append(one)
    told, agrees, refuted = [], [], False
    for (problem, data), lines in races.items():
        best = min(line for line in lines if line[1] == OWN)
        other = min(line for line in lines if line[1] != OWN)
        agrees.append(best < other)
        # A level that is missing may be the best one.
        refuted |= not agrees[-1] and problem not in summary["lacks_in"]
        ours = f"{TITLES.get(problem, problem)}, {data} data: {best[0]:.1f} (σ̂ = {best[2]:g})"
        told.append(f"{ours}, {other[1]} {other[0]:.1f} (σ̂ = {other[2]:g})")
    count = f"smallest in {sum(agrees)} of {len(agrees)}"
    judged = _judged(f"{count}. {'; '.join(told)}", agrees)
    return judged if judged.agrees or refuted else judged._replace(agrees=None)


def beside(agrees: Callable[[float, float], bool], **field: Any) -> PlotJudge:
    """The line with such a field beside the first: by their ratio, and by the gap in s.e."""

    def judge(panel: Json) -> Judged:
        first, *others = panel["lines"].values()
        line = next(line for line in others if field.items() <= line.items())
        gap, error = line["above_first_line"], line["stderr_of_that"]
        # Equal lines have no error, and no gap.
        in_errors = gap / error if error else math.copysign(math.inf, gap) if gap else 0.0
        text = f"{line['regret']:.1f} against {first['regret']:.1f}"
        return Judged(text, agrees(line["regret"] / first["regret"], in_errors))

    return _told_only(judge)


def _told_only(judge: PlotJudge) -> PlotJudge:
    """The common scale of Labeled Arms is our variant: what it shows is told and does not count."""

    def judge_all(panel: Json) -> Judged | None:
        judged = judge(panel)
        if judged is None or panel["problem"] in ablations.PAPERS:
            return judged
        return judged._replace(agrees=None)

    return judge_all


def em(incomplete: Json, noisy: Json) -> Judged:
    """Learning without EM is worse, from incomplete data with and without noise."""
    judge = beside(lambda _, gap: gap > 2, learner=NO_EM)
    (plain, helps), (with_noise, helps_too) = (
        _one_by_one(judge, summary["panels"]) for summary in (incomplete, noisy)
    )
    text = f"without EM against with it: {plain}. With noise, too: {with_noise}"
    judged = _judged(text, helps + helps_too)
    return judged if helps and helps_too else judged._replace(agrees=None)


def weight(panel: Json) -> Judged:
    """By the paper's λ = 0.1, at two standard errors; the others are told."""
    weighted = [line for line in panel["lines"].values() if line["sure"] is not None]
    told = ", ".join(f"λ = {line['sure']:g} {line['regret']:.1f}" for line in weighted)
    line = next(line for line in weighted if line["sure"] == 0.1)
    gap, error = line["above_first_line"], line["stderr_of_that"]
    # The paper says nothing of Labeled Arms at the other noise level, and has no common scale.
    agrees = None
    if panel["problem"] == "popular-niche":
        agrees = gap > 2 * error
    elif panel["problem"] == "labeled-arms" and panel["noise_std"] == 0.1:
        agrees = gap < -2 * error
    return Judged(f"{told} (λ = 0.1 adds {gap:.1f} ± {error:.1f})", agrees)


def calibration(summary: Json) -> Judged:
    """The errors τ of the paper's procedure are within 5%."""
    rows = [row for row in summary["relative error of τ"] if row["learner"] == APPENDIX]
    text = "; ".join(
        f"{TITLES[row['problem']]}: {row['error']:.1%}, first ten steps "
        f"{row['error_first_ten']:.1%}"
        for row in rows
    )
    return _judged(text, [row["error"] <= 0.05 for row in rows])


def groups(summary: Json) -> Judged:
    """Within five percentage points of each of the four numbers."""
    scores, said = summary["scores"], {"predicted": (1.0, 1.0), "sampled": (0.85, 0.98)}
    text = "; ".join(f"{name} {value:.1%}" for name, value in scores.items())
    near = [
        abs(scores[f"{what} with {kind} noise"] - value) <= 0.05
        for kind, values in said.items()
        for what, value in zip(("recall", "precision"), values, strict=True)
    ]
    return _judged(text, near)


def images(*summaries: Json) -> Judged:
    """In both scores nearer to the originals than the corrupted images are."""
    if any("stand-in" in summary["source"] for summary in summaries):
        return Judged("only of stand-in digits", None)
    told, agrees = [], []
    for summary in summaries:
        learned, clean, spoilt = (
            [summary["scores"][which][score] for score in ("Fréchet distance", "hidden-pixel RMSE")]
            for which in ("corrupted", "clean", "corrupted images")
        )
        agrees += [ours < theirs for ours, theirs in zip(learned, spoilt, strict=True)]
        told.append(
            f"{summary['experiment']}: Fréchet distance {learned[0]:.2f} (clean-trained "
            f"{clean[0]:.2f}, corrupted images {spoilt[0]:.2f}), hidden-pixel RMSE "
            f"{learned[1]:.3f} (clean-trained {clean[1]:.3f}, filled with means {spoilt[1]:.3f})"
        )
    return _judged("; ".join(told), agrees)
