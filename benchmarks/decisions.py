"""How well the network 'arms' decides: regret by the default rule and by Thompson sampling.

python -m benchmarks.decisions [--problem NAME]… [--data exact|imperfect]… [--seeds N] [--out FILE]

On development tasks, one prior for each training seed, learned side by side; baselines from the
same data by the same rules. A row for each policy and rule: regret after 40, 100, 300 and 1000
rounds, its standard error over tasks, and the 95th percentile of a task. For priors also the errors
τ of the denoiser at some steps and the largest entry of a hundred draws, in the user's units.

--wrong learns from past tasks that tell the wrong story, for everybody alike: 'permuted' (another
order of the arms) or 'other-law' (a factor Gaussian of the same mean and spread).
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Many small factorisations side by side: BLAS threads of each would stand in the others' way.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.gaussian_laws import LAWS, as_seen
from benchmarks.measuring import command
from diffts.bandits import RULES as ALL_RULES
from diffts.bandits.noise import number_or_word
from diffts.bandits.policy import Policy
from diffts.bandits.simulate import simulate
from diffts.bandits.simulation import Simulation
from diffts.circumstances import circumstances
from diffts.diffusion.prior import DiffusionPrior
from diffts.experiments.compare import Comparison, as_known
from diffts.learning import Lesson, Procedure, learn_priors
from diffts.priors import builtin_prior
from diffts.problems import Corruption, Problem, TaskSets, get_problem
from diffts.reproduction.specs import ARMS, PriorSpec

PROBLEMS = ("popular-niche", "labeled-arms-common", "labeled-arms", "maze", "bidding")
#: Laws that a Gaussian is hard to beat on: their past tasks are seen as a table of ratings is.
GAUSSIAN = tuple(LAWS)
RULES = ("default", "thompson")
BASELINES = ("gts-full", "gts-diag", "gmmts-10", "gmmts-25", "ucb1")
ROUNDS = (40, 100, 300, 1000)
STEPS = (1, 2, 5, 10, 20, 40, 70)
WRONG = ("permuted", "other-law")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", action="append", choices=(*PROBLEMS, *GAUSSIAN))
    parser.add_argument("--data", action="append", choices=("exact", "imperfect"))
    parser.add_argument("--seeds", type=int, default=3, help="of the training; 0: baselines alone")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--noise", action="append", help="assumed: a number, auto or bernoulli")
    parser.add_argument("--rule", action="append", choices=sorted(ALL_RULES))
    parser.add_argument("--baseline", action="append", help="none for none; default: all")
    parser.add_argument("--past-tasks", type=int, help="learn from so many; default: all")
    parser.add_argument("--wrong", choices=WRONG, help="learn from past tasks of another law")
    parser.add_argument("--procedure", type=json.loads, default={}, help="JSON: changes to it")
    parser.add_argument("--network", type=json.loads, default={}, help="JSON: sizes of the network")
    parser.add_argument("--builtin", action="store_true", help="play the ready-made prior")
    parser.add_argument("--priors", type=Path, help="parts of a reproduction: play its priors")
    parser.add_argument("--steps", action="append", type=int, help="of the sampler's chain")
    parser.add_argument("--keep", type=Path, help="where learned priors are kept")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    others = (options.past_tasks, options.wrong, options.procedure, options.network)
    if options.priors is not None and any(others):
        parser.error("--priors: were learned from all past tasks, as they are, by the usual recipe")
    rows: list[dict[str, Any]] = []
    for name in options.problem or PROBLEMS:
        for data in options.data or ("exact", "imperfect"):
            for row in race(name, data, options):
                rows.append(row)
                print(told(row), flush=True)
                if options.out is not None:  # row by row: a run that is stopped has something
                    result = {"made_with": command("decisions"), **circumstances(), "rows": rows}
                    options.out.write_text(json.dumps(result, indent=1) + "\n")


def race(name: str, data: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Priors of all seeds and the baselines, by all rules and with all noises."""
    problem = LAWS[name] if name in LAWS else get_problem(name)
    sets = problem.sets_for_choices()
    sets = as_told(sets._replace(train=sets.train[: options.past_tasks]), options.wrong)
    past, other = known_of(problem, sets, data)
    tasks = problem.development(options.tasks, beside=problem.sets_for_choices())
    noises = [number_or_word(one) for one in options.noise or [str(problem.noise_std)]]
    rules = options.rule or RULES
    same = {"problem": name, "data": data, "tasks": options.tasks}
    if options.wrong is not None:
        same["wrong"] = options.wrong
    for seed, (prior, seconds) in learned(problem, data, past, other, options).items():
        about = {"learning_seconds": seconds, **described(prior)}
        for noise in noises:
            comparison = Comparison(problem, past, tasks, problem.horizon, noise)
            for rule, steps in itertools.product(rules, options.steps or [None]):
                run = played(comparison, comparison.policy(f"diffts:{rule}", prior, steps=steps))
                chain = {} if steps is None else {"steps": steps}
                yield (
                    same
                    | {"policy": "diffts", "rule": rule, "seed": seed, "noise": noise, **chain}
                    | (measured(run) | about)
                )
    for policy in options.baseline or BASELINES:
        for noise in noises if policy != "none" else ():
            # Of a Gaussian law, Gaussians are given the truth: past tasks as they are.
            known = sets.train if name in LAWS else past
            comparison = Comparison(problem, known, tasks, problem.horizon, noise)
            for rule in rules if policy != "ucb1" else ("ucb",):
                named = policy if rule == "ucb" else f"{policy}:{rule}"
                run = played(comparison, comparison.policy(named))
                about = {"policy": policy, "rule": rule, "seed": None, "noise": noise}
                yield same | about | measured(run)


def played(comparison: Comparison, policy: Policy) -> Simulation:
    """A policy on the development tasks, never asked for advice: that takes many draws."""
    problem = comparison.problem
    return simulate(
        policy,
        comparison.test,
        problem.rewards,
        horizon=comparison.horizon,
        actions=problem.actions,
        advice=False,
    )


def known_of(problem: Problem, sets: TaskSets, data: str) -> tuple[Any, Any]:
    """What is known of past tasks and of those to calibrate on."""
    if problem.name in LAWS:
        return as_seen(sets.train, 0), as_seen(sets.calibration, 1)
    if data == "imperfect":
        known: tuple[Any, Any] = as_known(sets, Corruption(), 0)
        return known
    return sets.train, sets.calibration


def as_told(sets: TaskSets, wrong: str | None) -> TaskSets:
    """Past tasks as somebody tells them who is wrong about them."""
    if wrong is None:
        return sets
    rng = np.random.default_rng(1)
    n_arms = sets.train.shape[1]
    if wrong == "permuted":
        order = rng.permutation(n_arms)
        return sets._replace(train=sets.train[:, order], calibration=sets.calibration[:, order])
    loadings = rng.normal(size=(5, n_arms)) / np.sqrt(10.0)

    def drawn(tasks: Any) -> Any:
        factors, own = rng.normal(size=(len(tasks), 5)), rng.normal(size=tasks.shape)
        standard = factors @ loadings + own * np.sqrt(0.5)
        values = sets.train.mean() + sets.train.std() * standard
        return values.astype(np.float32)

    return sets._replace(train=drawn(sets.train), calibration=drawn(sets.calibration))


def learned(
    problem: Problem, data: str, past: Any, other: Any, options: argparse.Namespace
) -> dict[int, tuple[DiffusionPrior, float]]:
    """The priors of all seeds, and the seconds that they took together; read, if they were kept."""
    if not options.seeds:
        return {}
    if options.builtin:
        return {0: (builtin_prior(problem.name), 0.0)}
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    if options.priors is not None:  # learned from the same tasks by the same recipe
        kind = "perfect" if data == "exact" else data
        specs = {seed: PriorSpec(problem.name, kind, ARMS, seed) for seed in seeds}
        found = {
            seed: options.priors / problem.name / "priors" / s.name for seed, s in specs.items()
        }
        return {seed: (DiffusionPrior.load(path), 0.0) for seed, path in found.items()}
    advice = problem.suggested_arms
    how = Procedure.named("arms", **{**advice.procedure, **options.procedure})
    sizes = {**advice.options, **options.network}
    # What was learned in another way has another name.
    told = json.dumps([how.settings(), sizes, options.past_tasks, options.wrong])
    digest = hashlib.sha256(told.encode()).hexdigest()[:8]
    kept = {
        seed: None
        if options.keep is None
        else options.keep / f"{problem.name}-{data}-{digest}-{seed}"
        for seed in seeds
    }
    if all(path is not None and path.exists() for path in kept.values()):
        return {seed: (DiffusionPrior.load(path), 0.0) for seed, path in kept.items() if path}
    started = time.perf_counter()
    lessons = [Lesson(past, other, how, seed=seed) for seed in seeds]
    priors = learn_priors(lessons, network="arms", options=sizes)
    for path, prior in zip(kept.values(), priors, strict=True):
        if path is not None:
            prior.save(path, half=True)
    seconds = time.perf_counter() - started
    return {seed: (prior, seconds) for seed, prior in zip(seeds, priors, strict=True)}


def described(prior: DiffusionPrior) -> dict[str, Any]:
    """Errors of the denoiser, the largest entry of some draws, and how it was chosen."""
    tau = np.sqrt((prior.reconstruction_error**2).mean(1))
    return {
        "tau": {str(step): float(tau[step - 1]) for step in STEPS},
        "largest_entry": float(prior.sample(100).max()),
        "kept_step": prior.metadata["learning"]["kept_step"],
        "scores": prior.metadata["learning"]["scores"],
    }


def measured(run: Simulation) -> dict[str, Any]:
    """Regret on the way and at the end."""
    reached = [t for t in ROUNDS if t <= run.rounds[-1]]
    at = {t: run.regret[int(np.searchsorted(run.rounds, t))] for t in reached}
    return {
        "regret": {str(t): float(regret.mean()) for t, regret in at.items()},
        "stderr": {
            str(t): float(r.std(ddof=1) / np.sqrt(len(r))) if len(r) > 1 else 0.0
            for t, r in at.items()
        },
        "p95": float(np.quantile(run.regret[-1], 0.95)),
        "worst": float(run.regret[-1].max()),
        "decisions_per_second": run.decisions_per_second,
        "regret_of_tasks": [round(float(value), 2) for value in run.regret[-1]],
    }


def told(row: dict[str, Any]) -> str:
    """One line."""
    regret = "  ".join(f"{value:7.2f}" for value in row["regret"].values())
    error = list(row["stderr"].values())[-1]
    who = f"{row['policy']}:{row['rule']}" + (
        f" seed {row['seed']}" if row["seed"] is not None else ""
    )
    return (
        f"{row['problem']:20s} {row['data']:9s} {who:26s} σ̂ {row['noise']}: {regret} ± {error:.2f}"
        + (f"  {row['steps']} steps" if "steps" in row else "")
        + f"  95% {row['p95']:.1f}  {row['decisions_per_second']:.0f}/s"
        + (f"  kept {row['kept_step']}, {row['learning_seconds']:.0f} s" if "tau" in row else "")
    )


if __name__ == "__main__":
    main()
