"""Every rule on every problem: regret at three horizons, its tail, the right arm, and the cost.

python -m benchmarks.rules [--problem NAME]… [--belief NAME]… [--rule NAME]… [--out FILE.json]

On development tasks: rules are chosen by it. Rules that can use a horizon are told it, in a run of
its own; the others play once, and are looked at on the way. Beliefs: ``diffts`` (with the built-in
prior, or one learned here for the Gaussian laws, kept in a folder if told so), ``gts-full``, any
policy that has a belief of its own, and ``exact``, the enumerated posterior of Popular and Niche.

python -m benchmarks.rule_tables prints what is kept in results/rules.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.gaussian_laws import LAWS, as_seen
from benchmarks.measuring import command
from diffts.bandits import RULES, Policy, make_rule
from diffts.bandits.noise import number_or_word
from diffts.bandits.rules import ThompsonRule
from diffts.bandits.simulation import Simulation
from diffts.circumstances import circumstances
from diffts.diffusion.prior import DiffusionPrior
from diffts.experiments.compare import Comparison
from diffts.learning import learn_prior
from diffts.priors import builtin_prior
from diffts.problems import Problem, get_problem
from diffts.problems.popular_niche_exact import ExactPopularNicheBelief

PROBLEMS = ("popular-niche", "labeled-arms", "bidding", "maze", *LAWS)
HORIZONS = (100, 300, 1000)
#: The default is one of the others; the last three look at every arm first, or at nothing.
LEFT_OUT = ("default", "ucb", "epsilon-greedy", "uniform")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", action="append", choices=PROBLEMS)
    parser.add_argument("--belief", action="append", help="default: diffts and gts-full")
    parser.add_argument("--rule", action="append", choices=sorted(RULES))
    parser.add_argument("--horizon", action="append", type=int)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--noise", default=None, help="a number, auto or bernoulli")
    parser.add_argument("--sampler", default="paper")
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--keep", type=Path, help="where learned priors are kept")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rules = options.rule or [name for name in RULES if name not in LEFT_OUT]
    rows: list[dict[str, Any]] = []
    for name in options.problem or PROBLEMS:
        first = len(rows)
        for row in race(name, rules, options):
            rows.append(row)
            if options.out is not None:  # row by row: a run that is stopped has something
                save(options.out, rows)
        print_table(name, rows[first:])


def save(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """The rows, and what they were made with."""
    result = {"made_with": command("rules"), "versions": circumstances(), "rows": rows}
    path.write_text(json.dumps(result, indent=1) + "\n")


def race(name: str, rules: Sequence[str], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """All rules on all beliefs of one problem; a row for each of them and each horizon."""
    problem, past, tasks = given(name, options.tasks)
    horizons = [t for t in options.horizon or HORIZONS if t <= problem.horizon]
    noise = None if options.noise is None else number_or_word(options.noise)
    playable = [
        rule for rule in rules if problem.actions.arm_by_arm or not make_rule(rule).arm_by_arm
    ]
    for belief in options.belief or ["diffts", "gts-full"]:
        if belief == "exact" and name != "popular-niche":
            continue
        comparison = Comparison(problem, past, tasks, horizons[-1], noise)
        policy = policy_of(belief, comparison, options)
        thompson: dict[int, Any] = {}
        for rule in playable:
            for horizon, run in runs(comparison, policy, rule, horizons):
                row = {"problem": name, "belief": belief, "rule": rule, "horizon": horizon}
                regret = run.regret[np.searchsorted(run.rounds, horizon)]
                if rule == "thompson":
                    thompson[horizon] = regret
                yield row | measured(run, horizon, regret, thompson.get(horizon))


def runs(
    comparison: Comparison, policy: Policy, rule: str, horizons: Sequence[int]
) -> Iterator[tuple[int, Simulation]]:
    """A run for each horizon; rules that do not use it play the longest one only."""
    if not hasattr(make_rule(rule), "horizon"):
        run = comparison.play(policy.playing(rule))
        yield from ((horizon, run) for horizon in horizons)
        return
    for horizon in horizons:
        shorter = dataclasses.replace(comparison, horizon=horizon)
        yield horizon, shorter.play(policy.playing(rule, horizon=horizon))


def policy_of(belief: str, comparison: Comparison, options: argparse.Namespace) -> Policy:
    """A policy with that belief."""
    if belief == "exact":
        return Policy(ExactPopularNicheBelief(comparison.problem.noise_std), ThompsonRule())
    prior = None
    if belief == "diffts":
        prior = the_prior(comparison.problem, comparison.past, options.keep)
    return comparison.policy(belief, prior, options.sampler, options.steps)


def given(name: str, tasks: int) -> tuple[Problem, Any, Any]:
    """A problem, its past tasks as one knows them, and development tasks to play."""
    problem = LAWS[name] if name in LAWS else get_problem(name)
    sets = problem.sets_for_choices()
    played = problem.development(tasks, beside=sets)
    return problem, as_seen(sets.train, 0) if name in LAWS else sets.train, played


def the_prior(problem: Problem, past: Any, keep: Path | None) -> DiffusionPrior:
    """The built-in prior; for a Gaussian law, one learned here (a network on a factor Gaussian)."""
    if problem.name not in LAWS:
        return builtin_prior(problem.name)
    kept = None if keep is None else keep / problem.name
    if kept is not None and kept.exists():
        return DiffusionPrior.load(kept)
    assert problem.suggested_network is not None
    options = dict(problem.suggested_network.options)
    prior = learn_prior(past, predicts="residual", options=options, seed=0)
    if kept is not None:
        prior.save(kept)
    return prior


def measured(run: Simulation, horizon: int, regret: Any, thompson: Any) -> dict[str, Any]:
    """What a table needs; the difference from Thompson sampling task by task."""
    at = np.searchsorted(run.rounds, horizon)
    numbers = {
        "regret": regret.mean(),
        "stderr": standard_error(regret),
        "p95": np.quantile(regret, 0.95),
        "share_right": run.share_right[at],
        "chance_right": run.chance_right[at].mean(),
        "decisions_per_second": run.decisions_per_second,
    }
    if thompson is not None:
        numbers["ratio"] = regret.mean() / thompson.mean()
        numbers["saved_stderr"] = standard_error(thompson - regret)
    return {name: float(number) for name, number in numbers.items()}


def standard_error(values: Any) -> float:
    """Of a mean over tasks."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def print_table(name: str, rows: Sequence[dict[str, Any]]) -> None:
    """Rules down, beliefs and horizons across: regret ± s.e. (95th percentile)."""
    columns = list(dict.fromkeys((row["belief"], row["horizon"]) for row in rows))
    table = Table(title=f"{name}: regret ± s.e. (95th percentile of tasks)", box=None)
    table.add_column("rule")
    for belief, horizon in columns:
        table.add_column(f"{belief}\n{horizon}", justify="right")
    for rule in dict.fromkeys(row["rule"] for row in rows):
        cells = {(r["belief"], r["horizon"]): r for r in rows if r["rule"] == rule}
        table.add_row(rule, *(_cell(cells.get(column)) for column in columns))
    Console(width=160).print(table)


def _cell(row: dict[str, Any] | None) -> str:
    return "–" if row is None else f"{row['regret']:.1f} ± {row['stderr']:.1f} ({row['p95']:.0f})"


if __name__ == "__main__":
    main()
