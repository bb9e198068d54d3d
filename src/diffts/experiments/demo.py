"""The demo: the whole method on Popular and Niche, small enough for a laptop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from diffts.bandits.agent import ThompsonSampling
from diffts.bandits.simulate import Simulation
from diffts.evidence import Evidence
from diffts.experiments.compare import Race, Recipe, prepare
from diffts.figures import draw_evolution, draw_regret, draw_tasks
from diffts.learning import TrainingConfig, TrainingState
from diffts.problems import PopularNiche

PICTURES = ("regret.png", "tasks.png", "posterior.png")
DEMO_POLICIES = ("diffts", "ucb1", "gts-diag", "gts-full", "gmmts-10")


def demo_race(
    *,
    tasks: int = 100,
    horizon: int = 1000,
    train_steps: int = 7000,
    seed: int = 0,
    on_training: Callable[[TrainingState], None] | None = None,
) -> tuple[Race, dict[str, Any]]:
    """The race and the settings of its runs: the paper's sampler with a chain of 33 steps."""
    problem = PopularNiche()
    sets = prepare(problem, DEMO_POLICIES, horizon, tasks, seed)
    recipe = Recipe(
        training=TrainingConfig(steps=train_steps, learning_rate=1e-3, decay="cosine"),
    )
    race = Race(problem, sets, recipe=recipe, seed=seed, on_training=on_training)
    return race, {"horizon": horizon, "steps": 33}


def write_pictures(race: Race, runs: Mapping[str, Simulation], folder: Path) -> None:
    """Regret curves, tasks beside draws, and the posterior of one task as it learns."""
    order = np.argsort(PopularNiche.group_of_arm, kind="stable")
    draw_regret(runs, folder / "regret.png", title="Popular and Niche")
    mixture = race.mixture(10)
    draw_tasks(
        {
            "past tasks": race.tasks.train[:20],
            "draws from the diffusion prior": race.prior.sample(20, seed=race.seed),
            "draws from a Gaussian mixture": mixture.sample(20, seed=race.seed),
        },
        folder / "tasks.png",
        order=order,
    )
    draw_evolution(
        race.prior,
        race.tasks.test[0],
        play_one_task(race, rounds=(0, 10, 50, 200)),
        folder / "posterior.png",
        order=order,
    )


def play_one_task(race: Race, rounds: tuple[int, ...]) -> dict[int, Evidence]:
    """Evidence about the first test task after some numbers of rounds of DiffTS."""
    task, noise_std = race.tasks.test[0], race.problem.noise_std
    agent = ThompsonSampling(race.prior, noise_std, steps=20, seed=race.seed)
    rng = np.random.default_rng(race.seed)
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
