"""The paper's claims, one by one, beside what the summaries in a folder say."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from diffts.errors import ArtifactError
from diffts.reproduction.regret import TITLES
from diffts.reproduction.store import read_json

Json = dict[str, Any]
#: What was measured, in words, and whether it agrees; None where nothing can be said.
Judged = tuple[str, bool | None]
#: Of summaries, or of one plot; a plot can be passed over.
Judge = Callable[..., Judged]
PlotJudge = Callable[[Json], Judged | None]


class Verdict(NamedTuple):
    """A claim, what was measured, and whether they agree; None where nothing was measured."""

    claim: str
    measured: str
    agrees: bool | None


class Tally(NamedTuple):
    """How many claims agree with what was measured, how many do not, and how many are open."""

    agree: int
    disagree: int
    undecided: int

    @property
    def in_words(self) -> str:
        """One sentence, undecided claims only where there are any.

        >>> Tally(6, 9, 0).in_words
        '6 of 15 claims agree, 9 do not.'
        >>> Tally(0, 1, 14).in_words
        '0 of 15 claims agree, 1 does not, 14 are not decided.'
        """
        do, are = "does" if self.disagree == 1 else "do", "is" if self.undecided == 1 else "are"
        rest = f", {self.undecided} {are} not decided" if self.undecided else ""
        return f"{self.agree} of {sum(self)} claims agree, {self.disagree} {do} not{rest}."


def tally(verdicts: Sequence[Verdict]) -> Tally:
    """Count the verdicts."""
    counts = Counter(verdict.agrees for verdict in verdicts)
    return Tally(counts[True], counts[False], counts[None])


def judge_claims(folder: Path) -> list[Verdict]:
    """All claims, judged by the JSON summaries in a folder; none before all its plots are there."""
    return [
        Verdict(claim, *_judge(folder, experiments, judge))
        for experiments, claims in CLAIMS.items()
        for claim, judge in claims.items()
    ]


def _judge(folder: Path, experiments: Sequence[str], judge: Judge) -> Judged:
    if missing := [name for name in experiments if not (folder / f"{name}.json").exists()]:
        return f"not run: {', '.join(missing)}", None
    summaries = [read_json(folder / f"{name}.json") for name in experiments]
    try:
        measured, agrees = judge(*summaries)
    except KeyError as error:
        raise ArtifactError(
            f"{folder}: {', '.join(experiments)} written by another diffts (no {error}); write it "
            "again with --finished"
        ) from None
    if all(summary.get("complete", True) for summary in summaries):
        return measured, agrees
    return f"so far: {measured or 'nothing'}", None


# --- judges: of a summary, made from judges of a plot --------------------------------------------


def _plots(judge: PlotJudge, *problems: str) -> Judge:
    """All plots of a summary, or of some problems, one by one; a judge may pass over a plot."""

    def judge_all(summary: Json) -> Judged:
        panels = summary["panels"]
        if problems:
            panels = [p for problem in problems for p in panels if p["problem"] == problem]
        found = [(p["title"], *judged) for p in panels if (judged := judge(p))]
        verdicts = [agrees for *_, agrees in found if agrees is not None]
        text = "; ".join(f"{title}: {measured}" for title, measured, _ in found)
        return text, all(verdicts) if verdicts else None

    return judge_all


def _best(panel: Json, suits: Callable[[Json], bool]) -> str | None:
    """The label of the lowest of the lines that suit."""
    labels = [label for label, line in panel["lines"].items() if suits(line)]
    return min(labels, key=lambda label: panel["lines"][label]["regret"], default=None)


def _lead(panel: Json, other: str) -> str:
    """DiffTS beside another line, with the standard error of the gap, by task and by seed."""
    line = panel["lines"][other]
    gap = f"gap {line['above_first_line']:.1f} ± {line['stderr_of_that']:.1f}"
    return f"{panel['lines']['diffts']['regret']:.1f}, {other} {line['regret']:.1f} ({gap})"


def _first(least: int) -> Judge:
    """DiffTS is first in at least so many plots."""

    def judge(summary: Json) -> Judged:
        behind = [panel for panel in summary["panels"] if panel["best"] != "diffts"]
        firsts = len(summary["panels"]) - len(behind)
        text = f"first in {firsts} of {len(summary['panels'])}"
        if behind:
            leads = "; ".join(f"{p['title']}: {_lead(p, p['best'])}" for p in behind)
            text += f"; not in {leads}"
        return text, firsts >= least

    return judge


def _far_ahead(panel: Json) -> Judged:
    other = _best(panel, lambda line: line["policy"] != "diffts" and not line["reference"])
    ratio = panel["lines"][other]["regret"] / panel["lines"]["diffts"]["regret"]
    return f"{ratio:.2f} times", ratio > 1.75


def _no_worse(suits: Callable[[Json], bool]) -> PlotJudge:
    """DiffTS is no worse, by two standard errors, than the best line that suits."""

    def judge(panel: Json) -> Judged | None:
        if (best := _best(panel, suits)) is None:
            return None
        line = panel["lines"][best]
        return _lead(panel, best), line["above_first_line"] > -2 * line["stderr_of_that"]

    return judge


def _mixture_below_gaussian(panel: Json) -> Judged | None:
    """The paper shows the better one of its mixtures, and has none from imperfect data."""
    mixture = _best(panel, lambda line: bool(line["components"]))
    if panel["data"] != "perfect" or mixture is None:
        return None
    first, second = (panel["lines"][label]["regret"] for label in (mixture, "gts-full"))
    return f"{mixture} {first:.1f}, gts-full {second:.1f}", first > second


def _over_noise_levels(summary: Json) -> Judged:
    """Each policy at its best noise level, for each problem and kind of data."""
    races = defaultdict(list)
    for panel in summary["panels"]:
        title = f"{TITLES.get(panel['problem'], panel['problem'])}, {panel['data']} data"
        for label in panel["ranking"]:
            races[title].append((panel["lines"][label]["regret"], label, panel["noise_std"]))
    told, agrees = [], []
    for title, lines in races.items():
        best = min(line for line in lines if line[1] == "diffts")
        other = min(line for line in lines if line[1] != "diffts")
        agrees.append(best < other)
        ours = f"{best[0]:.1f} (σ̂ = {best[2]:g})"
        told.append(f"{title}: {ours}, {other[1]} {other[0]:.1f} (σ̂ = {other[2]:g})")
    count = f"smallest in {sum(agrees)} of {len(agrees)}"
    return f"{count}. {'; '.join(told)}", all(agrees) if agrees else None


def _beside(agrees: Callable[[float, float], bool], **field: Any) -> PlotJudge:
    """The line with such a field beside the first: by their ratio, and by the gap in s.e."""

    def judge(panel: Json) -> Judged:
        first, *others = panel["lines"].values()
        line = next(line for line in others if field.items() <= line.items())
        gap, error = line["above_first_line"], line["stderr_of_that"]
        # Equal lines have no error, and no gap.
        in_errors = gap / error if error else math.copysign(math.inf, gap) if gap else 0.0
        text = f"{line['regret']:.1f} against {first['regret']:.1f}"
        return text, agrees(line["regret"] / first["regret"], in_errors)

    return judge


def _em(incomplete: Json, noisy: Json) -> Judged:
    judge = _plots(_beside(lambda _, gap: gap > 2, learner="paper, no EM"))
    (first, helps), (second, helps_too) = judge(incomplete), judge(noisy)
    text = f"without EM against with it: {first}. With noise, too: {second}"
    return text, None if helps is None or helps_too is None else helps and helps_too


def _weight(panel: Json) -> Judged:
    """By the paper's λ = 0.1, at two standard errors; the others are told."""
    weighted = [line for line in panel["lines"].values() if line["sure"] is not None]
    told = ", ".join(f"λ = {line['sure']:g} {line['regret']:.1f}" for line in weighted)
    line = next(line for line in weighted if line["sure"] == 0.1)
    gap, error = line["above_first_line"], line["stderr_of_that"]
    agrees = None  # the paper says nothing of Labeled Arms at the other noise level
    if panel["problem"] == "popular-niche":
        agrees = gap > 2 * error
    elif panel["noise_std"] == 0.1:
        agrees = gap < -2 * error
    return f"{told} (λ = 0.1 adds {gap:.1f} ± {error:.1f})", agrees


def _calibration(summary: Json) -> Judged:
    rows = summary["relative error of τ"]
    text = "; ".join(
        f"{TITLES[row['problem']]} ({row['learner']}): {row['error']:.1%}, first ten steps "
        f"{row['error_first_ten']:.1%}"
        for row in rows
    )
    return text, all(row["error"] <= 0.05 for row in rows) if rows else None


def _groups(summary: Json) -> Judged:
    """Within five percentage points of each of the four numbers."""
    scores, said = summary["scores"], {"predicted": (1.0, 1.0), "sampled": (0.85, 0.98)}
    text = "; ".join(f"{name} {value:.1%}" for name, value in scores.items())
    return text, all(
        abs(scores[f"{what} with {kind} noise"] - value) <= 0.05
        for kind, values in said.items()
        for what, value in zip(("recall", "precision"), values, strict=True)
    )


def _images(*summaries: Json) -> Judged:
    if any("stand-in" in summary["source"] for summary in summaries):
        return "only of stand-in digits", None
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
    return "; ".join(told), all(agrees)


#: What the paper says, by the experiments that can tell.
CLAIMS: dict[tuple[str, ...], dict[str, Judge]] = {
    ("main",): {
        "DiffTS has the lowest regret on the three problems, perfect and imperfect data": _first(6),
        "about two times below the best baseline on Popular and Niche and on Maze "
        "(here: more than 1.75 times)": _plots(_far_ahead, "popular-niche", "maze"),
        "with a mixture as its prior Thompson sampling is worse than GTS-full on Popular and Niche "
        "and on Maze (perfect data, the better mixture)": _plots(
            _mixture_below_gaussian, "popular-niche", "maze"
        ),
        "on a par with GMMTS on iPinYou (here: no worse by two s.e.)": _plots(
            _no_worse(lambda line: bool(line["components"]) and not line["reference"]), "bidding"
        ),
        "from imperfect data, better than or comparable to GMMTS from perfect data": _plots(
            _no_worse(lambda line: bool(line["reference"]))
        ),
    },
    ("noise-levels",): {
        "lowest regret in 15 of the 18 plots (our goal: in all)": _first(15),
        "over all noise levels DiffTS has the smallest regret (here: on each problem, from each "
        "kind of data, every policy at its best noise level)": _over_noise_levels,
    },
    ("variance",): {
        "without calibration the regret is catastrophic (here: 1.5 times or more)": _plots(
            _beside(lambda ratio, _: ratio > 1.5, variance="plain")
        ),
        "calibrating the last step alone is nearly enough (here: within 10%)": _plots(
            _beside(lambda ratio, _: ratio < 1.1, variance="partial")
        ),
    },
    ("sampled-noise",): {
        "sampled noise is worse on Labeled Arms (by two s.e.)": _plots(
            _beside(lambda _, gap: gap > 2, sampler="paper-sampled-noise"), "labeled-arms-common"
        ),
    },
    ("incomplete-data", "noisy-incomplete-data"): {
        "EM lowers the regret in every incomplete set-up (by two s.e.)": _em,
    },
    ("noisy-data",): {
        "λ = 0.1 helps Labeled Arms (at σ̂ = 0.1) and hurts Popular and Niche (by two s.e.)": (
            _plots(_weight)
        ),
    },
    ("calibration",): {"calibration from imperfect data is within 5%": _calibration},
    ("groups",): {
        "20 Groups: recall and precision 100% with predicted noise; 85% and 98% with sampled "
        "(within 5 points)": _groups,
    },
    ("mnist", "fashion-mnist"): {
        "images from corrupted data resemble the originals (here: nearer to them than the "
        "corrupted images, in both scores)": _images,
    },
}
