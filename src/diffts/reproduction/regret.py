"""What all experiments that compare regrets share: panels and lines, their rows and summaries.

A panel is one plot, a line one of its curves; both say in fields what they are of.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffts.experiments.compare import standard_error
from diffts.figures.regret_grid import GridCurve, GridPanel
from diffts.reproduction.packing import unpacked
from diffts.reproduction.specs import FRESH, MANY, REAL, Run, sure_of
from diffts.reproduction.store import Store
from diffts.reproduction.work import Reproduction

TITLES = {
    "popular-niche": "Popular and Niche",
    "labeled-arms": "Labeled Arms",
    "labeled-arms-common": "Labeled Arms (common scale)",
    "bidding": "Bidding (simulated slots)",
    "maze": "2D Maze",
}
#: Kinds of data as pictures and pages say it.
KINDS = {"perfect": "exact"} | {one: one for one in ("imperfect", "noisy", "incomplete")}
MIXTURES = ("gmmts-10", "gmmts-25")


@dataclasses.dataclass(frozen=True)
class Line:
    """One curve of a panel."""

    label: str  # as in the legend: a policy's name, or what is varied
    runs: tuple[Run, ...]  # the same run with different seeds, of the training and of the rewards
    reference: bool = False  # shown, but not in the race: it was given more than the others
    spare: bool = False  # what the others show holds without it: a plot can be told without it


@dataclasses.dataclass(frozen=True)
class Panel:
    """One plot: of which problem, with priors from which data, at which assumed noise."""

    title: str
    problem: str
    data: str
    noise_std: float
    lines: tuple[Line, ...]

    @property
    def runs(self) -> list[Run]:
        """All that its lines need."""
        return [run for line in self.lines for run in line.runs]

    @property
    def needs_data(self) -> bool:
        """Whether it is about the user's own data."""
        return any(run.tasks == REAL for run in self.runs)

    def rests_on(self, work: Reproduction) -> list[str]:
        """Notes of all that it took."""
        return [key for run in self.runs for key in work.rests_on(run)]

    def finished(self, work: Reproduction) -> Panel | None:
        """With the seeds that all lines that it needs were played with; None if there is none.

        A spare line is there when it has all of these seeds; one line, at least, is not spare.
        """
        played = {
            line: {run.seed for run in line.runs if work.is_played(run)} for line in self.lines
        }
        seeds = set.intersection(*(of for line, of in played.items() if not line.spare))
        lines = tuple(
            dataclasses.replace(line, runs=tuple(run for run in line.runs if run.seed in seeds))
            for line, of in played.items()
            if seeds <= of
        )
        return dataclasses.replace(self, lines=lines) if seeds else None


# --- what is told --------------------------------------------------------------------------------


class Curve(NamedTuple):
    """Regret of a line: over the recorded rounds, and of each task at the end.

    The standard error is that of the mean over tasks (each averaged over seeds), and of the mean
    over seeds, added in squares.
    """

    rounds: NDArray[np.int64]  # (R,)
    mean: NDArray[np.float64]  # over tasks and seeds (R,)
    stderr: NDArray[np.float64]  # of that (R,)
    final: NDArray[np.float64]  # (seeds, tasks)


def curve(store: Store, runs: Sequence[Run]) -> Curve:
    """Put together what was recorded of a line's runs."""
    loaded = [store.arrays(run.key) for run in runs]
    regret = np.stack([unpacked(arrays["regret"]) for arrays in loaded])  # (S, R, N)
    stderr = standard_error(regret.swapaxes(1, 2))
    return Curve(loaded[0]["rounds"], regret.mean((0, 2)), stderr, regret[:, -1])


def curves(store: Store, panel: Panel) -> dict[str, Curve]:
    """What the lines of a panel did."""
    return {line.label: curve(store, line.runs) for line in panel.lines}


def rows(panels: Sequence[Panel], of: Sequence[dict[str, Curve]]) -> list[dict[str, Any]]:
    """One for each line and recorded round, over seeds and tasks."""
    return [
        {"problem": panel.problem, "data": panel.data, "noise_std": panel.noise_std}
        | {"policy": label, "round": int(done), "regret": round(float(mean), 3)}
        | {"stderr": round(float(error), 3)}
        for panel, known in zip(panels, of, strict=True)
        for label, one in known.items()
        for done, mean, error in zip(one.rounds, one.mean, one.stderr, strict=True)
    ]


def grid_panel(panel: Panel, of: dict[str, Curve]) -> GridPanel:
    """As it is drawn."""
    drawn = [GridCurve(line.label, *of[line.label][:3], line.reference) for line in panel.lines]
    return GridPanel(panel.title, drawn)


def _fields(run: Run) -> dict[str, Any]:
    names = "problem tasks data policy learner sampler variance noise_std rule noise"
    fields = {name: getattr(run, name) for name in names.split()}
    if run.tasks == MANY:  # of these, races tell of the first ones
        fields["tasks"] = FRESH
    return fields if run.prior else fields | {"sampler": "", "variance": ""}


def summary_of(panel: Panel, curves: dict[str, Curve]) -> dict[str, Any]:
    """Of a panel the final regrets, the order, and the gap of each line to the first one.

    ``behind_until`` is the last recorded round at which the first line was not the lowest of those
    that race, 0 if it always was: the order is that of the last round alone. The gap's standard
    error is that of the mean over tasks, task by task, and over seeds, seed by seed, where there
    are several. ``sure`` is λ of a line that learned from imperfect data by the paper's procedure.
    """
    racing = [line.label for line in panel.lines if not line.reference]
    ranking = sorted(racing, key=lambda label: float(curves[label].mean[-1]))
    first = curves[panel.lines[0].label]
    behind = first.mean > np.min([curves[label].mean for label in racing], axis=0)
    lines = {}
    for line in panel.lines:
        one, run = curves[line.label], line.runs[0]
        gap = one.final - first.final  # (seeds, tasks): all lines have the same
        lines[line.label] = {
            "regret": float(one.mean[-1]),
            "stderr": float(one.stderr[-1]),
            "regret_of_seeds": [float(value) for value in one.final.mean(1)],
            "above_first_line": float(gap.mean()),
            "stderr_of_that": float(standard_error(gap)) if gap.size > 1 else None,
            **_fields(run),
            "components": run.components,
            "sure": sure_of(run),
            "reference": line.reference,
        }
    return {
        "title": panel.title.replace("\n", ", "),
        "problem": panel.problem,
        "data": panel.data,
        "noise_std": panel.noise_std,
        "rounds": int(first.rounds[-1]),
        "tasks": first.final.shape[1],
        "seeds": len(first.final),
        "best": ranking[0],
        "ranking": ranking,
        "behind_until": int(first.rounds[behind][-1]) if behind.any() else 0,
        "lines": lines,
    }
