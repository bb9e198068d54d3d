"""Every experiment of the paper, by name: what it asks for, and what it tells."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from diffts.errors import InvalidInputError
from diffts.reproduction import ablations, evaluation, pictures, regret
from diffts.reproduction.claims import judge_claims, tally
from diffts.reproduction.images import ImageSet, tell_images
from diffts.reproduction.pictures import Piece
from diffts.reproduction.profile import PROFILES, Profile
from diffts.reproduction.regret import Panel
from diffts.reproduction.specs import DATA
from diffts.reproduction.store import SUMMARIES_VERSION, Store, Told, write_json, write_rows
from diffts.reproduction.work import Report, Reproduction
from diffts.validation import one_of


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One of the paper's experiments: what it asks for, and what it tells of that."""

    about: str  # what it shows, in a line
    panels: Callable[[Profile], list[Panel]] | None = None  # the regret plots it consists of,
    _: dataclasses.KW_ONLY
    tell: Callable[[Reproduction, Any, Path], Told]  # rows, summary; it draws, too
    pieces: Callable[[Reproduction], list[Piece]] = lambda _: []  # or other pieces
    is_possible: Callable[[Reproduction], bool] = lambda _: True  # whether its data are there
    caveat: str = ""  # what to know before one believes its figures; in its summary, too


def _tell_claims(work: Reproduction, pieces: Any, path: Path) -> Told:
    """Comes last: it reads what the others wrote."""
    del work, pieces
    verdicts = judge_claims(path.parent)
    rows = [verdict.as_row() for verdict in verdicts]
    counts = {whose: count._asdict() for whose, count in tally(verdicts).items()}
    return rows, {"tally": counts, "claims": rows}


def _images(about: str, name: str) -> Experiment:
    def pieces(work: Reproduction) -> list[Piece]:
        return ImageSet(work, name).pieces()

    about = f"images of {about} from corrupted ones (needs --data-dir)"
    return Experiment(about, pieces=pieces, tell=tell_images, is_possible=lambda w: bool(pieces(w)))


EXPERIMENTS: dict[str, Experiment] = {
    "main": Experiment(
        "regret on the paper's three main problems: three DiffTS and the baselines",
        evaluation.main_panels,
        tell=partial(evaluation.tell, one_picture=True),
    ),
    "noise-levels": Experiment(
        "all 18 plots: four problems, both kinds of data, all assumed noise levels",
        evaluation.race_panels,
        tell=evaluation.tell,
    ),
    "same-rule": Experiment(
        "the 18 plots with our rule for everybody: what the prior alone is worth",
        evaluation.same_rule_panels,
        tell=evaluation.tell,
    ),
    "comparison": Experiment(
        "a table of 400 test tasks: every policy by both rules",
        evaluation.comparison_panels,
        tell=evaluation.tell_comparison,
    ),
    "real-slots": Experiment(
        "bidding priors learned on simulated slots, on real ones, to whose quantiles the simulator "
        "was fitted (needs --data-dir)",
        evaluation.real_slot_panels,
        tell=partial(evaluation.tell, one_picture=True),
        is_possible=lambda work: work.has_real_slots,
        caveat="The simulator that the priors learned from was fitted to quantiles of the mean "
        "prices and of the standard deviations of these same real slots: no independent test.",
    ),
    **{
        name: Experiment(one.about, one.panels, tell=ablations.tell)
        for name, one in ablations.ABLATIONS.items()
    },
    "calibration": Experiment(
        "errors calibrated from imperfect data beside those from exact data",
        pieces=pictures.calibration_pieces,
        tell=pictures.tell_calibration,
    ),
    "groups": Experiment(
        "20 Groups: completions of half-hidden tasks",
        pieces=pictures.group_pieces,
        tell=pictures.tell_groups,
    ),
    "tasks": Experiment(
        "task vectors and draws of every problem",
        pieces=pictures.task_pieces,
        tell=pictures.tell_tasks,
    ),
    "mnist": _images("digits", "mnist"),
    "fashion-mnist": _images("clothes", "fashion_mnist"),
    "claims": Experiment(
        "what the paper says, beside what the summaries in the folder say", tell=_tell_claims
    ),
}


def reproduce(
    names: Sequence[str],
    profile: str,
    folder: Path,
    data_dir: Path | None = None,
    problems: Sequence[str] = (),
    report: Report = lambda *_: None,
    *,
    finished_only: bool = False,
    seeds: int | None = None,
    data: Sequence[str] = (),
    lines: Sequence[str] = (),
    parts_only: bool = False,
) -> dict[str, str]:
    """Run experiments and write their rows, summaries and pictures.

    Args:
        names: experiments; all of them if none is named.
        profile: 'smoke' or 'paper'.
        folder: where results go; finished parts are in its subfolder ``parts``.
        data_dir: folder with real data, or None.
        problems: only make what these need, to divide the work; what others have finished before
            is written all the same.
        report: called with a line for each piece of work, the parts done and their number.
        finished_only: make nothing; write again what is finished.
        seeds: how many of the profile's seeds to take; a folder holds results of one number.
        data: only make what plots of these kinds of data need; likewise.
        lines: only make these lines of the plots, by the names that they have there; likewise.
        parts_only: make parts, and write nothing of them: several processes can make parts of one
            folder.

    Returns:
        For each experiment 'done', how much of it is, or why it was left out; nothing with
        ``parts_only``.
    """
    sizes = PROFILES[one_of("--profile", profile, PROFILES)].with_seeds(seeds)
    for name in names:
        one_of("name", name, EXPERIMENTS)
    for problem in problems:
        one_of("--problem", problem, regret.TITLES)
    for kind in data:
        one_of("--data", kind, DATA)
    narrowed = {"--problem": problems, "--data": data, "--line": lines, "--parts": parts_only}
    for option, given in narrowed.items():
        if finished_only and given:
            raise InvalidInputError(f"{option}: has no meaning with --finished, which runs nothing")
    # In the order of the registry: the claims come last.
    chosen = {name: one for name, one in EXPERIMENTS.items() if not names or name in names}
    plots = [panel for one in chosen.values() if one.panels for panel in one.panels(sizes)]
    labels = {line.label for panel in plots for line in panel.lines}
    for line in lines:
        one_of("--line", line, sorted(labels))
    if finished_only and not (folder / "parts").is_dir():
        raise InvalidInputError(f"--out: nothing is finished in {folder}")
    if data_dir is not None and not data_dir.is_dir():
        raise InvalidInputError(f"--data-dir: no folder {data_dir}")
    folder.mkdir(parents=True, exist_ok=True)
    work = Reproduction(sizes, Store(folder / "parts", sizes.as_json()), data_dir, report)
    # What belongs to no problem is made whichever are named.
    to_make = [] if finished_only else [*(problems or regret.TITLES), ""]
    wanted: dict[str, Sequence[Any]] = {
        name: one.panels(sizes) if one.panels else one.pieces(work)
        for name, one in chosen.items()
        if one.is_possible(work)
    }
    # All runs of all experiments at once: many share runs, and more go side by side.
    panels = [one for of in wanted.values() for one in of if isinstance(one, Panel)]
    runs = [
        run
        for panel in panels
        if panel.problem in to_make and (not data or panel.data in data)
        # Real slots that were played once are told without their table, and not played.
        if not panel.needs_data or work.real_slots
        for line in panel.lines
        if not lines or line.label in lines
        for run in line.runs
    ]
    work.play(runs, others=len(wanted))
    outcome = {}
    for name, experiment in chosen.items():
        if name not in wanted:
            outcome[name] = "left out: its data are not in the data folder"
            continue
        for piece in wanted[name]:
            if isinstance(piece, Piece) and piece.problem in to_make and not (data or lines):
                piece.ensure(work)
        if parts_only:
            continue
        work.report(f"{name}: writing")
        outcome[name] = _write(work, experiment, wanted[name], folder / name)
        work.done += 1
    return outcome


def _write(work: Reproduction, experiment: Experiment, wanted: Sequence[Any], path: Path) -> str:
    """Rows, summary and picture of what is finished of an experiment."""
    finished = [got for one in wanted if (got := one.finished(work))]
    if wanted and not finished:
        return "nothing of it is finished"
    data = " --data-dir DIR" if any(one.needs_data for one in finished) else ""
    notes = (note for one in finished for note in one.rests_on(work))
    rows, told = experiment.tell(work, finished, path)
    summary: dict[str, Any] = {
        "experiment": path.name,
        "version": SUMMARIES_VERSION,
        "command": f"diffts reproduce {path.name} {work.profile.command_options}{data}",
        "made_with": work.store.provenance(notes),
    }
    if wanted:
        summary |= {"plots": f"{len(finished)} of {len(wanted)}", **_lacks(work, wanted)}
        summary |= {"caveat": experiment.caveat} if experiment.caveat else {}
    write_rows(path.with_suffix(".csv"), rows)
    write_json(path.with_suffix(".json"), summary | told)
    if finished == wanted:
        return "done"
    fewer = sum(one not in wanted for one in finished)
    some = f", {fewer} without all seeds or lines yet" if fewer else ""
    return f"{summary['plots']} plots{some}"


def _lacks(work: Reproduction, wanted: Sequence[Any]) -> dict[str, list[str]]:
    """Lines that lack a run, and pieces that are missing: their names, and of which problems."""
    names, problems = set(), set()
    for one in wanted:
        if isinstance(one, Panel):
            lines = (line for line in one.lines if not all(map(work.is_played, line.runs)))
            missing = {line.label for line in lines}
        else:
            missing = set() if one.finished(work) else {one.part.key}
        if missing:
            names |= missing
            problems.add(one.problem)
    return {"lacks": sorted(names), "lacks_in": sorted(problems)}
