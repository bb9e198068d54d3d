"""How the baselines' mixtures are best fitted: regret of GMMTS by the fit's regularisation.

python -m benchmarks.mixtures [--problem NAME]… [--data exact|imperfect]… [--policy NAME]…
                              [--setting NAME]… [--tasks N] [--horizon T] [--out FILE]

Thompson sampling on development tasks. Exact data: the share of the data's variance added to each
diagonal ('1e-06' is the default of fit_mixture), or each covariance drawn towards that of all tasks
by a prior worth K/4, K or 4 K tasks. Imperfect data: the weight of the prior that draws covariances
towards a factor Gaussian's ('K' is the default).

A row for each mixture and setting: regret at the end, its standard error over tasks, and the mean
difference from the default setting, on the same tasks and rewards. With --out a run that was
stopped goes on: rows that are in the file are not played again.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Many small factorisations side by side: BLAS threads of each would stand in the others' way.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.measuring import command
from diffts.bandits.policies import MixtureTS
from diffts.bandits.simulate import simulate
from diffts.circumstances import circumstances
from diffts.experiments.compare import as_known
from diffts.learning import fit_mixture
from diffts.problems import Corruption, get_problem

#: Tasks and rounds, with 10 and with 25 components. Two cores that are shared make 3000 decisions a
#: second while the posteriors of a task fit into the cache (8 MB), then 170 or fewer; of mazes,
#: where each path is solved for anew, 60 with 10 components.
SIZES = {
    "popular-niche": {"gmmts-10": (100, 1000), "gmmts-25": (50, 1000)},
    "maze": {"gmmts-10": (30, 100), "gmmts-25": (12, 100)},
    "bidding": {"gmmts-10": (100, 1000), "gmmts-25": (50, 500)},
    "labeled-arms": {"gmmts-10": (25, 300), "gmmts-25": (12, 200)},
}
#: From imperfect data of Labeled Arms a fit takes twenty minutes.
PROBLEMS = {
    "exact": ("popular-niche", "maze", "bidding", "labeled-arms"),
    "imperfect": ("popular-niche", "maze", "bidding"),
}
POLICIES = {"gmmts-10": 10, "gmmts-25": 25}
SHARES = {"1e-6": 1e-6, "1e-3": 1e-3, "1e-2": 1e-2, "1e-1": 1e-1}
WEIGHTS = {"K/4": 0.25, "K": 1.0, "4K": 4.0}
SETTINGS = {"exact": (*SHARES, *WEIGHTS), "imperfect": tuple(WEIGHTS)}
#: From exact data, where decisions are slow, and 10 components have told what is worth playing.
FEWER = {
    ("maze", "gmmts-25"): ("1e-6", "1e-3", "1e-2", "1e-1", "K"),
    ("bidding", "gmmts-25"): ("1e-6", "1e-3", "1e-2", "K/4", "K"),
    ("labeled-arms", "gmmts-10"): ("1e-6", "1e-3", "1e-2", "1e-1", "K"),
    ("labeled-arms", "gmmts-25"): ("1e-6", "1e-3", "1e-2", "1e-1", "K"),
}
DEFAULTS = {"exact": "1e-6", "imperfect": "K"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", action="append", choices=tuple(SIZES))
    parser.add_argument("--data", action="append", choices=tuple(PROBLEMS))
    parser.add_argument("--policy", action="append", choices=tuple(POLICIES))
    parser.add_argument("--setting", action="append", choices=(*SHARES, *WEIGHTS))
    parser.add_argument("--tasks", type=int, help="default: 100 or fewer, see SIZES")
    parser.add_argument("--horizon", type=int, help="default: 1000 or fewer")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if options.out is not None and options.out.exists():
        rows = json.loads(options.out.read_text())["rows"]
    for asked in plan(options):
        if any(asked.items() <= row.items() for row in rows):
            continue
        row = asked | measured(**asked)
        rows.append(row)
        print(told(row, rows), flush=True)
        if options.out is not None:
            result = {"made_with": command("mixtures"), **circumstances(), "rows": rows}
            options.out.write_text(json.dumps(result, indent=1) + "\n")


def plan(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What is to be played, the default setting first."""
    for data in options.data or PROBLEMS:
        for problem in options.problem or PROBLEMS[data]:
            for policy in options.policy or POLICIES:
                tasks, horizon = SIZES[problem][policy]
                few = FEWER.get((problem, policy)) if data == "exact" else None
                asked = options.setting or few or SETTINGS[data]
                settings = [one for one in SETTINGS[data] if one in asked]
                for setting in sorted(settings, key=lambda one: one != DEFAULTS[data]):
                    yield {
                        "problem": problem,
                        "data": data,
                        "policy": policy,
                        "setting": setting,
                        "tasks": options.tasks or tasks,
                        "horizon": options.horizon or horizon,
                    }


def measured(
    problem: str, data: str, policy: str, setting: str, tasks: int, horizon: int
) -> dict[str, Any]:
    """Regret of a mixture that was fitted with one setting."""
    played = get_problem(problem)
    past, test = past_and_tasks(problem, data, tasks)
    started = time.perf_counter()
    share = SHARES.get(setting, 1e-6)
    prior_tasks = WEIGHTS[setting] * played.n_arms if setting in WEIGHTS else None
    mixture = fit_mixture(past, POLICIES[policy], regularisation=share, prior_tasks=prior_tasks)
    seconds = time.perf_counter() - started
    belief = MixtureTS(mixture, played.noise_std, single_arm=played.actions.single_arm)
    run = simulate(
        belief,
        test,
        played.rewards,
        horizon=horizon,
        actions=played.actions,
        advice=False,
    )
    regret = run.regret[-1]
    return {
        "noise": played.noise_std,
        "regularisation": share,
        **({} if prior_tasks is None else {"prior_tasks": prior_tasks}),
        "regret": float(regret.mean()),
        "stderr": standard_error(regret),
        "fit_seconds": seconds,
        "decisions_per_second": run.decisions_per_second,
        "regret_of_tasks": [round(float(value), 3) for value in regret],
    }


@functools.lru_cache(1)
def past_and_tasks(name: str, data: str, tasks: int) -> tuple[Any, Any]:
    """What is known of past tasks, and the development tasks."""
    problem = get_problem(name)
    sets = problem.sets_for_choices()
    past = sets.train if data == "exact" else as_known(sets, Corruption(), 0)[0]
    return past, problem.development(tasks, beside=sets)


def standard_error(values: Any) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def told(row: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """One line; with the difference from the default setting, where that was played."""
    same = ("problem", "data", "policy", "tasks", "horizon")
    line = (
        f"{row['problem']:14s} {row['data']:9s} {row['policy']:8s} {row['setting']:>5s}  "
        f"{row['regret']:7.2f} ± {row['stderr']:5.2f}"
    )
    for other in rows:
        if other["setting"] == DEFAULTS[row["data"]] and all(other[k] == row[k] for k in same):
            gap = np.subtract(row["regret_of_tasks"], other["regret_of_tasks"])
            line += f"  {gap.mean():+7.2f} ± {standard_error(gap):5.2f}"
    return (
        f"{line}  {row['tasks']} tasks, {row['horizon']} rounds, fitted in "
        f"{row['fit_seconds']:.0f} s, {row['decisions_per_second']:.0f}/s"
    )


if __name__ == "__main__":
    main()
