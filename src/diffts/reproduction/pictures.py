"""Experiments that are looked at: task vectors of every problem, 20 Groups, calibration errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from diffts.diffusion.prior import DiffusionPrior
from diffts.figures.bars import draw_bars
from diffts.figures.images import draw_images
from diffts.figures.tasks import draw_tasks
from diffts.learning import Lesson, learn_priors
from diffts.problems import Groups, PopularNiche, get_problem
from diffts.problems.groups import hide, recall_precision
from diffts.problems.maze import IMAGE_SIDE, OPEN, WALL, to_image
from diffts.reproduction import ablations
from diffts.reproduction.digests import digest, fingerprint, sampler_versions
from diffts.reproduction.evaluation import PROBLEMS
from diffts.reproduction.problem_data import SEED
from diffts.reproduction.regret import TITLES
from diffts.reproduction.specs import (
    APPENDIX,
    NO_SURE,
    PriorSpec,
    mixture_name,
    plan_for,
    slug,
    units_for,
)
from diffts.reproduction.store import Made, Part, Told
from diffts.reproduction.work import Reproduction, exact_errors

SHOWN = 16  # tasks in a panel
MIXTURE = 25


class Piece(NamedTuple):
    """Something to look at."""

    problem: str  # whose it is; '' for one of its own
    part: Part
    make: Callable[[], Made]
    notes: Sequence[str]  # of all that it took
    needs_data: bool = False  # whether it is about the user's own data

    def ensure(self, work: Reproduction) -> None:
        """Make it, unless it is there."""
        if not self.finished(work):
            work.report(self.part.key)
            work.store.ensure([self.part], lambda: [self.make()])

    def rests_on(self, work: Reproduction) -> Sequence[str]:
        """Notes of all that it took."""
        del work
        return self.notes

    def finished(self, work: Reproduction) -> Piece | None:
        """Itself if it is in the store, made as it would be made today; else None."""
        return self if work.store.has(self.part) else None


# --- task vectors --------------------------------------------------------------------------------

TASK_PANELS = (
    "tasks",
    "draws of the diffusion prior",
    f"draws of a Gaussian mixture ({MIXTURE})",
    "imperfect tasks",
    "draws of the prior learned from imperfect tasks",
)


def task_pieces(work: Reproduction) -> list[Piece]:
    """Of each problem tasks, draws of the priors, and draws of a mixture, ``(SHOWN, K)`` each."""

    def make(problem: str, priors: Sequence[PriorSpec]) -> Made:
        data = work.problem(problem)
        known, _ = data.past("imperfect")
        exact, imperfect = (work.prior(prior).sample(SHOWN, seed=SEED) for prior in priors)
        mixture = data.mixture("perfect", MIXTURE, SEED).sample(SHOWN, seed=SEED)
        seen = np.where(known.mask, known.mean, np.nan)
        return Made(_numbered(data.sets.train, exact, mixture, seen, imperfect), {})

    pieces = []
    for problem in PROBLEMS:
        priors = [PriorSpec(problem, data) for data in ("perfect", "imperfect")]
        mixture = work.problem(problem).fit_part("perfect", mixture_name(MIXTURE, SEED))
        made_from = [work.prior_part(prior).digest for prior in priors] + [mixture.digest]
        part = Part(f"{problem}/task-vectors", "-".join(made_from))
        notes = [part.key, mixture.key, *(key for prior in priors for key in work.rests_on(prior))]
        pieces.append(Piece(problem, part, partial(make, problem, priors), notes))
    return pieces


def tell_tasks(work: Reproduction, pieces: Sequence[Piece], path: Path) -> Told:
    """A picture of each problem; mean and deviation of what its panels show."""
    columns: dict[str, Any] = {
        "mean": np.nanmean,
        "sd": np.nanstd,
        "smallest": np.nanmin,
        "largest": np.nanmax,
    }
    rows = []
    for piece in pieces:
        panels = _titled(work, piece, TASK_PANELS)
        file, title = path.with_name(f"{path.name}-{piece.problem}.png"), TITLES[piece.problem]
        if piece.problem == "maze":  # walls 0 and passages 1; NaN stays NaN
            images = {
                name: (to_image(edges).reshape(len(edges), -1) - WALL) / (OPEN - WALL)
                for name, edges in panels.items()
            }
            draw_images(images, file, IMAGE_SIDE, IMAGE_SIDE, title=title)
        else:
            by_group = np.argsort(PopularNiche.group_of_arm, kind="stable")
            order = by_group if piece.problem == "popular-niche" else None
            draw_tasks(panels, file, order=order, title=title, for_print=True)
        for name, values in panels.items():
            numbers = {what: round(float(of(values)), 5) for what, of in columns.items()}
            rows.append({"problem": piece.problem, "panel": name} | numbers)
    return rows, {}


def _numbered(*panels: Any) -> dict[str, Any]:
    return {f"panel{i}": np.asarray(p[:SHOWN], np.float32) for i, p in enumerate(panels)}


def _titled(work: Reproduction, piece: Piece, titles: Sequence[str]) -> dict[str, Any]:
    arrays = work.store.arrays(piece.part.key)
    return {title: arrays[f"panel{i}"] for i, title in enumerate(titles)}


# --- 20 Groups -----------------------------------------------------------------------------------

GROUP_PANELS = (
    "tasks",
    "draws of the diffusion prior",
    "test tasks, half of the entries hidden",
    "completed with predicted noise",
    "completed with sampled noise",
)
_GROUP_SIZES = (5000, 1000, 100)
_GROUP_SAMPLERS = {"predicted": "paper", "sampled": "paper-sampled-noise"}


def group_pieces(work: Reproduction) -> list[Piece]:
    """The paper's network on 20 Groups: completions with predicted and with sampled noise."""
    profile = work.profile
    tasks = Groups().split(*(profile.sizes or _GROUP_SIZES), seed=SEED)
    plan, units = plan_for("popular-niche", profile, APPENDIX), units_for(APPENDIX)
    network = plan.network_for(get_problem("groups"))

    def make(seed: int) -> Made:
        of = (tasks.train, tasks.calibration)
        lesson = Lesson(*of, config=plan.config, seed=seed, units=units)
        (prior,) = learn_priors([lesson], **network)
        evidence = hide(tasks.test, seed=SEED + 1)
        how: dict[str, Any] = {"seed": seed, "steps": profile.chain}
        drawn, scores = [], {}
        for kind, sampler in _GROUP_SAMPLERS.items():
            drawn.append(prior.posterior_sample(evidence, sampler=sampler, **how))
            recall, precision = recall_precision(tasks.test, drawn[-1])
            scores[f"recall with {kind} noise"] = recall
            scores[f"precision with {kind} noise"] = precision
        hidden = np.where(np.asarray(evidence.mask), tasks.test, np.nan)
        arrays = _numbered(tasks.train, prior.sample(SHOWN, **how), hidden, *drawn)
        return Made(arrays, {"scores": scores, "seed": seed})

    made_from = digest(
        Groups.version,
        {name: fingerprint(values) for name, values in tasks._asdict().items()},
        network,
        plan.config,
        units,
        profile.chain,
        sampler_versions(_GROUP_SAMPLERS.values()),
    )
    places = {seed: f"groups/completions-seed{seed}" for seed in profile.seeds}
    return [
        Piece("", Part(place, made_from), partial(make, seed), [place])
        for seed, place in places.items()
    ]


def tell_groups(work: Reproduction, pieces: Sequence[Piece], path: Path) -> Told:
    """A picture of the first seed, and recall and precision of all."""
    panels = _titled(work, pieces[0], GROUP_PANELS)
    title = "20 Groups: rows are tasks, columns are arms"
    draw_tasks(panels, path.with_suffix(".png"), title=title, for_print=True)
    notes = [work.store.note(piece.part.key) for piece in pieces]
    found = {note["seed"]: note["scores"] for note in notes}
    rows = [
        {"score": name, "value": float(np.mean([scores[name] for scores in found.values()]))}
        | {f"seed {seed}": scores[name] for seed, scores in found.items()}
        for name in next(iter(found.values()))
    ]
    return rows, {"scores": {row["score"]: row["value"] for row in rows}, "seeds": len(found)}


# --- calibration from imperfect data -------------------------------------------------------------

#: Ours has no say in this: its sampler does not read τ.
CALIBRATED = {APPENDIX: "λ of the paper", NO_SURE: "λ = 0"}


def calibration_pieces(work: Reproduction) -> list[Piece]:
    """How far τ from imperfect data is from τ of the same denoiser from exact data."""

    def make(spec: PriorSpec) -> Made:
        error = tau_error(work.prior(spec), work.problem(spec.problem).sets.calibration)
        return Made({}, {"error": float(error.mean()), "error_first_ten": float(error[:10].mean())})

    pieces = []
    for problem, learner in _calibrated():
        for seed in work.profile.seeds:
            spec = PriorSpec(problem, "imperfect", learner, seed)
            place = f"{problem}/calibration/{slug(learner)}-seed{seed}"
            part = Part(place, work.prior_part(spec).digest)
            notes = [place, *work.rests_on(spec)]
            pieces.append(Piece(problem, part, partial(make, spec), notes))
    return pieces


def _calibrated() -> Iterator[tuple[str, str]]:
    """Problems and learners."""
    for problem in PROBLEMS:
        for learner in CALIBRATED:
            if learner != NO_SURE or problem in ablations.PROBLEMS:
                yield problem, learner


def tell_calibration(work: Reproduction, pieces: Sequence[Piece], path: Path) -> Told:
    """Bars of the errors, over all steps and over the first ten; means over seeds."""
    rows: list[dict[str, Any]] = []
    for problem, learner in _calibrated():
        begin = f"{problem}/calibration/{slug(learner)}-seed"
        notes = [
            work.store.note(piece.part.key) for piece in pieces if piece.part.key.startswith(begin)
        ]
        if notes:
            errors = {
                name: round(float(np.mean([note[name] for note in notes])), 5)
                for name in ("error", "error_first_ten")
            }
            row = {"problem": problem, "learner": learner, "seeds": len(notes)}
            rows.append(row | errors)
    bars = {
        f"{TITLES[row['problem']]}, {CALIBRATED[row['learner']]}": (
            row["error"],
            row["error_first_ten"],
        )
        for row in rows
    }
    label = "relative error of τ from imperfect data"
    draw_bars(bars, ("all steps", "first ten steps"), path.with_suffix(".png"), label=label)
    return rows, {"relative error of τ": rows}


def tau_error(prior: DiffusionPrior, exact: Any) -> Any:
    """``|τ / τ_exact - 1|`` of each step and arm, τ_exact from exact tasks ``(N, K)``."""
    return np.abs(np.asarray(prior.tau) / exact_errors(prior, exact, SEED + 1) - 1)
