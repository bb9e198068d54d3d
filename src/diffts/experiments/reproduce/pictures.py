"""Experiments that are looked at: task vectors of every problem, 20 Groups, calibration errors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffts.diffusion.prior import DiffusionPrior
from diffts.experiments.reproduce.fingerprints import digest, fingerprint
from diffts.experiments.reproduce.profile import Profile
from diffts.experiments.reproduce.recipes import sampler_versions
from diffts.experiments.reproduce.regret import ABLATION_PROBLEMS
from diffts.experiments.reproduce.runs import Learned
from diffts.experiments.reproduce.store import Arrays
from diffts.experiments.reproduce.workshop import SEED, Workshop
from diffts.learning import TrainingConfig, calibrate, learn_prior
from diffts.problems import Groups, PopularNiche, TaskSets
from diffts.problems.groups import hide, recall_precision
from diffts.problems.maze import OPEN, WALL, to_image

SHOWN = 16  # tasks in a panel
MIXTURE = 25


# --- task vectors --------------------------------------------------------------------------------


def task_panels(shop: Workshop, problem: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tasks, draws of the diffusion prior and of a mixture; imperfect tasks, draws of their prior.

    Returns:
        Arrays ``(SHOWN, K)`` by the titles of their panels (hidden entries are NaN), and a note.
    """
    names = (
        "tasks",
        "draws of the diffusion prior",
        f"draws of a Gaussian mixture ({MIXTURE})",
        "imperfect tasks",
        "draws of the prior learned from imperfect tasks",
    )

    def make() -> tuple[Arrays, dict[str, Any]]:
        field = shop.field(problem)
        known = field.known("imperfect").train
        mask = np.asarray(known.mask[:SHOWN])
        panels = (
            field.sets.train[:SHOWN],
            shop.prior(Learned(problem, "perfect")).sample(SHOWN, seed=SEED),
            field.mixture("perfect", MIXTURE).sample(SHOWN, seed=SEED),
            np.where(mask, np.asarray(known.mean[:SHOWN]), np.nan),
            shop.prior(Learned(problem, "imperfect")).sample(SHOWN, seed=SEED),
        )
        return {f"panel{i}": np.asarray(p, np.float32) for i, p in enumerate(panels)}, {}

    arrays, note = shop.cached(*_task_part(shop, problem), make)
    return {name: arrays[f"panel{i}"] for i, name in enumerate(names)}, note


def has_task_panels(shop: Workshop, problem: str) -> bool:
    """Whether they are in the store, of today's recipe."""
    return shop.has(*_task_part(shop, problem))


def _task_part(shop: Workshop, problem: str) -> tuple[str, str]:
    """Where they are in the store, and their recipe."""
    used = [Learned(problem, data) for data in ("perfect", "imperfect")]
    return f"{problem}/task-vectors", "-".join(shop.digest(learned) for learned in used)


def task_order(problem: str) -> Any:
    """The arms in the order to show them in; None for their own."""
    if problem == "popular-niche":
        return np.argsort(PopularNiche.group_of_arm, kind="stable")
    return None


def maze_images(edges: NDArray[Any]) -> NDArray[Any]:
    """Edge values ``(n, 180)`` as images ``(n, 400)``, walls 0 and passages 1; NaN stays NaN."""
    return (to_image(edges).reshape(len(edges), -1) - WALL) / (OPEN - WALL)


def task_rows(shop: Workshop, problems: Sequence[str]) -> list[dict[str, Any]]:
    """Mean and deviation of what each panel shows."""
    rows = []
    for problem in problems:
        for name, values in task_panels(shop, problem)[0].items():
            rows.append(
                {
                    "problem": problem,
                    "panel": name,
                    "mean": round(float(np.nanmean(values)), 5),
                    "sd": round(float(np.nanstd(values)), 5),
                    "smallest": round(float(np.nanmin(values)), 5),
                    "largest": round(float(np.nanmax(values)), 5),
                }
            )
    return rows


# --- 20 Groups -----------------------------------------------------------------------------------


_GROUP_SIZES = (5000, 1000, 100)
_GROUP_SAMPLERS = {"predicted": "paper", "sampled": "paper-sampled-noise"}


def has_groups(shop: Workshop) -> bool:
    """Whether they are in the store, of today's recipe."""
    return shop.has(*_groups_part(shop))


def _group_tasks(profile: Profile) -> TaskSets:
    return Groups().split(*(profile.sizes or _GROUP_SIZES), seed=SEED)


def _group_learning(profile: Profile) -> dict[str, Any]:
    """The paper's network and training, or a tiny one."""
    return {
        "network": "residual-mlp" if profile.tiny else "residual-conv",
        "options": {"width": 16} if profile.tiny else None,
        "config": TrainingConfig(steps=max(1, round(15_000 * profile.length))),
    }


def _groups_part(shop: Workshop) -> tuple[str, str]:
    """Where they are in the store, and their recipe."""
    how = _group_learning(shop.profile)
    tasks = _group_tasks(shop.profile)
    recipe = [
        Groups.version,
        {name: fingerprint(values) for name, values in tasks._asdict().items()},
        *how.values(),
        shop.profile.chain,
        sampler_versions(_GROUP_SAMPLERS.values()),
    ]
    return "groups/completions", digest(recipe)


def groups(shop: Workshop) -> tuple[dict[str, Any], dict[str, Any]]:
    """The paper's network on 20 Groups: completions with predicted and with sampled noise.

    Returns:
        Panels of tasks by their titles, and a note with recall and precision.
    """
    names = (
        "tasks",
        "draws of the diffusion prior",
        "test tasks, half of the entries hidden",
        "completed with predicted noise",
        "completed with sampled noise",
    )

    def make() -> tuple[Arrays, dict[str, Any]]:
        profile = shop.profile
        tasks = _group_tasks(profile)
        prior = learn_prior(tasks.train, tasks.calibration, seed=SEED, **_group_learning(profile))
        evidence = hide(tasks.test, seed=SEED + 1)
        drawn = {
            kind: prior.posterior_sample(evidence, sampler=sampler, steps=profile.chain, seed=SEED)
            for kind, sampler in _GROUP_SAMPLERS.items()
        }
        scores = {
            f"{what} with {kind} noise": value
            for kind, draws in drawn.items()
            for what, value in zip(
                ("recall", "precision"), recall_precision(tasks.test, draws), strict=True
            )
        }
        hidden = np.where(np.asarray(evidence.mask), tasks.test, np.nan)
        panels = (
            tasks.train,
            prior.sample(SHOWN, seed=SEED, steps=profile.chain),
            hidden,
            drawn["predicted"],
            drawn["sampled"],
        )
        arrays = {f"panel{i}": np.asarray(p[:SHOWN], np.float32) for i, p in enumerate(panels)}
        return arrays, {"scores": scores}

    arrays, note = shop.cached(*_groups_part(shop), make)
    return {name: arrays[f"panel{i}"] for i, name in enumerate(names)}, note


# --- calibration from imperfect data -------------------------------------------------------------


def calibration_rows(shop: Workshop, problems: Sequence[str]) -> list[dict[str, Any]]:
    """How far τ from imperfect data is from τ of the same denoiser from exact data."""
    rows = [
        shop.cached(*_tau_part(shop, learned), partial(_tau, shop, learned))[1]
        for problem in problems
        for learned in _calibrated(problem)
    ]
    return [{name: row[name] for name in _TAU_COLUMNS} for row in rows]


def has_calibration_rows(shop: Workshop, problem: str) -> bool:
    """Whether they are in the store, of today's recipe."""
    return all(shop.has(*_tau_part(shop, learned)) for learned in _calibrated(problem))


def _calibrated(problem: str) -> list[Learned]:
    """The priors of a problem whose τ is looked at."""
    learners = ["ours"]
    if problem in ABLATION_PROBLEMS:
        learners += ["paper", "paper, λ = 0"]
    return [Learned(problem, "imperfect", learner) for learner in learners]


def _tau_part(shop: Workshop, learned: Learned) -> tuple[str, str]:
    """Where the errors of τ are in the store, and their recipe."""
    name = learned.learner.replace(", λ = ", "-")
    return f"{learned.problem}/calibration-{name}", shop.digest(learned)


_TAU_COLUMNS = ("problem", "learner", "error", "error_first_ten")


def _tau(shop: Workshop, learned: Learned) -> tuple[Arrays, dict[str, Any]]:
    error = tau_error(shop.prior(learned), shop.field(learned.problem).sets.calibration)
    return {}, {
        "problem": learned.problem,
        "learner": learned.learner,
        "error": round(float(error.mean()), 5),
        "error_first_ten": round(float(error[:10].mean()), 5),
    }


def tau_error(prior: DiffusionPrior, exact: Any) -> Any:
    """``|τ / τ_exact - 1|`` of each step and arm, τ_exact from exact tasks ``(N, K)``."""
    standard = (np.asarray(exact) - float(prior.shift)) / float(prior.scale)
    right = np.asarray(calibrate(prior.denoiser, standard, schedule=prior.schedule, seed=SEED + 1))
    return np.abs(np.asarray(prior.tau) / right - 1)
