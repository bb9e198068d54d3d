"""What a decision costs by each rule, beside Thompson sampling; and many draws beside one.

python -m benchmarks.rule_cost [--belief NAME]… [--rule NAME]… [--steps N] [--prior DIR] [--out F]

Popular and Niche (200 arms) after 50 rounds of play; the built-in diffusion prior with the paper's
sampler (100 steps), or a prior of your own with the sampler that suits it; and GTS-full. One task,
as an agent plays it, and 100 tasks at once. All cases take turns in one run; times are medians,
ratios are to Thompson sampling in the same run.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from benchmarks.measuring import Case, OtherPrograms, command, machine, markdown_table, wait
from diffts import builtin_prior
from diffts.bandits import RULES, BestArm, History, Policy
from diffts.bandits.policies import DiffTS, MixtureTS
from diffts.diffusion.prior import DiffusionPrior
from diffts.learning.fits import fit_gaussian
from diffts.problems import PopularNiche

TASKS, ROUNDS, HORIZON = 100, 50, 1000
LEFT_OUT = ("default", "ucb", "uniform", "epsilon-greedy")
DRAWS = (1, 2, 8, 32, 64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--belief", action="append", choices=("diffts", "gts-full"))
    parser.add_argument("--rule", action="append", choices=sorted(RULES))
    parser.add_argument("--prior", type=Path, help="a folder; default: the built-in one")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--steps", type=int, default=None)
    options = parser.parse_args()
    problem = PopularNiche()
    noise, kind, others = problem.noise_std, jax.default_backend(), OtherPrograms()
    rules = options.rule or [rule for rule in RULES if rule not in LEFT_OUT]
    lines = ["# Cost of rules", "", f"Made with `{command('rule_cost')}`. {machine(kind)}"]
    for name in options.belief or ["diffts", "gts-full"]:
        policy = (
            DiffTS(the_prior(options.prior), noise, steps=options.steps)
            if name == "diffts"
            else MixtureTS(fit_gaussian(problem.sets_for_choices().train), noise)
        )
        states = played(policy, problem.development(TASKS))
        # Draws first, and each table as soon as it is there: compiling all of it takes minutes.
        for table in (draws, functools.partial(decisions, rules)):
            lines += ["", f"## {name}", "", *table(policy, states, options.repeats)]
            save(options.out, lines)
    busy = others.cores()
    lines += ["", f"Other programs kept {busy:.2f} cores busy"]
    lines[-1] += ": too many to trust these numbers." if others.too_many(busy, kind) else "."
    save(options.out, lines)
    print("\n".join(lines))


def the_prior(folder: Path | None) -> DiffusionPrior:
    return builtin_prior(PopularNiche.name) if folder is None else DiffusionPrior.load(folder)


def save(path: Path | None, lines: Sequence[str]) -> None:
    if path is not None:
        path.write_text("\n".join(lines) + "\n")


def played(policy: Policy, tasks: Any) -> Any:
    """States of some tasks after a few rounds of random play."""
    arms = jax.random.randint(jax.random.key(0), (TASKS, ROUNDS), 0, policy.n_arms)
    one_hot = jax.nn.one_hot(arms, policy.n_arms).sum(1)
    means = jnp.asarray(tasks)
    histories = History(
        one_hot, one_hot * means, jnp.zeros_like(means), jnp.full(TASKS, ROUNDS, jnp.int32)
    )
    return wait(eqx.filter_jit(lambda p, h: jax.vmap(p.resume)(h))(policy, histories))


def decisions(rules: Sequence[str], policy: Policy, states: Any, repeats: int) -> list[str]:
    """A table of rules: milliseconds for one task and for all of them, and ratios."""
    actions = BestArm(policy.n_arms)
    chosen = {rule: policy.playing(rule, horizon=HORIZON) for rule in rules}

    def run(rule: str, tasks: int) -> Callable[[int], Any]:
        def select(player: Policy, keys: Any, states: Any) -> Any:
            return jax.vmap(lambda key, state: player.select(key, state, actions))(keys, states)

        compiled, some = eqx.filter_jit(select), jax.tree.map(lambda leaf: leaf[:tasks], states)
        return lambda i: wait(
            compiled(chosen[rule], jax.random.split(jax.random.key(i), tasks), some)
        )

    return _table("rule", {rule: rule for rule in chosen}, run, repeats, "thompson")


def draws(policy: Policy, states: Any, repeats: int) -> list[str]:
    """The same for so many draws of a task."""

    def run(n: int, tasks: int) -> Callable[[int], Any]:
        def draw(player: Policy, keys: Any, states: Any) -> Any:
            return jax.vmap(lambda key, state: player.belief.draw(key, state, n))(keys, states)

        compiled, some = eqx.filter_jit(draw), jax.tree.map(lambda leaf: leaf[:tasks], states)
        return lambda i: wait(compiled(policy, jax.random.split(jax.random.key(i), tasks), some))

    return _table("draws", {str(n): n for n in DRAWS}, run, repeats, "1")


def _table(
    kind: str, cases: dict[str, Any], run: Callable[..., Any], repeats: int, first: str
) -> list[str]:
    """Milliseconds of each case, for one task and for all, in turns."""
    times = {}
    for tasks in (1, TASKS):
        case = Case(kind, 0, 0, {name: run(what, tasks) for name, what in cases.items()}, repeats)
        case.measure()
        times[tasks] = {name: case.median(name) for name in cases}
    rows = [
        [name]
        + [
            cell
            for tasks, taken in times.items()
            for cell in (
                f"{1e3 * taken[name]:.2f}",
                f"{taken[name] / taken[first]:.2f}×",
                f"{tasks / taken[name]:,.0f}",
            )
        ]
        for name in cases
    ]
    heads = ("1 task, ms", "ratio", "a second", "100 tasks, ms", "ratio", "a second")
    return markdown_table([kind, *heads], rows)


if __name__ == "__main__":
    main()
