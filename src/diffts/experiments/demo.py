"""The demo: the whole method on Popular and Niche, small enough for a laptop."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from diffts.bandits.agent import ThompsonSampling
from diffts.diffusion.prior import DiffusionPrior
from diffts.evidence import Evidence
from diffts.experiments.compare import Comparison, Outcome
from diffts.figures import draw_evolution, draw_regret, draw_tasks
from diffts.learning import ArmProcedure
from diffts.problems import PopularNiche

PICTURES = ("regret.png", "tasks.png", "posterior.png")
#: The default rule, and Thompson sampling for those that are known by it.
POLICIES = ("diffts:default", "gts-full:default", "gts-full", "gmmts-10", "gts-diag", "ucb1")
#: Small enough to learn in a minute.
NETWORK = {"width": 128, "hidden": 32}


def short_procedure(steps: int) -> ArmProcedure:
    """Our procedure with smaller batches and fewer histories, in so many gradient steps."""
    whole = ArmProcedure(rounds=2, play_tasks=500, score_every=3000)
    small = dataclasses.replace(whole.training, batch_size=128)
    return dataclasses.replace(whole, training=small).scaled_to(steps)


def write_pictures(
    comparison: Comparison, prior: DiffusionPrior, outcomes: Mapping[str, Outcome], folder: Path
) -> None:
    """Regret curves, tasks beside draws, and the posterior of one task as it learns."""
    seed = comparison.seed
    order = np.argsort(PopularNiche.group_of_arm, kind="stable")
    draw_regret(outcomes, folder / "regret.png", title="Popular and Niche")
    draw_tasks(
        {
            "past tasks": np.asarray(comparison.past)[:20],
            "draws from the diffusion prior": prior.sample(20, seed=seed),
            "draws from a Gaussian mixture": comparison.mixture(10).sample(20, seed=seed),
        },
        folder / "tasks.png",
        order=order,
    )
    seen = play_one_task(comparison, prior, rounds=(0, 10, 50, 200))
    draw_evolution(prior, comparison.test[0], seen, folder / "posterior.png", order=order)


def play_one_task(
    comparison: Comparison, prior: DiffusionPrior, rounds: tuple[int, ...]
) -> dict[int, Evidence]:
    """Evidence about the first test task after some numbers of rounds of DiffTS."""
    task, noise_std = comparison.test[0], comparison.problem.noise_std
    agent = ThompsonSampling(prior, noise_std, rule="default", seed=comparison.seed)
    rng = np.random.default_rng(comparison.seed)
    arms: list[int] = []
    rewards: list[float] = []
    seen: dict[int, Evidence] = {}
    for played in range(max(rounds) + 1):
        if played in rounds:
            seen[played] = Evidence.from_history(arms, rewards, len(task), noise_std)
        arms.append(agent.choose())
        rewards.append(float(task[arms[-1]] + noise_std * rng.standard_normal()))
        agent.update(arms[-1], rewards[-1])
    return seen
