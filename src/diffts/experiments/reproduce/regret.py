"""The experiments that compare regrets: which runs each needs, its panels, its summary."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffts.experiments.reproduce.profile import Profile
from diffts.experiments.reproduce.recipes import ABLATED, NOISE_LEVELS
from diffts.experiments.reproduce.runs import Run, diffts
from diffts.experiments.reproduce.store import Store

MAIN_PROBLEMS = ("popular-niche", "bidding", "maze")
ABLATION_PROBLEMS = ("labeled-arms-common", "popular-niche")
TITLES = {
    "popular-niche": "Popular and Niche",
    "labeled-arms-common": "Labeled Arms (common scale)",
    "bidding": "Bidding (simulated slots)",
    "maze": "2D Maze",
}
REAL_SLOTS = "real slots (simulator fitted to them)"
MIXTURES = ("gmmts-10", "gmmts-25")


@dataclasses.dataclass(frozen=True)
class Line:
    """One curve of a panel: a label and its runs, several where the race was repeated.

    Attributes:
        label: as in the legend; a policy's name, or what is varied.
        runs: the same run with different seeds, of the training and of the rewards.
        reference: shown, but not in the race (it was given more than the others).
    """

    label: str
    runs: tuple[Run, ...]
    reference: bool = False


@dataclasses.dataclass(frozen=True)
class Panel:
    """One plot: its title and its lines."""

    title: str
    problem: str
    lines: tuple[Line, ...]


@dataclasses.dataclass(frozen=True)
class Curve:
    """Regret of a line: over rounds, and of each task at the end.

    Attributes:
        rounds: recorded rounds ``(R,)``.
        mean: mean regret over tasks and seeds ``(R,)``.
        stderr: its standard error ``(R,)``: of the mean over tasks (each averaged over seeds),
            and of the mean over seeds, added in squares.
        final: regret at the end ``(seeds, tasks)``.
    """

    rounds: NDArray[np.int64]
    mean: NDArray[np.float64]
    stderr: NDArray[np.float64]
    final: NDArray[np.float64]


def curve(store: Store, runs: Sequence[Run]) -> Curve:
    """Put together what was recorded of a line's runs."""
    loaded = [store.load(run.key)[0] for run in runs]
    regret = np.stack([np.asarray(arrays["regret"], np.float64) for arrays in loaded])  # (S, R, N)
    return Curve(
        rounds=loaded[0]["rounds"],
        mean=regret.mean((0, 2)),
        stderr=_standard_error(regret.swapaxes(1, 2)),
        final=regret[:, -1],
    )


def _standard_error(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of the mean over seeds and tasks ``(S, N, …)``: what each of the two adds, in squares.

    What is there once adds nothing.
    """
    of_tasks, of_seeds = values.mean(0), values.mean(1)
    variances = [
        means.var(0, ddof=1) / len(means) for means in (of_tasks, of_seeds) if len(means) > 1
    ]
    return np.sqrt(sum(variances, np.zeros(values.shape[2:])))


# --- the experiments -----------------------------------------------------------------------------


def race_panel(
    problem: str,
    data: str,
    noise_std: float,
    seeds: Sequence[int],
    mixtures: Sequence[str] = MIXTURES,
    tasks: str = "test",
    title: str | None = None,
) -> Panel:
    """All policies with priors from the same data.

    From imperfect data the paper has no mixture; ours (``mixtures``), fitted by EM to the same
    data, race with the rest, and the mixtures from perfect data are references.
    """

    def baseline(policy: str, fitted_to: str = data) -> tuple[Run, ...]:
        # Fitted once; played as often as DiffTS, with the same rewards.
        return tuple(
            Run(problem, fitted_to, policy, noise_std, seed=seed, tasks=tasks) for seed in seeds
        )

    lines = [
        Line("diffts", tuple(diffts(problem, data, noise_std, seed=s, tasks=tasks) for s in seeds)),
        # UCB1 learns nothing from past tasks: one run serves all data.
        Line("ucb1", baseline("ucb1", "perfect")),
        Line("gts-diag", baseline("gts-diag")),
        Line("gts-full", baseline("gts-full")),
    ]
    fitted = MIXTURES if data == "perfect" else mixtures
    lines += [Line(policy, baseline(policy)) for policy in fitted]
    if data != "perfect":
        lines += [
            Line(f"{policy} (perfect data)", baseline(policy, "perfect"), reference=True)
            for policy in MIXTURES
        ]
    heading = title or f"{TITLES[problem]}\n{data} data, σ̂ = {noise_std:g}"
    return Panel(heading, problem, tuple(lines))


def _imperfect_mixtures(problem: str, profile: Profile) -> tuple[str, ...]:
    """The mixtures to fit to imperfect data.

    Where all is tiny, compiling EM anew for every problem would take more than a minute: one of
    them has to do.
    """
    if profile.tiny:
        return MIXTURES[:1] if problem == "popular-niche" else ()
    return MIXTURES


def main_panels(profile: Profile) -> list[Panel]:
    """Three problems, perfect and imperfect data, at the paper's noise level."""
    return [
        race_panel(
            problem,
            data,
            NOISE_LEVELS[problem][0],
            profile.seeds,
            mixtures=_imperfect_mixtures(problem, profile),
        )
        for data in ("perfect", "imperfect")
        for problem in MAIN_PROBLEMS
    ]


def noise_level_panels(profile: Profile) -> list[Panel]:
    """All 18: four problems, both kinds of data, all assumed noise levels."""
    return [
        race_panel(
            problem,
            data,
            noise_std,
            profile.seeds,
            mixtures=_imperfect_mixtures(problem, profile),
        )
        for problem, levels in NOISE_LEVELS.items()
        for data in ("perfect", "imperfect")
        for noise_std in sorted(levels)
    ]


def real_slot_panels(profile: Profile) -> list[Panel]:
    """The bidding priors, learned on simulated slots, on real ones."""
    return [
        race_panel(
            "bidding",
            data,
            noise_std,
            (0,),
            mixtures=_imperfect_mixtures("bidding", profile),
            tasks="real",
            title=f"{REAL_SLOTS}\n{data} data, σ̂ = {noise_std:g}",
        )
        for data in ("perfect", "imperfect")
        for noise_std in sorted(NOISE_LEVELS["bidding"])
    ]


def _ablation(lines: Callable[[str, float], list[Line]]) -> Callable[[Profile], list[Panel]]:
    """Panels of an ablation: two problems at two noise levels."""

    def panels(profile: Profile) -> list[Panel]:
        del profile
        return [
            Panel(
                f"{TITLES[problem]}\nσ̂ = {noise_std:g}",
                problem,
                tuple(lines(problem, noise_std)),
            )
            for problem in ABLATION_PROBLEMS
            for noise_std in NOISE_LEVELS[problem]
        ]

    return panels


def _gaussian(problem: str, data: str, noise_std: float) -> Line:
    return Line("gts-full", (Run(problem, data, "gts-full", noise_std),))


sampled_noise_panels = _ablation(
    lambda problem, noise_std: [
        Line(f"{kind} noise", (diffts(problem, "perfect", noise_std, sampler=sampler),))
        for kind, sampler in (("predicted", "paper"), ("sampled", "paper-sampled-noise"))
    ]
)
variance_panels = _ablation(
    lambda problem, noise_std: [
        Line(label, (diffts(problem, "perfect", noise_std, variance=mode),))
        for label, mode in (
            ("calibrated", "calibrated"),
            ("partly calibrated", "partial"),
            ("not calibrated", "plain"),
        )
    ]
)
noisy_panels = _ablation(
    lambda problem, noise_std: [
        *(
            Line(f"λ = {name.split('= ')[1]}", (diffts(problem, "noisy", noise_std, name),))
            for name in ABLATED
            if name.startswith("warm-up")
        ),
        _gaussian(problem, "noisy", noise_std),
    ]
)
incomplete_panels = _ablation(
    lambda problem, noise_std: [
        Line("with EM", (diffts(problem, "incomplete", noise_std, "paper"),)),
        Line("without EM", (diffts(problem, "incomplete", noise_std, "paper, no EM"),)),
        _gaussian(problem, "incomplete", noise_std),
    ]
)
noisy_incomplete_panels = _ablation(
    lambda problem, noise_std: [
        Line("EM and SURE", (diffts(problem, "imperfect", noise_std, "paper"),)),
        Line("EM, λ = 0", (diffts(problem, "imperfect", noise_std, "paper, λ = 0"),)),
        Line("SURE, no EM", (diffts(problem, "imperfect", noise_std, "paper, no EM"),)),
        Line("our procedure", (diffts(problem, "imperfect", noise_std),)),
        _gaussian(problem, "imperfect", noise_std),
    ]
)


def finished(panel: Panel, is_played: Callable[[Run], bool]) -> Panel | None:
    """A panel with the seeds that all of its lines have been played with; None if there is none."""
    seeds = set.intersection(
        *({run.seed for run in line.runs if is_played(run)} for line in panel.lines)
    )
    lines = tuple(
        dataclasses.replace(line, runs=tuple(run for run in line.runs if run.seed in seeds))
        for line in panel.lines
    )
    return dataclasses.replace(panel, lines=lines) if seeds else None


# --- tables --------------------------------------------------------------------------------------


def rows(store: Store, panels: Sequence[Panel]) -> list[dict[str, Any]]:
    """One row for each run and recorded round."""
    table: list[dict[str, Any]] = []
    for run in sorted({run for panel in panels for line in panel.lines for run in line.runs}):
        arrays, _ = store.load(run.key)
        regret = np.asarray(arrays["regret"], np.float64)
        tasks = regret.shape[1]
        error = regret.std(1, ddof=1) / np.sqrt(tasks) if tasks > 1 else np.zeros(len(regret))
        for i, done in enumerate(arrays["rounds"]):
            table.append(
                {
                    "problem": run.problem,
                    "tasks": run.tasks,
                    "data": run.data,
                    "policy": run.policy,
                    "learner": run.learner,
                    "seed": run.seed,
                    "sampler": run.sampler if run.policy == "diffts" else "",
                    "variance": run.variance if run.policy == "diffts" else "",
                    "noise_std": run.noise_std,
                    "round": int(done),
                    "regret": round(float(regret[i].mean()), 4),
                    "stderr": round(float(error[i]), 4),
                    "simple_regret": round(float(arrays["simple_regret"][i].mean()), 5),
                }
            )
    return table


def summarise(store: Store, panels: Sequence[Panel]) -> dict[str, Any]:
    """Of each panel the final regrets, the order, and the gap of each line to the first one.

    ``behind_until`` is the last recorded round at which the first line was not the lowest of those
    that race, 0 if it always was: the order above is that of the last round alone.

    The gap's standard error is that of the mean over tasks, task by task, and over seeds, seed by
    seed, where there are several.
    """
    return {"panels": [_summary_of(store, panel) for panel in panels]}


def _behind_until(curves: Sequence[Curve]) -> int:
    """The last recorded round at which the first of these curves was not the lowest; 0 if none."""
    first, *others = curves
    if not others:
        return 0
    behind = first.mean > np.min([one.mean for one in others], axis=0)
    return int(first.rounds[behind][-1]) if behind.any() else 0


def _summary_of(store: Store, panel: Panel) -> dict[str, Any]:
    curves = {line.label: curve(store, line.runs) for line in panel.lines}
    racing = [line.label for line in panel.lines if not line.reference]
    ranking = sorted(racing, key=lambda label: float(curves[label].mean[-1]))
    first = panel.lines[0].label
    lines = {}
    for label, one in curves.items():
        gap = one.final - curves[first].final  # (seeds, tasks): all lines have the same
        lines[label] = {
            "regret": float(one.mean[-1]),
            "stderr": float(one.stderr[-1]),
            "regret_of_seeds": [float(value) for value in one.final.mean(1)],
            "above_first_line": float(gap.mean()),
            "stderr_of_that": float(_standard_error(gap)) if gap.size > 1 else None,
        }
    return {
        "title": panel.title.replace("\n", ", "),
        "problem": panel.problem,
        "rounds": int(curves[first].rounds[-1]),
        "tasks": curves[first].final.shape[1],
        "seeds": len(curves[first].final),
        "best": ranking[0],
        "ranking": ranking,
        "behind_until": _behind_until([curves[label] for label in racing]),
        "lines": lines,
    }
