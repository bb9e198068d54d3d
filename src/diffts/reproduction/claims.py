"""The paper's claims, one by one, beside what the summaries in a folder say.

Each is judged twice: of the paper's DiffTS, which has nothing of ours, and of ours by the default
rule. From imperfect data the paper has no mixtures, so ours do not race here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from diffts.errors import ArtifactError
from diffts.reproduction import ablations, judges
from diffts.reproduction.evaluation import OURS, SPARE, THE_PAPERS
from diffts.reproduction.store import SUMMARIES_VERSION, read_json


class Claim(NamedTuple):
    """What the paper says, the experiments that can tell, and who judges.

    A text in the place of a judge says why nothing is measured of that DiffTS.
    """

    says: str
    experiments: Sequence[str]
    of_the_papers: judges.Judge | str
    of_ours: judges.Judge | str
    of_baselines: bool = False  # alone: both columns say the same


class Verdict(NamedTuple):
    """A claim, judged of the paper's DiffTS and of ours."""

    claim: str
    of_the_papers: judges.Judged
    of_ours: judges.Judged

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
    """All claims, judged by the JSON summaries in a folder.

    What refutes a claim refutes it, whatever is missing. It is confirmed when all that it needs is
    there. Plots are told with ours, and without the other two: so ours is judged before them.
    """
    verdicts = []
    for claim in CLAIMS:
        spare = {*SPARE}
        of_ours = _judge(folder, claim.experiments, claim.of_ours, spare)
        if not claim.of_baselines:
            spare -= {THE_PAPERS}
        of_the_papers = _judge(folder, claim.experiments, claim.of_the_papers, spare)
        verdicts.append(Verdict(claim.says, of_the_papers, of_ours))
    return verdicts


def _judge(
    folder: Path, experiments: Sequence[str], judge: judges.Judge | str, spare: set[str]
) -> judges.Judged:
    """By a judge, or by a text that says why there is none; ``spare`` lines may be missing."""
    if isinstance(judge, str):
        return judges.Judged(judge, None)
    if missing := [name for name in experiments if not (folder / f"{name}.json").exists()]:
        return judges.Judged(f"not run: {', '.join(missing)}", None)
    summaries = [read_json(folder / f"{name}.json") for name in experiments]
    if any(summary.get("version") != SUMMARIES_VERSION for summary in summaries):
        raise ArtifactError(
            f"{folder}: {', '.join(experiments)} written by another diffts; write it again with "
            "--finished, or remove it"
        )
    judged = judge(*summaries)
    if judged.agrees is False or all(_is_whole(summary, spare) for summary in summaries):
        return judged
    return judged._replace(measured=f"so far: {judged.measured or 'nothing'}", agrees=None)


def _is_whole(summary: dict[str, Any], spare: set[str]) -> bool:
    """Whether nothing is missing but what does not count: spare lines, and variants of problems."""
    return {*summary["lacks"]} <= spare or {*summary["lacks_in"]} <= {*ablations.VARIANTS}


def _race(says: str, experiment: str, judge: judges.Judge) -> Claim:
    """A claim on races, which both have run."""
    of_the_papers, of_ours = (judges.of_races(judge, whose) for whose in (THE_PAPERS, OURS))
    return Claim(says, (experiment,), of_the_papers, of_ours)


def _race_of_baselines(says: str, experiment: str, judge: judges.Judge) -> Claim:
    """A claim on baselines alone."""
    of_both = judges.of_races(judge, OURS)
    return Claim(says, (experiment,), of_both, of_both, of_baselines=True)


_NO_CHAIN = "does not apply: it decides without a chain"
_NO_SURE_TERM = "does not apply: it has no such term"

#: What the paper says.
CLAIMS = (
    _race(
        "DiffTS has the lowest regret on the three problems, perfect and imperfect data",
        "main",
        judges.first(6, of=6),
    ),
    _race(
        "about two times below the best baseline on Popular and Niche and on Maze "
        "(here: more than 1.75 times)",
        "main",
        judges.plots(judges.far_ahead, "popular-niche", "maze"),
    ),
    _race_of_baselines(
        "with a mixture as its prior Thompson sampling is worse than GTS-full on Popular and Niche "
        "and on Maze (perfect data, the better mixture)",
        "main",
        judges.plots(judges.mixture_below_gaussian, "popular-niche", "maze"),
    ),
    _race(
        "on a par with GMMTS on iPinYou (here: no worse by two s.e., perfect data)",
        "main",
        judges.plots(
            judges.no_worse(lambda line: bool(line["components"]) and not line["reference"]),
            "bidding",
        ),
    ),
    _race(
        "from imperfect data, better than or comparable to GMMTS from perfect data",
        "main",
        judges.plots(judges.no_worse(lambda line: bool(line["reference"]))),
    ),
    _race(
        "lowest regret in 15 of the 18 plots (our goal: in all)",
        "noise-levels",
        judges.first(15, of=18),
    ),
    _race(
        "over all noise levels DiffTS has the smallest regret (here: on each problem, from each "
        "kind of data, every policy at its best noise level)",
        "noise-levels",
        judges.over_noise_levels,
    ),
    Claim(
        "without calibration the regret is catastrophic (here: 1.5 times or more)",
        ("variance",),
        judges.plots(judges.beside(lambda ratio, _: ratio > 1.5, variance="plain")),
        _NO_CHAIN,
    ),
    Claim(
        "calibrating the last step alone is nearly enough (here: within 10%)",
        ("variance",),
        judges.plots(judges.beside(lambda ratio, _: ratio < 1.1, variance="partial")),
        _NO_CHAIN,
    ),
    Claim(
        "sampled noise is worse on Labeled Arms (by two s.e.)",
        ("sampled-noise",),
        judges.plots(
            judges.beside(lambda _, gap: gap > 2, sampler="paper-sampled-noise"),
            "labeled-arms",
            "labeled-arms-common",
        ),
        _NO_CHAIN,
    ),
    Claim(
        "EM lowers the regret in every incomplete set-up (by two s.e.)",
        ("incomplete-data", "noisy-incomplete-data"),
        judges.em,
        "not run: it has not been learned without EM",
    ),
    Claim(
        "λ = 0.1 helps Labeled Arms (at σ̂ = 0.1) and hurts Popular and Niche (by two s.e.)",
        ("noisy-data",),
        judges.plots(judges.weight),
        _NO_SURE_TERM,
    ),
    Claim(
        "calibration from imperfect data is within 5%",
        ("calibration",),
        judges.calibration,
        "does not apply: its sampler does not read τ",
    ),
    Claim(
        "20 Groups: recall and precision 100% with predicted noise; 85% and 98% with sampled "
        "(within 5 points)",
        ("groups",),
        judges.groups,
        _NO_CHAIN,
    ),
    Claim(
        "images from corrupted data resemble the originals (here: nearer to them than the "
        "corrupted images, in both scores; with a smaller U-Net than the paper's)",
        ("mnist", "fashion-mnist"),
        judges.images,
        "does not apply: its network is for arms",
    ),
)
