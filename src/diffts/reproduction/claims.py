"""The paper's claims, one by one, beside what the summaries in a folder say.

Each is judged twice: of the paper's DiffTS, which has nothing of ours, and of ours by the default
rule. From imperfect data the paper has no mixtures, so ours do not race here.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from diffts.errors import ArtifactError
from diffts.reproduction import ablations
from diffts.reproduction.evaluation import OWN, THE_PAPERS
from diffts.reproduction.regret import TITLES
from diffts.reproduction.specs import APPENDIX, NO_EM
from diffts.reproduction.store import SUMMARIES_VERSION, read_json

Json = dict[str, Any]


class Judged(NamedTuple):
    """What was measured, in words, and whether it agrees; None where nothing can be said."""

    measured: str
    agrees: bool | None


#: Of summaries, or of one plot; a plot can be passed over.
Judge = Callable[..., Judged]
PlotJudge = Callable[[Json], Judged | None]


class Claim(NamedTuple):
    """What the paper says, the experiments that can tell, and who judges.

    A text in the place of a judge says why nothing is measured of that DiffTS.
    """

    says: str
    experiments: Sequence[str]
    of_the_papers: Judge | str
    of_ours: Judge | str


class Verdict(NamedTuple):
    """A claim, judged of the paper's DiffTS and of ours."""

    claim: str
    of_the_papers: Judged
    of_ours: Judged

    def as_row(self) -> dict[str, Any]:
        """Flat, for a table."""
        row: dict[str, Any] = {"claim": self.claim}
        for whose, judged in zip(WHOSE, self[1:], strict=True):
            row |= {f"{whose}: {name}": value for name, value in judged._asdict().items()}
        return row


#: The two columns.
WHOSE = ("DiffTS (paper)", "DiffTS, default rule")


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


def tally(verdicts: Sequence[Verdict]) -> dict[str, Tally]:
    """Count the verdicts, of the paper's DiffTS and of ours."""
    columns = ([v.of_the_papers for v in verdicts], [v.of_ours for v in verdicts])
    counts = [Counter(judged.agrees for judged in column) for column in columns]
    tallies = (Tally(of[True], of[False], of[None]) for of in counts)
    return dict(zip(WHOSE, tallies, strict=True))


def judge_claims(folder: Path) -> list[Verdict]:
    """All claims, judged by the JSON summaries in a folder; none before all its plots are there."""
    return [
        Verdict(claim.says, *(_judge(folder, claim.experiments, judge) for judge in claim[2:]))
        for claim in CLAIMS
    ]


def _judge(folder: Path, experiments: Sequence[str], judge: Judge | str) -> Judged:
    if isinstance(judge, str):
        return Judged(judge, None)
    if missing := [name for name in experiments if not (folder / f"{name}.json").exists()]:
        return Judged(f"not run: {', '.join(missing)}", None)
    summaries = [read_json(folder / f"{name}.json") for name in experiments]
    if any(summary.get("version") != SUMMARIES_VERSION for summary in summaries):
        raise ArtifactError(
            f"{folder}: {', '.join(experiments)} written by another diffts; write it again with "
            "--finished, or remove it"
        )
    measured, agrees = judge(*summaries)
    if all(summary.get("complete", True) for summary in summaries):
        return Judged(measured, agrees)
    return Judged(f"so far: {measured or 'nothing'}", None)


# --- judges: of a summary, made from judges of a plot --------------------------------------------


def _of_races(judge: Judge, whose: str) -> Judge:
    """A judge of races, told of those with one of the two DiffTS and the paper's baselines."""

    def judge_one(summary: Json) -> Judged:
        panels = summary["panels_of"][whose] if whose == THE_PAPERS else summary["panels"]
        return judge(summary | {"panels": [_as_in_the_paper(panel) for panel in panels]})

    return judge_one


def _as_in_the_paper(panel: Json) -> Json:
    """A plot without our mixtures from imperfect data; references stay."""

    def is_ours(line: Json) -> bool:
        return panel["data"] != "perfect" and bool(line["components"]) and not line["reference"]

    lines = {name: line for name, line in panel["lines"].items() if not is_ours(line)}
    ranking = [name for name in panel["ranking"] if name in lines]
    return panel | {"lines": lines, "ranking": ranking, "best": ranking[0]}


def _plots(judge: PlotJudge, *problems: str) -> Judge:
    """All plots of a summary, or of some problems, one by one; a judge may pass over a plot."""

    def judge_all(summary: Json) -> Judged:
        panels = summary["panels"]
        if problems:
            panels = [p for problem in problems for p in panels if p["problem"] == problem]
        found = [(p["title"], *judged) for p in panels if (judged := judge(p))]
        verdicts = [agrees for *_, agrees in found if agrees is not None]
        text = "; ".join(f"{title}: {measured}" for title, measured, _ in found)
        return Judged(text, all(verdicts) if verdicts else None)

    return judge_all


def _best(panel: Json, suits: Callable[[Json], bool]) -> str | None:
    """The label of the lowest of the lines that suit."""
    labels = [label for label, line in panel["lines"].items() if suits(line)]
    return min(labels, key=lambda label: panel["lines"][label]["regret"], default=None)


def _lead(panel: Json, other: str) -> str:
    """DiffTS beside another line, with the standard error of the gap, by task and by seed."""
    line = panel["lines"][other]
    gap = f"gap {line['above_first_line']:.1f} ± {line['stderr_of_that']:.1f}"
    return f"{panel['lines'][OWN]['regret']:.1f}, {other} {line['regret']:.1f} ({gap})"


def _first(least: int) -> Judge:
    """DiffTS is first in at least so many plots."""

    def judge(summary: Json) -> Judged:
        behind = [panel for panel in summary["panels"] if panel["best"] != OWN]
        firsts = len(summary["panels"]) - len(behind)
        text = f"first in {firsts} of {len(summary['panels'])}"
        if behind:
            leads = "; ".join(f"{p['title']}: {_lead(p, p['best'])}" for p in behind)
            text += f"; not in {leads}"
        return Judged(text, firsts >= least)

    return judge


def _far_ahead(panel: Json) -> Judged:
    other = next(name for name in panel["ranking"] if name != OWN)
    ratio = panel["lines"][other]["regret"] / panel["lines"][OWN]["regret"]
    return Judged(f"{ratio:.2f} times", ratio > 1.75)


def _no_worse(suits: Callable[[Json], bool]) -> PlotJudge:
    """DiffTS is no worse, by two standard errors, than the best line that suits."""

    def judge(panel: Json) -> Judged | None:
        if (best := _best(panel, suits)) is None:
            return None
        line = panel["lines"][best]
        return Judged(_lead(panel, best), line["above_first_line"] > -2 * line["stderr_of_that"])

    return judge


def _mixture_below_gaussian(panel: Json) -> Judged | None:
    """The paper shows the better one of its mixtures, and has none from imperfect data."""
    mixture = _best(panel, lambda line: bool(line["components"]))
    if panel["data"] != "perfect" or mixture is None:
        return None
    first, second = (panel["lines"][label]["regret"] for label in (mixture, "gts-full"))
    return Judged(f"{mixture} {first:.1f}, gts-full {second:.1f}", first > second)


def _over_noise_levels(summary: Json) -> Judged:
    """Each policy at its best noise level, for each problem and kind of data."""
    races = defaultdict(list)
    for panel in summary["panels"]:
        title = f"{TITLES.get(panel['problem'], panel['problem'])}, {panel['data']} data"
        for label in panel["ranking"]:
            races[title].append((panel["lines"][label]["regret"], label, panel["noise_std"]))
    told, agrees = [], []
    for title, lines in races.items():
        best = min(line for line in lines if line[1] == OWN)
        other = min(line for line in lines if line[1] != OWN)
        agrees.append(best < other)
        ours = f"{best[0]:.1f} (σ̂ = {best[2]:g})"
        told.append(f"{title}: {ours}, {other[1]} {other[0]:.1f} (σ̂ = {other[2]:g})")
    count = f"smallest in {sum(agrees)} of {len(agrees)}"
    return Judged(f"{count}. {'; '.join(told)}", all(agrees) if agrees else None)


def _beside(agrees: Callable[[float, float], bool], **field: Any) -> PlotJudge:
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


def _em(incomplete: Json, noisy: Json) -> Judged:
    judge = _plots(_beside(lambda _, gap: gap > 2, learner=NO_EM))
    (first, helps), (second, helps_too) = judge(incomplete), judge(noisy)
    text = f"without EM against with it: {first}. With noise, too: {second}"
    both = None if helps is None or helps_too is None else helps and helps_too
    return Judged(text, both)


def _weight(panel: Json) -> Judged:
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


def _calibration(summary: Json) -> Judged:
    rows = [row for row in summary["relative error of τ"] if row["learner"] == APPENDIX]
    text = "; ".join(
        f"{TITLES[row['problem']]}: {row['error']:.1%}, first ten steps "
        f"{row['error_first_ten']:.1%}"
        for row in rows
    )
    return Judged(text, all(row["error"] <= 0.05 for row in rows) if rows else None)


def _groups(summary: Json) -> Judged:
    """Within five percentage points of each of the four numbers."""
    scores, said = summary["scores"], {"predicted": (1.0, 1.0), "sampled": (0.85, 0.98)}
    text = "; ".join(f"{name} {value:.1%}" for name, value in scores.items())
    near = [
        abs(scores[f"{what} with {kind} noise"] - value) <= 0.05
        for kind, values in said.items()
        for what, value in zip(("recall", "precision"), values, strict=True)
    ]
    return Judged(text, all(near))


def _images(*summaries: Json) -> Judged:
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
    return Judged("; ".join(told), all(agrees))


def _race(says: str, experiment: str, judge: Judge) -> Claim:
    """A claim on races, which both have run."""
    return Claim(says, (experiment,), _of_races(judge, THE_PAPERS), _of_races(judge, ""))


_NO_CHAIN = "does not apply: it decides without a chain"
_NO_SURE_TERM = "does not apply: it has no such term"

#: What the paper says.
CLAIMS = (
    _race(
        "DiffTS has the lowest regret on the three problems, perfect and imperfect data",
        "main",
        _first(6),
    ),
    _race(
        "about two times below the best baseline on Popular and Niche and on Maze "
        "(here: more than 1.75 times)",
        "main",
        _plots(_far_ahead, "popular-niche", "maze"),
    ),
    _race(
        "with a mixture as its prior Thompson sampling is worse than GTS-full on Popular and Niche "
        "and on Maze (perfect data, the better mixture)",
        "main",
        _plots(_mixture_below_gaussian, "popular-niche", "maze"),
    ),
    _race(
        "on a par with GMMTS on iPinYou (here: no worse by two s.e., perfect data)",
        "main",
        _plots(
            _no_worse(lambda line: bool(line["components"]) and not line["reference"]), "bidding"
        ),
    ),
    _race(
        "from imperfect data, better than or comparable to GMMTS from perfect data",
        "main",
        _plots(_no_worse(lambda line: bool(line["reference"]))),
    ),
    _race("lowest regret in 15 of the 18 plots (our goal: in all)", "noise-levels", _first(15)),
    _race(
        "over all noise levels DiffTS has the smallest regret (here: on each problem, from each "
        "kind of data, every policy at its best noise level)",
        "noise-levels",
        _over_noise_levels,
    ),
    Claim(
        "without calibration the regret is catastrophic (here: 1.5 times or more)",
        ("variance",),
        _plots(_beside(lambda ratio, _: ratio > 1.5, variance="plain")),
        _NO_CHAIN,
    ),
    Claim(
        "calibrating the last step alone is nearly enough (here: within 10%)",
        ("variance",),
        _plots(_beside(lambda ratio, _: ratio < 1.1, variance="partial")),
        _NO_CHAIN,
    ),
    Claim(
        "sampled noise is worse on Labeled Arms (by two s.e.)",
        ("sampled-noise",),
        _plots(
            _beside(lambda _, gap: gap > 2, sampler="paper-sampled-noise"),
            "labeled-arms",
            "labeled-arms-common",
        ),
        _NO_CHAIN,
    ),
    Claim(
        "EM lowers the regret in every incomplete set-up (by two s.e.)",
        ("incomplete-data", "noisy-incomplete-data"),
        _em,
        "not run: it has not been learned without EM",
    ),
    Claim(
        "λ = 0.1 helps Labeled Arms (at σ̂ = 0.1) and hurts Popular and Niche (by two s.e.)",
        ("noisy-data",),
        _plots(_weight),
        _NO_SURE_TERM,
    ),
    Claim(
        "calibration from imperfect data is within 5%",
        ("calibration",),
        _calibration,
        "does not apply: its sampler does not read τ",
    ),
    Claim(
        "20 Groups: recall and precision 100% with predicted noise; 85% and 98% with sampled "
        "(within 5 points)",
        ("groups",),
        _groups,
        _NO_CHAIN,
    ),
    Claim(
        "images from corrupted data resemble the originals (here: nearer to them than the "
        "corrupted images, in both scores; with a smaller U-Net than the paper's)",
        ("mnist", "fashion-mnist"),
        _images,
        "does not apply: its network is for arms",
    ),
)
