"""Noise that nobody has to know, beside numbers: regret on development tasks.

Bidding: fixed σ̂ beside "bernoulli" and "auto", from exact and from imperfect past data.
Popular and Niche, Labeled Arms: the true σ beside "auto".

python -m benchmarks.noise [--tasks N] [--policy NAME]… [--problem NAME]… [--out FILE.json]

Policies may be given with a rule: ``gts-full:default``. A diffusion prior is the built-in one for
exact data; for imperfect data it is learned here (a GPU is of use), or read from ``--keep DIR``.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from pathlib import Path
from typing import Any

# Many small factorisations side by side: BLAS threads of each would stand in the others' way
# (for 300 arms on two cores, up to fifty times slower). Before JAX is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from rich.console import Console

from benchmarks.measuring import command
from diffts import builtin_prior
from diffts.bandits.noise import NoiseLike
from diffts.circumstances import circumstances
from diffts.diffusion.prior import DiffusionPrior
from diffts.evidence import Evidence
from diffts.experiments.compare import Comparison, as_known
from diffts.experiments.learning_plan import LearningPlan
from diffts.problems import Corruption, Problem, get_problem

POLICIES = ("gts-full", "gts-full:default")
#: Noises of each problem; differences are from the best number among them.
NOISES: dict[str, tuple[NoiseLike, ...]] = {
    "bidding": (0.1, 0.15, 0.2, 0.3, "bernoulli", "auto"),
    "popular-niche": (0.1, "auto"),
    "labeled-arms": (0.1, "auto"),
}
DATA = {"bidding": ("exact", "imperfect"), "popular-niche": ("exact",), "labeled-arms": ("exact",)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--horizon", type=int, default=1000)
    parser.add_argument("--policy", action="append", help="gts-full, gts-diag, diffts, name:rule …")
    parser.add_argument("--problem", action="append", choices=sorted(NOISES))
    parser.add_argument("--data", choices=("exact", "imperfect"))
    parser.add_argument("--steps", type=int, help="of the diffusion; default: all of the prior's")
    parser.add_argument("--keep", type=Path, help="where a learned prior is kept")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    console, rows = Console(width=130), []
    for name in options.problem or NOISES:
        for data in DATA[name]:
            if options.data in (None, data):
                for policy in options.policy or POLICIES:
                    rows += race(console, name, data, policy, options)
                    save(options.out, rows)


def race(
    console: Console, name: str, data: str, policy: str, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """One policy with each noise on the same tasks and rewards, each against the best number."""
    problem = get_problem(name)
    sets = problem.sets_for_choices()
    past = sets.train if data == "exact" else as_known(sets, Corruption(), 0)[0]
    test = problem.development(options.tasks, beside=sets)
    prior = the_prior(problem, past, options.keep) if policy.startswith("diffts") else None
    comparison = Comparison(problem, past, test, options.horizon)
    runs = {}
    for noise in NOISES[name]:
        this = dataclasses.replace(comparison, noise_std=noise)
        vars(this).update(
            {k: v for k, v in vars(comparison).items() if k in ("gaussian", "diagonal")}
        )
        runs[noise] = this.play(this.policy(policy, prior, steps=options.steps))
        for fit in ("gaussian", "diagonal"):  # each fit is made once
            if fit in vars(this):
                vars(comparison)[fit] = vars(this)[fit]
    numbers = [noise for noise in runs if not isinstance(noise, str)]
    best = min(numbers, key=lambda noise: float(runs[noise].mean_regret[-1]))
    rows = []
    for noise, run in runs.items():
        gap = run.regret[-1] - runs[best].regret[-1]
        error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else 0.0
        row: dict[str, Any] = {
            "problem": name,
            "data": data,
            "policy": policy,
            "noise": noise,
            "tasks": options.tasks,
            "horizon": options.horizon,
            "regret": float(run.mean_regret[-1]),
            "stderr": float(run.stderr_regret[-1]),
            "best_number": best,
            "gap": float(gap.mean()),
            "gap_stderr": float(error),
            "worst_twentieth": float(np.quantile(run.regret[-1], 0.95)),
            "regret_of_tasks": [round(float(value), 3) for value in run.regret[-1]],
            "decisions_per_second": run.decisions_per_second,
        }
        rows.append(row)
        share = 100 * float(gap.mean()) / float(runs[best].mean_regret[-1])
        console.print(
            f"{name:13s} {data:9s} {policy:9s} {noise!s:>9s}  {row['regret']:7.2f} ± "
            f"{row['stderr']:5.2f}  from {best}: {row['gap']:+6.2f} ± {error:5.2f} ({share:+5.1f}%)"
            f"  95% {row['worst_twentieth']:6.1f}  {run.decisions_per_second:7.0f}/s",
            highlight=False,
        )
    return rows


def the_prior(problem: Problem, past: Any, keep: Path | None) -> DiffusionPrior:
    """The built-in prior, or one learned from imperfect data."""
    if not isinstance(past, Evidence):
        return builtin_prior(problem.name)
    kept = None if keep is None else keep / f"{problem.name}-imperfect"
    if kept is not None and kept.exists():
        return DiffusionPrior.load(kept)
    prior = LearningPlan().learn(problem, past, None)
    if kept is not None:
        prior.save(kept)
    return prior


def save(path: Path | None, rows: list[dict[str, Any]]) -> None:
    if path is None:
        return
    content = {"made_with": command("noise"), **circumstances(), "rows": rows}
    path.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
