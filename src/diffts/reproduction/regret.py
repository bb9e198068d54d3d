"""The experiments that compare regrets: which runs each needs, its rows, its summary, its picture.

A panel is one plot, a line one of its curves; both say in fields what they are of.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffts.experiments.compare import standard_error
from diffts.figures.regret_grid import GridCurve, GridPanel, draw_regret_grid
from diffts.reproduction.profile import Profile
from diffts.reproduction.specs import ABLATED, FRESH, WARM_UPS, Run, diffts
from diffts.reproduction.store import Store, Told
from diffts.reproduction.work import Reproduction

MAIN_PROBLEMS = ("popular-niche", "bidding", "maze")
ABLATION_PROBLEMS = ("labeled-arms-common", "popular-niche")
TITLES = {
    "popular-niche": "Popular and Niche",
    "labeled-arms": "Labeled Arms",
    "labeled-arms-common": "Labeled Arms (common scale)",
    "bidding": "Bidding (simulated slots)",
    "maze": "2D Maze",
}
REAL_SLOTS = "real slots (simulator fitted to them)"
#: Noise levels σ̂ that are assumed in each problem; the main results' first.
NOISE_LEVELS: dict[str, tuple[float, ...]] = {
    "popular-niche": (0.1, 0.05),
    "bidding": (0.2, 0.1, 0.3),
    "maze": (0.1, 0.05),
    "labeled-arms-common": (0.1, 0.05),
}
MIXTURES = ("gmmts-10", "gmmts-25")


@dataclasses.dataclass(frozen=True)
class Line:
    """One curve of a panel."""

    label: str  # as in the legend: a policy's name, or what is varied
    runs: tuple[Run, ...]  # the same run with different seeds, of the training and of the rewards
    reference: bool = False  # shown, but not in the race: it was given more than the others


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
        return any(run.tasks == "real" for run in self.runs)

    def rests_on(self, work: Reproduction) -> list[str]:
        """Notes of all that it took."""
        return [key for run in self.runs for key in work.rests_on(run)]

    def finished(self, work: Reproduction) -> Panel | None:
        """With the seeds that all of its lines have been played with; None if there is none."""
        played = ({run.seed for run in line.runs if work.is_played(run)} for line in self.lines)
        seeds = set.intersection(*played)
        lines = tuple(
            dataclasses.replace(line, runs=tuple(run for run in line.runs if run.seed in seeds))
            for line in self.lines
        )
        return dataclasses.replace(self, lines=lines) if seeds else None


# --- what is asked for ---------------------------------------------------------------------------


def race(
    problem: str,
    data: str,
    noise_std: float,
    seeds: Sequence[int],
    mixtures: Sequence[str] = MIXTURES,
    tasks: str = "test",
) -> Panel:
    """All policies with priors from the same data.

    From imperfect data the paper has no mixture; ours (``mixtures``), fitted by EM to the same
    data, race with the rest, and the mixtures from perfect data are references.
    """

    def baseline(policy: str, fitted_to: str = data, reference: bool = False) -> Line:
        # Fitted once; played as often as DiffTS, with the same rewards.
        runs = (Run(problem, fitted_to, policy, noise_std, seed=s, tasks=tasks) for s in seeds)
        return Line(f"{policy} (perfect data)" if reference else policy, tuple(runs), reference)

    ours = (diffts(problem, data, noise_std, seed=seed, tasks=tasks) for seed in seeds)
    lines = [
        Line("diffts", tuple(ours)),
        baseline("ucb1", "perfect"),  # it learns nothing from past tasks: one run serves all data
        *map(baseline, ("gts-diag", "gts-full", *(MIXTURES if data == "perfect" else mixtures))),
    ]
    if data != "perfect":
        lines += [baseline(policy, "perfect", reference=True) for policy in MIXTURES]
    heading = REAL_SLOTS if tasks == "real" else TITLES[problem]
    title = f"{heading}\n{data} data, σ̂ = {noise_std:g}"
    return Panel(title, problem, data, noise_std, tuple(lines))


def _races(
    profile: Profile, wanted: Iterable[tuple[str, str, float]], real: bool = False
) -> list[Panel]:
    # Where all is tiny, compiling EM anew for every problem would take more than a minute: one
    # mixture from imperfect data has to do.
    few = {"popular-niche": MIXTURES[:1]} if profile.tiny else dict.fromkeys(TITLES, MIXTURES)
    seeds, tasks = ((0,), "real") if real else (profile.seeds, "test")
    return [race(*one, seeds, few.get(one[0], ()), tasks) for one in wanted]


def main_panels(profile: Profile) -> list[Panel]:
    """Three problems, perfect and imperfect data, at the paper's noise level."""
    both = ("perfect", "imperfect")
    return _races(profile, ((p, data, NOISE_LEVELS[p][0]) for data in both for p in MAIN_PROBLEMS))


def noise_level_panels(profile: Profile) -> list[Panel]:
    """All 18: four problems, both kinds of data, all assumed noise levels."""
    return _races(profile, (one for problem in NOISE_LEVELS for one in _levels(problem)))


def real_slot_panels(profile: Profile) -> list[Panel]:
    """The bidding priors, learned on simulated slots, on real ones."""
    return _races(profile, _levels("bidding"), real=True)


def _levels(problem: str) -> list[tuple[str, str, float]]:
    levels = sorted(NOISE_LEVELS[problem])
    return [(problem, data, noise) for data in ("perfect", "imperfect") for noise in levels]


class Ablation(NamedTuple):
    """What is varied of DiffTS, by the labels of its lines; with the Gaussian from such data."""

    about: str
    data: str
    field: str
    values: dict[str, str]

    def panels(self, profile: Profile) -> list[Panel]:
        """Two problems at two noise levels, with one seed whatever the profile."""
        del profile
        return [
            Panel(f"{TITLES[p]}\nσ̂ = {noise:g}", p, self.data, noise, self._lines(p, noise))
            for p in ABLATION_PROBLEMS
            for noise in NOISE_LEVELS[p]
        ]

    def _lines(self, problem: str, noise: float) -> tuple[Line, ...]:
        lines = []
        for label, value in self.values.items():
            varied: dict[str, Any] = {self.field: value}
            lines.append(Line(label, (diffts(problem, self.data, noise, **varied),)))
        if self.data != "perfect":
            lines.append(Line("gts-full", (Run(problem, self.data, "gts-full", noise),)))
        return tuple(lines)


_SAMPLERS = {"predicted noise": "paper", "sampled noise": "paper-sampled-noise"}
_VARIANCES = {"calibrated": "calibrated", "partly calibrated": "partial", "not calibrated": "plain"}
_PROCEDURES = {
    "EM and SURE": "paper",
    "EM, λ = 0": "paper, λ = 0",
    "SURE, no EM": "paper, no EM",
    "our procedure": "ours",
}
ABLATIONS = {
    "sampled-noise": Ablation(
        "predicted or sampled noise in the diffused observation", "perfect", "sampler", _SAMPLERS
    ),
    "variance": Ablation("three reverse variances", "perfect", "variance", _VARIANCES),
    "noisy-data": Ablation(
        "λ of the SURE term on noisy data",
        "noisy",
        "learner",
        {f"λ = {sure:g}": name for name, sure in WARM_UPS.items()},
    ),
    "incomplete-data": Ablation(
        "EM on incomplete data",
        "incomplete",
        "learner",
        {"with EM": "paper", "without EM": "paper, no EM"},
    ),
    "noisy-incomplete-data": Ablation(
        "EM and SURE on noisy, incomplete data", "imperfect", "learner", _PROCEDURES
    ),
}


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
    regret = np.stack([np.asarray(arrays["regret"], np.float64) for arrays in loaded])  # (S, R, N)
    stderr = standard_error(regret.swapaxes(1, 2))
    return Curve(loaded[0]["rounds"], regret.mean((0, 2)), stderr, regret[:, -1])


def tell(work: Reproduction, panels: Sequence[Panel], path: Path, columns: int | None = 4) -> Told:
    """Rows and summary of panels, and their picture: so many in a row; None: a row a problem."""
    grid, summaries = defaultdict(list), []
    for i, panel in enumerate(panels):
        of = {line.label: curve(work.store, line.runs) for line in panel.lines}
        drawn = [GridCurve(line.label, *of[line.label][:3], line.reference) for line in panel.lines]
        row = panel.problem if columns is None else i // columns
        grid[row].append(GridPanel(panel.title, drawn))
        summaries.append(summary_of(panel, of))
    draw_regret_grid(list(grid.values()), path.with_suffix(".png"))
    return rows(work.store, panels), {"panels": summaries}


def rows(store: Store, panels: Sequence[Panel]) -> list[dict[str, Any]]:
    """One row for each run and recorded round."""
    table = []
    for run in sorted({run for panel in panels for run in panel.runs}):
        one, simple = curve(store, [run]), store.arrays(run.key)["simple_regret"].mean(1)
        for i, done in enumerate(one.rounds):
            regret = {
                "round": int(done),
                "regret": round(float(one.mean[i]), 4),
                "stderr": round(float(one.stderr[i]), 4),
                "simple_regret": round(float(simple[i]), 5),
            }
            table.append(_fields(run) | regret)
    return table


def _fields(run: Run) -> dict[str, Any]:
    names = "problem tasks data policy learner seed sampler variance noise_std"
    names += " rule noise" if run.is_fresh else ""
    fields = {name: getattr(run, name) for name in names.split()}
    if run.is_fresh:  # of whatever was played, races tell of the first ones
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
        of_all_seeds = {name: value for name, value in _fields(run).items() if name != "seed"}
        lines[line.label] = {
            "regret": float(one.mean[-1]),
            "stderr": float(one.stderr[-1]),
            "regret_of_seeds": [float(value) for value in one.final.mean(1)],
            "above_first_line": float(gap.mean()),
            "stderr_of_that": float(standard_error(gap)) if gap.size > 1 else None,
            **of_all_seeds,
            "components": run.components,
            "sure": ABLATED[run.learner].sure if run.learner in ABLATED else None,
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
