"""Regret of DiffTS by network, training recipe and posterior sampler (for a GPU: minutes there).

On development tasks: recipes may be chosen by it. (results/h200-regret.json was made before there
were any, on test tasks.)

python -m benchmarks.regret [--out FILE.json] [--problem NAME]…
"""

from __future__ import annotations

import argparse
import json
import platform
from importlib.metadata import version
from pathlib import Path

import jax
from rich.console import Console

from diffts.experiments.compare import Comparison
from diffts.experiments.learning_plan import LearningPlan
from diffts.learning import TrainingConfig
from diffts.problems import get_problem

PAPER = TrainingConfig()
OURS = TrainingConfig(decay="cosine", ema_decay=0.995)
PLANS = {
    "residual-conv, paper's recipe": LearningPlan(network="residual-conv", config=PAPER),
    "residual-mlp 512, paper's recipe": LearningPlan(options={"width": 512}, config=PAPER),
    "residual-mlp 256": LearningPlan(options={"width": 256}, config=OURS),
    "residual-mlp 512": LearningPlan(options={"width": 512}, config=OURS),
    "residual-mlp 1024": LearningPlan(options={"width": 1024}, config=OURS),
}
SAMPLERS = [
    (sampler, steps) for sampler in ("paper", "moment-diagonal", "moment") for steps in (100, 20)
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--problem", action="append")
    options = parser.parse_args()
    console, rows = Console(), []
    for name in options.problem or ["popular-niche", "labeled-arms"]:
        problem = get_problem(name)
        tasks = problem.sets_for_choices()
        for label, plan in PLANS.items():
            prior = plan.learn(problem, tasks.train, tasks.calibration)
            comparison = Comparison(problem, tasks.train, tasks.test, problem.horizon)
            for sampler, steps in SAMPLERS if label == "residual-mlp 512" else SAMPLERS[:1]:
                run = comparison.play(comparison.policy("diffts", prior, sampler, steps))
                regret, error = run.mean_regret[-1], run.stderr_regret[-1]
                console.print(f"{name} | {label} | {sampler} {steps} | {regret:.1f} ± {error:.1f}")
                rows.append(
                    {
                        "problem": name,
                        "recipe": label,
                        "sampler": sampler,
                        "steps": steps,
                        "horizon": problem.horizon,
                        "regret": float(regret),
                        "stderr": float(error),
                    }
                )
    if options.out is not None:
        chip = jax.devices()[0].device_kind
        where = f"{chip}, Python {platform.python_version()}, jax {version('jax')}"
        text = json.dumps({"made_with": "python -m benchmarks.regret", "on": where, "rows": rows})
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
