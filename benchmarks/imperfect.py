"""Priors from half-missing, noisy data: τ, held-out score and regret of each procedure.

On development tasks: procedures may be chosen by it. (results/h200-imperfect.json was made before
there were any, on test tasks.)

python -m benchmarks.imperfect [--out FILE.json] [--problem NAME]… [--scale 1.0] [--row NAME]…
python -m benchmarks.imperfect --summary results/h200-imperfect.json
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console

from diffts.bandits.simulate import Simulation
from diffts.diffusion.prior import DiffusionPrior
from diffts.experiments.compare import Comparison, as_known
from diffts.experiments.learning_plan import LearningPlan
from diffts.learning import PROCEDURES, Procedure, TrainingConfig
from diffts.problems import Corruption, TaskSets, get_problem
from diffts.reproduction.pictures import tau_error

OURS, PAPER = PROCEDURES["default"], PROCEDURES["paper"]
ROWS: dict[str, Procedure | None] = {
    "exact data": None,
    "ours": OURS,
    "ours, λ = 0.1": dataclasses.replace(OURS, sure=0.1),
    "ours, no EM": dataclasses.replace(OURS, rounds=0),
    "paper's, λ = 0.1": PAPER,
    "paper's, λ = 0": dataclasses.replace(PAPER, sure=0.0),
    "paper's, no EM": PROCEDURES["paper-without-em"],
}
BASELINES = ("gts-full", "gts-diag", "gmmts-10", "ucb1")


def errors_of_tau(prior: DiffusionPrior, tasks: TaskSets) -> dict[str, float]:
    """Mean ``|τ / τ_clean - 1|`` over arms and steps; τ_clean from exact calibration tasks."""
    error = tau_error(prior, tasks.calibration)
    return {"tau_error": float(error.mean()), "tau_error_first_ten": float(error[:10].mean())}


def row(name: str, label: str, run: Simulation, seconds: float, **more: Any) -> dict[str, Any]:
    return {
        "problem": name,
        "prior": label,
        "regret": float(run.mean_regret[-1]),
        "stderr": float(run.stderr_regret[-1]),
        "regret_of_tasks": [round(float(value), 3) for value in run.regret[-1]],
        "seconds": seconds,
        **more,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--problem", action="append")
    parser.add_argument("--row", action="append")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--horizon", type=int)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--summary", type=Path)
    options = parser.parse_args()
    if options.summary is not None:
        summarise(options.summary)
        return
    console = Console(width=160)
    rows: list[dict[str, Any]] = []

    def save() -> None:
        if options.out is None:
            return
        chip = jax.devices()[0].device_kind
        where = f"{chip}, Python {platform.python_version()}, jax {version('jax')}"
        command = f"python -m benchmarks.imperfect --width {options.width} --seed {options.seed}"
        command += "".join(f" --row '{label}'" for label in options.row or [])
        content = {"made_with": command, "on": where, "rows": rows}
        options.out.write_text(json.dumps(content, indent=1) + "\n")

    for name in options.problem or ["popular-niche", "labeled-arms"]:
        problem = get_problem(name)
        tasks = problem.sets_for_choices(options.seed)
        known = as_known(tasks, Corruption(), options.seed)
        horizon = options.horizon or problem.horizon
        comparison = Comparison(problem, known[0], tasks.test, horizon, seed=options.seed)
        for label, procedure in ROWS.items():
            if options.row and label not in options.row:
                continue
            started = time.perf_counter()
            plan = LearningPlan(options={"width": options.width})
            more: dict[str, Any] = {}
            if procedure is None:
                training = TrainingConfig(
                    steps=max(1, int(options.scale * 15_000)), decay="cosine", ema_decay=0.995
                )
                plan = dataclasses.replace(plan, config=training)
                prior = plan.learn(problem, *tasks[:2], seed=options.seed)
            else:
                plan = dataclasses.replace(plan, procedure=procedure.scaled(options.scale))
                prior = plan.learn(problem, *known, seed=options.seed)
                more = errors_of_tau(prior, tasks) | {
                    key: prior.metadata["learning"][key]
                    for key in (
                        "held_out_crps",
                        "held_out_stderr",
                        "held_out_rmse",
                        "kept_step",
                        "scores",
                    )
                }
            trained = time.perf_counter() - started
            draws = prior.sample(2000, seed=1)
            more["width_of_prior"] = float(draws.std() / tasks.train.std())
            run = comparison.play(comparison.policy("diffts", prior), options.seed)
            if label == "ours":
                quick = comparison.policy("diffts", prior, "moment-learned", 20)
                short = comparison.play(quick, options.seed)
                more["moment_learned_20"] = [
                    float(short.mean_regret[-1]), float(short.stderr_regret[-1]),
                ]  # fmt: skip
            rows.append(row(name, label, run, trained, **more))
            tell(console, rows[-1])
            save()
        for policy in BASELINES:
            if options.row and policy not in options.row:
                continue
            started = time.perf_counter()
            run = comparison.play(comparison.policy(policy), options.seed)
            rows.append(row(name, policy, run, time.perf_counter() - started))
            tell(console, rows[-1])
            save()


def summarise(path: Path) -> None:
    """Print saved rows, and how far each is above ours, task by task."""
    console = Console(width=160)
    content = json.loads(path.read_text())
    rows = [row for run in content.get("runs", [content]) for row in run["rows"]]
    for result in rows:
        tell(console, result)
    ours = {row["problem"]: row for row in rows if row["prior"] == "ours"}
    for result in rows:
        reference = ours[result["problem"]]
        if result is reference:
            continue
        gap = np.subtract(result["regret_of_tasks"], reference["regret_of_tasks"])
        error = gap.std(ddof=1) / np.sqrt(len(gap))
        console.print(
            f"{result['problem']:14s} {result['prior']}: above ours by {gap.mean():.1f} ± "
            f"{error:.1f}, {gap.mean() / error:.1f} standard errors task by task",
            highlight=False,
        )


def tell(console: Console, result: dict[str, Any]) -> None:
    console.print(
        f"{result['problem']:14s} {result['prior']:18s} {result['regret']:6.1f} ± "
        f"{result['stderr']:.1f}  τ error {result.get('tau_error', np.nan):.3f} (first ten "
        f"{result.get('tau_error_first_ten', np.nan):.3f})  CRPS "
        f"{result.get('held_out_crps', np.nan):.5f} ± {result.get('held_out_stderr', np.nan):.5f} "
        f"of step {result.get('kept_step', '-')}  "
        f"width {result.get('width_of_prior', np.nan):.3f}  {result['seconds']:.0f} s",
        highlight=False,
    )


if __name__ == "__main__":
    main()
