"""Decisions per second of the shared baselines, beside other bandit libraries, in one run.

    python -m benchmarks.baselines [--out FILE.md] [--rounds N]

The same simulated problem for all: Popular and Niche, 200 arms, 100 tasks, Gaussian rewards. Each
library plays its own UCB and its own Gaussian Thompson sampling, as its documentation shows: an
agent for each task, a loop over rounds of choosing, drawing a reward and updating. Ours plays the
100 tasks as one batch. Drawing the reward is part of everybody's loop. The libraries are timed over
fewer tasks and rounds (their cost for a decision does not fall with the number of tasks).
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.measuring import markdown_table
from diffts.bandits.actions import BestArm
from diffts.bandits.policies import UCB1, DiagonalGTS, Ingredients, Policy, make_policy
from diffts.bandits.simulate import simulate
from diffts.learning import fit_gaussian
from diffts.problems import PopularNiche

Choose = Callable[[], int]
Update = Callable[[int, float], Any]
ARMS, NOISE = list(range(200)), 0.1


def mabwiser_agent(policy: str, seed: int) -> tuple[Choose, Update]:
    from mabwiser.mab import MAB, LearningPolicy

    rule = {
        "UCB": LearningPolicy.UCB1(alpha=NOISE),
        # Its Thompson sampling is for binary rewards only: rewards above a half count as one.
        "Thompson": LearningPolicy.ThompsonSampling(binarizer=lambda _, reward: reward > 0.5),
    }[policy]
    agent = MAB(arms=ARMS, learning_policy=rule, seed=seed)
    agent.fit(ARMS, [0.5] * len(ARMS))  # it must be fitted before it can choose
    return agent.predict, lambda arm, reward: agent.partial_fit([arm], [reward])


def river_agent(policy: str, seed: int) -> tuple[Choose, Update]:
    from river import bandit, proba

    agent = {
        "UCB": lambda: bandit.UCB(delta=NOISE, seed=seed),
        "Thompson": lambda: bandit.ThompsonSampling(
            reward_obj=proba.Gaussian(seed=seed), seed=seed
        ),
    }[policy]()
    return lambda: agent.pull(ARMS), lambda arm, reward: agent.update(arm, reward)


def bayesianbandits_agent(policy: str, seed: int) -> tuple[Choose, Update]:
    import bayesianbandits as bb

    arms = [bb.Arm(arm, learner=bb.NormalRegressor(alpha=1.0, beta=1 / NOISE**2)) for arm in ARMS]
    rule = {"UCB": bb.UpperConfidenceBound(0.84), "Thompson": bb.ThompsonSampling()}[policy]
    agent = bb.Agent(arms, rule, random_seed=seed)

    return lambda: agent.pull()[0], lambda _, reward: agent.update(np.array([reward]))


def time_library(make: Any, policy: str, tasks: Any, rounds: int) -> float:
    """Decisions per second of a loop over tasks and rounds."""
    rng = np.random.default_rng(0)
    agents = [make(policy, seed) for seed in range(len(tasks))]
    started = time.perf_counter()
    for (choose, update), task in zip(agents, tasks, strict=True):
        for _ in range(rounds):
            arm = int(choose())
            update(arm, float(task[arm] + NOISE * rng.standard_normal()))
    return len(tasks) * rounds / (time.perf_counter() - started)


def _not_needed(*_: Any) -> Any:
    raise AssertionError("these policies need no such prior")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="write the table to this file, as markdown")
    parser.add_argument("--rounds", type=int, default=1000, help="rounds that ours plays")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")

    problem = PopularNiche()
    sets = problem.sets_for_choices()
    gaussian = fit_gaussian(sets.train)
    given = Ingredients(
        actions=BestArm(200),
        noise=NOISE,
        prior=_not_needed,
        gaussian=lambda: gaussian,
        mixture=_not_needed,
    )
    ours: dict[str, Policy] = {
        "UCB": UCB1(200, NOISE),
        "Thompson": DiagonalGTS(gaussian, NOISE),
        "Thompson, full covariance": make_policy("gts-full", given),
    }
    libraries = {
        "mabwiser": mabwiser_agent,
        "river": river_agent,
        "bayesianbandits": bayesianbandits_agent,
    }
    rows: list[tuple[str, str, float, str]] = []
    for policy, agent in ours.items():
        run = simulate(agent, sets.test, problem.rewards, horizon=options.rounds)
        rows.append((policy, "diffts, 100 tasks", run.decisions_per_second, ""))
        if policy in ("UCB", "Thompson"):
            for name, make in libraries.items():
                speed = time_library(make, policy, sets.test[:2], 300)
                ratio = run.decisions_per_second / speed
                verdict = "reached" if ratio >= 50 else "MISSED"
                rows.append((policy, name, speed, f"{ratio:.0f} (50: {verdict})"))
    names = ("policy", "library", "decisions / s", "ours / this")
    table = Table(*names)
    written = [(policy, name, f"{speed:,.0f}", ratio) for policy, name, speed, ratio in rows]
    for row in written:
        table.add_row(*row)
    Console(width=110).print(table)
    versions = ", ".join(
        f"{package} {version(package)}" for package in ("jax", "numpy", *libraries)
    )
    if options.out is not None:
        lines = [
            "# Baselines: decisions per second",
            "",
            "Made with `python -m benchmarks.baselines` (`make bench`): Popular and Niche,",
            "200 arms, 100 tasks in one batch for ours, one agent at a time for the others.",
            "",
            *markdown_table(names, written),
            "",
            f"{platform.machine()}, Python {platform.python_version()}, {versions}.",
        ]
        options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
