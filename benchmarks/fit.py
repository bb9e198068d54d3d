"""From a log to a belief: what is chosen, what it is worth on new tasks, and how long it takes.

python -m benchmarks.fit [--law NAME]… [--tasks N] [--minutes M] [--decisions N] [--out FILE.json]
                         [--candidates] [--learned] [--keep-log FILE.npz | --log FILE.npz]

Logs are made from laws whose new tasks we can draw, Popular and Niche and a factor Gaussian: each
task saw half of the arms, a few noisy pulls of each; 5,000 tasks are more than a million rows.
Development tasks play the fitted belief by the default rule; with --candidates every belief that
was fitted, too; with --learned a prior that `learn_prior` learned from the same evidence by its
default procedure: all by the same rule and with the same luck.

A machine without Ibis and pandas takes the counted log from another: --keep-log writes it (and does
no more), --log reads it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.gaussian_laws import LAWS
from benchmarks.kept_log import keep_log, kept_log
from benchmarks.measuring import command
from diffts.bandits.simulate import simulate
from diffts.circumstances import circumstances
from diffts.experiments.learning_plan import LearningPlan
from diffts.fitting import Budget, Fitted, fit
from diffts.fitting.fitted import Law
from diffts.learning import learn_prior
from diffts.logs import Log, read_log
from diffts.problems import Problem, get_problem

SHARE, PULLS = 0.5, 3
#: Rounds of new tasks after which regret is told, and the last.
LOOKED_AT = (100, 300, 1000)
Tell = Callable[[str], None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--law", action="append", choices=("popular-niche", *LAWS))
    parser.add_argument("--tasks", type=int, default=5000)
    parser.add_argument("--new-tasks", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--decisions", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--candidates", action="store_true", help="play every belief")
    parser.add_argument("--learned", action="store_true", help="and what learn_prior learns")
    parser.add_argument("--keep-log", type=Path, help="write the counted log of one law, and stop")
    parser.add_argument("--log", type=Path, help="read the counted log instead of a table")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    laws = options.law or ["popular-niche", "factor-gaussian"]
    if options.keep_log is not None:
        if len(laws) > 1:
            parser.error("--keep-log: one --law is kept in one file")
        log, _ = counted(get_law(laws[0]), options.tasks)
        keep_log(log, options.keep_log, laws[0])
        return
    if options.log is not None:
        laws = [kept_log(options.log)[1]]
        if options.law not in (None, laws):
            parser.error(f"--log: it is of the law {laws[0]}")
    rows = []
    for name in laws:
        rows.append(road(get_law(name), options))
        print(json.dumps(rows[-1], indent=1), flush=True)
        if options.out is not None:
            result = {"made_with": command("fit"), **circumstances(), "rows": rows}
            options.out.write_text(json.dumps(result, indent=1) + "\n")


def get_law(name: str) -> Problem:
    return LAWS[name] if name in LAWS else get_problem(name)


def road(problem: Problem, options: argparse.Namespace) -> dict[str, Any]:
    """One log from its rows to the regret of new tasks."""
    budget = Budget(options.minutes)

    def tell(what: str) -> None:
        print(f"{budget.used:6.0f} s  {what}", flush=True)

    with budget.part("reading"):
        log, rows = counted(problem, options.tasks, options.log)
    candidates: dict[str, Law] = {}
    fitted = fit(
        log,
        minutes=budget,
        decisions=options.decisions,
        on_progress=tell,
        on_candidate=candidates.__setitem__,
    )
    seconds = budget.used
    assert fitted.arms == tuple(map(str, range(problem.n_arms)))  # in the order that tasks have
    new = problem.development(options.new_tasks, beside=problem.sets_for_choices())

    def worth(kind: str, law: Law) -> dict[str, Any]:
        tell(f"playing new tasks: {kind}")
        belief = Fitted(kind, law, fitted.arms, fitted.noise, fitted.new_arms)
        run = simulate(
            belief.policy(horizon=options.rounds),
            new,
            problem.rewards,
            horizon=options.rounds,
            record_every=10,
            advice=False,
        )
        spans = [t for t in LOOKED_AT if t < options.rounds] + [options.rounds]
        at = {str(t): int(np.flatnonzero(run.rounds == t)[0]) for t in spans}
        return {
            "regret": {t: float(run.mean_regret[i]) for t, i in at.items()},
            "stderr": {t: float(run.stderr_regret[i]) for t, i in at.items()},
            "regret_of_tasks": {
                t: [round(float(x), 3) for x in run.regret[i]] for t, i in at.items()
            },
            "seconds_to_play": run.seconds,
        }

    result: dict[str, Any] = {
        "law": problem.name,
        "rows": rows,
        "tasks": len(log.tasks),
        "arms": problem.n_arms,
        "seconds_to_read": budget.parts["reading"],
        "seconds_in_all": seconds,
        "time": fitted.facts["time"],
        "decisions": options.decisions,
        "race_tasks": fitted.facts["race_tasks"],
        "race_note": fitted.facts["race_note"],
        "chosen": fitted.kind,
        "why": fitted.facts["why"],
        "verdict": fitted.facts["verdict"]["headline"],
        "judged": [
            {k: one.get(k) for k in ("kind", "log_score", "crps", "gap", "gap_se", "seconds",
                                     "steps", "note")}
            for one in fitted.facts["judged"]
        ],
        "rounds": options.rounds,
        **worth(fitted.kind, fitted.law),
    }  # fmt: skip
    if options.candidates:
        result["candidates"] = {kind: worth(kind, law) for kind, law in candidates.items()}
    if options.learned:
        result["learned"] = learned(problem, log, worth, tell)
    return result


def learned(
    problem: Problem, log: Log, worth: Callable[[str, Law], dict[str, Any]], tell: Tell
) -> dict[str, Any]:
    """What the default procedure learns from the same evidence, with the problem's own network."""
    tell("learning by the default procedure")
    started = time.perf_counter()
    network = LearningPlan(options={"width": 256}).network_for(problem)
    prior = learn_prior(log.evidence(), **network)
    return {"seconds": time.perf_counter() - started, **worth("diffusion", prior)}


def counted(problem: Problem, tasks: int, kept: Path | None = None) -> tuple[Log, int]:
    """The log of the first past tasks, counted up, and its number of rows."""
    if kept is not None:
        log = kept_log(kept)[0]
    else:
        past = np.asarray(problem.sets_for_choices().train, np.float64)[:tasks]
        log = read_log(logged(past, problem.noise_std, seed=0))
    return log, int(log.rows.sum())


def logged(tasks: NDArray[np.float64], noise: float, seed: int) -> Any:
    """A data frame: each task saw half of the arms, each from one to five times."""
    import pandas as pd  # here: whoever brings a counted log needs no tables

    rng = np.random.default_rng(seed)
    seen = rng.random(tasks.shape) < SHARE
    counts = rng.integers(1, 2 * PULLS, tasks.shape) * seen
    task, arm = np.nonzero(counts)
    rows = np.repeat(np.arange(len(task)), counts[task, arm])
    rewards = tasks[task, arm][rows] + noise * rng.standard_normal(len(rows))
    return pd.DataFrame({"task": task[rows], "arm": arm[rows], "reward": rewards})


if __name__ == "__main__":
    main()
