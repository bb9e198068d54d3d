"""The paper's claims, one by one, beside what the summaries in a folder say."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from diffts.experiments.reproduce.regret import TITLES
from diffts.experiments.reproduce.store import read_json

Summaries = dict[str, dict[str, Any]]


#: Plots or rows of each experiment with all its problems; with fewer, nothing is decided yet.
FULL = {
    "main": 6,
    "noise-levels": 18,
    "variance": 4,
    "sampled-noise": 4,
    "noisy-data": 4,
    "incomplete-data": 4,
    "noisy-incomplete-data": 4,
    "calibration": 8,
}


class Verdict(NamedTuple):
    """A claim, what was measured, and whether they agree; None where nothing was measured."""

    claim: str
    measured: str
    agrees: bool | None


class Claim(NamedTuple):
    """What the paper says, the experiments that can tell, and how they do."""

    says: str
    experiments: tuple[str, ...]
    judge: Callable[[Summaries], tuple[str, bool | None]]


def judge_claims(folder: Path) -> list[Verdict]:
    """All claims, judged by the JSON summaries in a folder."""
    summaries = {
        path.stem: read_json(path)
        for path in sorted(folder.glob("*.json"))
        if path.stem != "claims"
    }
    verdicts = []
    for claim in CLAIMS:
        missing = [name for name in claim.experiments if name not in summaries]
        if missing:
            verdicts.append(Verdict(claim.says, f"not run: {', '.join(missing)}", None))
            continue
        whole = all(
            len(_entries(summaries[name])) >= FULL.get(name, 0)
            and summaries[name].get("complete", True)
            for name in claim.experiments
        )
        measured, agrees = claim.judge(summaries)
        if whole:
            verdicts.append(Verdict(claim.says, measured, agrees))
        else:
            verdicts.append(Verdict(claim.says, f"so far: {measured or 'nothing'}", None))
    return verdicts


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
        text = f"{self.agree} of {sum(self)} claims agree, {_do_not(self.disagree)}"
        if self.undecided:
            text += f", {self.undecided} {'is' if self.undecided == 1 else 'are'} not decided"
        return f"{text}."


def _do_not(number: int) -> str:
    return f"{number} {'does' if number == 1 else 'do'} not"


def tally(verdicts: Sequence[Verdict]) -> Tally:
    """Count the verdicts."""
    counts = Counter(verdict.agrees for verdict in verdicts)
    return Tally(counts[True], counts[False], counts[None])


def _entries(summary: dict[str, Any]) -> list[Any]:
    """What a summary consists of: plots, or rows about τ."""
    return list(summary.get("panels") or summary.get("relative error of τ") or [])


def _panels(summary: dict[str, Any], problem: str | None = None) -> Iterator[dict[str, Any]]:
    for panel in summary["panels"]:
        if problem is None or panel["problem"] == problem:
            yield panel


def _regret(panel: dict[str, Any], label: str) -> float:
    return float(panel["lines"][label]["regret"])


def _best_other(panel: dict[str, Any]) -> str:
    """The best policy of a race, DiffTS left out."""
    return next(label for label in panel["ranking"] if label != "diffts")


def _lead(panel: dict[str, Any], other: str) -> str:
    """DiffTS beside another line, with the standard error of the gap, by task and by seed."""
    line = panel["lines"][other]
    error = line["stderr_of_that"]
    return (
        f"{panel['title']}: {_regret(panel, 'diffts'):.1f}, {other} {line['regret']:.1f} "
        f"(gap {line['above_first_line']:.1f} ± {error:.1f})"
    )


def _first(name: str, least: int) -> Callable[[Summaries], tuple[str, bool | None]]:
    """DiffTS is first in at least so many plots."""

    def judge(summaries: Summaries) -> tuple[str, bool | None]:
        panels = list(_panels(summaries[name]))
        firsts = [panel for panel in panels if panel["best"] == "diffts"]
        text = f"first in {len(firsts)} of {len(panels)}"
        others = [panel for panel in panels if panel["best"] != "diffts"]
        if others:
            text += "; not in " + "; ".join(_lead(panel, panel["best"]) for panel in others)
        return text, len(firsts) >= least

    return judge


def _twice(summaries: Summaries) -> tuple[str, bool | None]:
    ratios = {
        panel["title"]: _regret(panel, _best_other(panel)) / _regret(panel, "diffts")
        for problem in ("popular-niche", "maze")
        for panel in _panels(summaries["main"], problem)
    }
    text = "; ".join(f"{title}: {ratio:.2f} times" for title, ratio in ratios.items())
    return text, min(ratios.values()) > 1.75 if ratios else None


def _no_worse(
    panels: Iterator[dict[str, Any]], suits: Callable[[str], bool], racing: bool
) -> tuple[str, bool | None]:
    """Whether DiffTS is no worse, by two standard errors, than the best line that suits."""
    told, agrees = [], True
    for panel in panels:
        labels = [n for n in (panel["ranking"] if racing else panel["lines"]) if suits(n)]
        if labels:
            best = min(labels, key=lambda label: _regret(panel, label))
            line = panel["lines"][best]
            told.append(_lead(panel, best))
            agrees &= line["above_first_line"] > -2 * line["stderr_of_that"]
    return "; ".join(told), bool(agrees) if told else None


def _bidding(summaries: Summaries) -> tuple[str, bool | None]:
    panels = _panels(summaries["main"], "bidding")
    return _no_worse(panels, lambda label: label.startswith("gmmts"), racing=True)


def _mixture_below_gaussian(summaries: Summaries) -> tuple[str, bool | None]:
    """The paper shows the better one of its mixtures, and has none from imperfect data."""
    told, agrees = [], []
    for problem in ("popular-niche", "maze"):
        for panel in _panels(summaries["main"], problem):
            mixtures = [label for label in panel["ranking"] if label.startswith("gmmts")]
            if "imperfect" in panel["title"] or not mixtures:
                continue
            gaussian, mixture = _regret(panel, "gts-full"), _regret(panel, mixtures[0])
            told.append(f"{panel['title']}: {mixtures[0]} {mixture:.1f}, gts-full {gaussian:.1f}")
            agrees.append(mixture > gaussian)
    return "; ".join(told), all(agrees) if agrees else None


def _over_noise_levels(summaries: Summaries) -> tuple[str, bool | None]:
    """Each policy at its best noise level, for each problem and kind of data."""
    races = defaultdict(list)
    for panel in _panels(summaries["noise-levels"]):
        title, level = panel["title"].rsplit(", ", 1)
        for label in panel["ranking"]:
            races[title].append((_regret(panel, label), label, level))
    told, agrees = [], []
    for title, lines in races.items():
        best = min(line for line in lines if line[1] == "diffts")
        other = min(line for line in lines if line[1] != "diffts")
        agrees.append(best < other)
        told.append(f"{title}: {best[0]:.1f} ({best[2]}), {other[1]} {other[0]:.1f} ({other[2]})")
    count = f"smallest in {sum(agrees)} of {len(agrees)}"
    return f"{count}. {'; '.join(told)}", all(agrees) if agrees else None


def _against_perfect_mixtures(summaries: Summaries) -> tuple[str, bool | None]:
    panels = _panels(summaries["main"])
    return _no_worse(panels, lambda label: label.endswith("(perfect data)"), racing=False)


def _beside(
    summary: dict[str, Any], label: str, of: str, problem: str | None = None
) -> tuple[str, list[float], list[float]]:
    """``label`` beside ``of``, the first line: in words, as ratios, and the gaps in s.e."""
    texts, ratios, gaps = [], [], []
    for panel in _panels(summary, problem):
        a, b = _regret(panel, label), _regret(panel, of)
        line = panel["lines"][label]
        texts.append(f"{panel['title']}: {a:.1f} against {b:.1f}")
        ratios.append(a / b)
        gap, error = line["above_first_line"], line["stderr_of_that"]
        # Equal lines have no error, and no gap.
        gaps.append(gap / error if error else math.copysign(math.inf, gap) if gap else 0.0)
    return "; ".join(texts), ratios, gaps


def _uncalibrated(summaries: Summaries) -> tuple[str, bool | None]:
    text, ratios, _ = _beside(summaries["variance"], "not calibrated", "calibrated")
    return text, min(ratios) > 1.5 if ratios else None


def _partly(summaries: Summaries) -> tuple[str, bool | None]:
    text, ratios, _ = _beside(summaries["variance"], "partly calibrated", "calibrated")
    return text, max(ratios) < 1.1 if ratios else None


def _sampled(summaries: Summaries) -> tuple[str, bool | None]:
    text, _, gaps = _beside(
        summaries["sampled-noise"], "sampled noise", "predicted noise", "labeled-arms-common"
    )
    return text, min(gaps) > 2 if gaps else None


def _em(summaries: Summaries) -> tuple[str, bool | None]:
    first, _, a = _beside(summaries["incomplete-data"], "without EM", "with EM")
    second, _, b = _beside(summaries["noisy-incomplete-data"], "SURE, no EM", "EM and SURE")
    text = f"without EM against with it: {first}. With noise, too: {second}"
    return text, min(a + b) > 2 if a and b else None


def _weight(summaries: Summaries) -> tuple[str, bool | None]:
    """By the paper's λ = 0.1, at two standard errors; the others are told."""
    told, agrees = [], []
    for panel in _panels(summaries["noisy-data"]):
        line = panel["lines"]["λ = 0.1"]
        others = ", ".join(
            f"{label} {_regret(panel, label):.1f}" for label in panel["lines"] if label[0] == "λ"
        )
        gap, error = line["above_first_line"], line["stderr_of_that"]
        told.append(f"{panel['title']}: {others} (λ = 0.1 adds {gap:.1f} ± {error:.1f})")
        if panel["problem"] == "popular-niche":
            agrees.append(gap > 2 * error)
        elif "0.05" not in panel["title"]:
            agrees.append(gap < -2 * error)
    return "; ".join(told), all(agrees) if agrees else None


def _calibration(summaries: Summaries) -> tuple[str, bool | None]:
    rows = summaries["calibration"]["relative error of τ"]
    text = "; ".join(
        f"{TITLES[row['problem']]} ({row['learner']}): {row['error']:.1%}, first ten steps "
        f"{row['error_first_ten']:.1%}"
        for row in rows
    )
    return text, all(row["error"] <= 0.05 for row in rows) if rows else None


def _groups(summaries: Summaries) -> tuple[str, bool | None]:
    """Within five percentage points of each of the four numbers."""
    scores = summaries["groups"]["scores"]
    text = "; ".join(f"{name} {value:.1%}" for name, value in scores.items())
    said = {"predicted": (1.0, 1.0), "sampled": (0.85, 0.98)}
    return text, all(
        abs(scores[f"{what} with {kind} noise"] - value) <= 0.05
        for kind, values in said.items()
        for what, value in zip(("recall", "precision"), values, strict=True)
    )


def _images(summaries: Summaries) -> tuple[str, bool | None]:
    if any("stand-in" in summaries[name]["source"] for name in ("mnist", "fashion-mnist")):
        return "only of stand-in digits", None
    told, agrees = [], True
    for name in ("mnist", "fashion-mnist"):
        scores = summaries[name]["scores"]
        clean, learned = scores["clean"], scores["corrupted"]
        spoilt = scores["corrupted images"]
        told.append(
            f"{name}: Fréchet distance {learned['Fréchet distance']:.2f} (clean-trained "
            f"{clean['Fréchet distance']:.2f}, corrupted images {spoilt['Fréchet distance']:.2f}), "
            f"hidden-pixel RMSE {learned['hidden-pixel RMSE']:.3f} (clean-trained "
            f"{clean['hidden-pixel RMSE']:.3f}, filled with means "
            f"{spoilt['hidden-pixel RMSE']:.3f})"
        )
        agrees &= learned["Fréchet distance"] < spoilt["Fréchet distance"]
        agrees &= learned["hidden-pixel RMSE"] < spoilt["hidden-pixel RMSE"]
    return "; ".join(told), bool(agrees)


CLAIMS = (
    Claim(
        "DiffTS has the lowest regret on the three problems, perfect and imperfect data",
        ("main",),
        _first("main", 6),
    ),
    Claim(
        "about two times below the best baseline on Popular and Niche and on Maze "
        "(here: more than 1.75 times)",
        ("main",),
        _twice,
    ),
    Claim(
        "with a mixture as its prior Thompson sampling is worse than GTS-full on Popular and Niche "
        "and on Maze (perfect data, the better mixture)",
        ("main",),
        _mixture_below_gaussian,
    ),
    Claim("on a par with GMMTS on iPinYou (here: no worse by two s.e.)", ("main",), _bidding),
    Claim(
        "from imperfect data, better than or comparable to GMMTS from perfect data",
        ("main",),
        _against_perfect_mixtures,
    ),
    Claim(
        "lowest regret in 15 of the 18 plots (our goal: in all)",
        ("noise-levels",),
        _first("noise-levels", 15),
    ),
    Claim(
        "over all noise levels DiffTS has the smallest regret (here: on each problem, from each "
        "kind of data, every policy at its best noise level)",
        ("noise-levels",),
        _over_noise_levels,
    ),
    Claim(
        "without calibration the regret is catastrophic (here: 1.5 times or more)",
        ("variance",),
        _uncalibrated,
    ),
    Claim(
        "calibrating the last step alone is nearly enough (here: within 10%)",
        ("variance",),
        _partly,
    ),
    Claim("sampled noise is worse on Labeled Arms (by two s.e.)", ("sampled-noise",), _sampled),
    Claim(
        "EM lowers the regret in every incomplete set-up (by two s.e.)",
        ("incomplete-data", "noisy-incomplete-data"),
        _em,
    ),
    Claim(
        "λ = 0.1 helps Labeled Arms (at σ̂ = 0.1) and hurts Popular and Niche (by two s.e.)",
        ("noisy-data",),
        _weight,
    ),
    Claim("calibration from imperfect data is within 5%", ("calibration",), _calibration),
    Claim(
        "20 Groups: recall and precision 100% with predicted noise; 85% and 98% with sampled "
        "(within 5 points)",
        ("groups",),
        _groups,
    ),
    Claim(
        "images from corrupted data resemble the originals (here: nearer to them than the "
        "corrupted images, in both scores)",
        ("mnist", "fashion-mnist"),
        _images,
    ),
)
