"""From a log to a belief: what is chosen, what it is worth on new tasks, and how long it takes.

python -m benchmarks.fit [--law NAME]… [--tasks N] [--minutes M] [--rounds T] [--out FILE.json]

Logs are made from laws whose new tasks we can draw, Popular and Niche and a factor Gaussian: each
task saw half of the arms, a few noisy pulls of each; 5,000 tasks are more than a million rows.
Development tasks play the fitted belief by the default rule.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.gaussian_laws import LAWS
from benchmarks.measuring import command
from diffts.bandits.simulate import simulate
from diffts.circumstances import circumstances
from diffts.fitting import fit
from diffts.logs import read_log
from diffts.problems import Problem, get_problem

SHARE, PULLS = 0.5, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--law", action="append", choices=("popular-niche", *LAWS))
    parser.add_argument("--tasks", type=int, default=5000)
    parser.add_argument("--new-tasks", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    for name in options.law or ["popular-niche", "factor-gaussian"]:
        problem = LAWS[name] if name in LAWS else get_problem(name)
        rows.append(road(problem, options))
        print(json.dumps(rows[-1], indent=1), flush=True)
        if options.out is not None:
            result = {"made_with": command("fit"), **circumstances(), "rows": rows}
            options.out.write_text(json.dumps(result, indent=1) + "\n")


def road(problem: Problem, options: argparse.Namespace) -> dict[str, Any]:
    """One log from its rows to the regret of new tasks."""
    sets = problem.sets_for_choices()
    past = np.asarray(sets.train, np.float64)[: options.tasks]
    table = logged(past, problem.noise_std, seed=0)
    started = time.perf_counter()
    log = read_log(table)
    read = time.perf_counter() - started

    def tell(what: str) -> None:
        print(f"{time.perf_counter() - started:6.0f} s  {what}", flush=True)

    fitted = fit(log, minutes=options.minutes, on_progress=tell)
    seconds = time.perf_counter() - started
    new = problem.development(options.new_tasks, beside=sets)
    assert fitted.arms == tuple(map(str, range(problem.n_arms)))  # in the order that tasks have
    policy = fitted.policy(horizon=options.rounds)
    run = simulate(policy, new, problem.rewards, horizon=options.rounds)
    return {
        "law": problem.name,
        "rows": len(table),
        "tasks": len(past),
        "arms": problem.n_arms,
        "seconds_to_read": read,
        "seconds_in_all": seconds,
        "chosen": fitted.kind,
        "why": fitted.facts["why"],
        "verdict": fitted.facts["verdict"]["headline"],
        "judged": [
            {k: one.get(k) for k in ("kind", "log_score", "crps", "gap", "gap_se", "seconds")}
            for one in fitted.facts["judged"]
        ],
        "rounds": options.rounds,
        "regret": float(run.mean_regret[-1]),
        "stderr": float(run.stderr_regret[-1]),
    }


def logged(tasks: NDArray[np.float64], noise: float, seed: int) -> pd.DataFrame:
    """Each task saw half of the arms, each from one to five times."""
    rng = np.random.default_rng(seed)
    seen = rng.random(tasks.shape) < SHARE
    counts = rng.integers(1, 2 * PULLS, tasks.shape) * seen
    task, arm = np.nonzero(counts)
    rows = np.repeat(np.arange(len(task)), counts[task, arm])
    rewards = tasks[task, arm][rows] + noise * rng.standard_normal(len(rows))
    return pd.DataFrame({"task": task[rows], "arm": arm[rows], "reward": rewards})


if __name__ == "__main__":
    main()
