"""Speed of decisions with the network 'arms', beside the paper's network and sampler.

python -m benchmarks.arm_speed [--arms-alone] [--tasks N]… [--out FILE.md]

A part of ``benchmarks.speed`` that needs no PyTorch. 200 arms, a fifth of them pulled. A decision
starts from the pulls in host memory and ends with the arm in host memory.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from benchmarks.measuring import Case, command, machine, markdown_table
from diffts.bandits import BestArm, History, Policy
from diffts.bandits.policies import DiffTS
from diffts.circumstances import circumstances
from diffts.diffusion.factor_gaussian import FactorGaussian
from diffts.diffusion.networks import build_denoiser
from diffts.diffusion.networks.arm_network import ArmDenoiser
from diffts.diffusion.prior import DiffusionPrior
from diffts.diffusion.schedule import Schedule

N_ARMS, RANK, N_KNOTS, NOISE = 200, 48, 6, 0.5
ARMS = "arms"
#: Tasks decided at once, and repeats; the last only where there is an accelerator.
SIZES = ((1, 40), (100, 15), (10_000, 7))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arms-alone", action="store_true", help="without the paper's network")
    parser.add_argument("--tasks", action="append", type=int, help="decided at once")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    cases = decision_cases(quick=False, tasks=options.tasks, arms_alone=options.arms_alone)
    for case in cases.values():
        case.measure()
    text = [
        "# Decisions with the network 'arms'",
        "",
        "200 arms, a fifth of them pulled. Medians, and the middle half of the repeats.",
        f"{machine(jax.default_backend())} Commit {circumstances()['commit']}.",
        "",
        *markdown_table(*decision_table(cases)),
        "",
        f"Made with `{command('arm_speed')}`.",
    ]
    print("\n".join(text))
    if options.out is not None:
        options.out.write_text("\n".join(text) + "\n")


def policies() -> dict[str, Policy]:
    """What is timed. Weights are random: they change no time."""
    schedule = Schedule.linear()
    # Errors like those of a trained network: small at low noise, near the prior's spread at high.
    level = schedule.level(np.arange(1, schedule.n_steps + 1))
    tau = np.repeat(0.9 * np.asarray(level.noise)[:, None], N_ARMS, axis=1)
    rng = np.random.default_rng(0)
    loadings = rng.normal(size=(N_ARMS, RANK)) * np.sqrt(0.5 / RANK)
    base = FactorGaussian(np.zeros(N_ARMS), loadings, np.full(N_ARMS, 0.5))
    arms = ArmDenoiser(base, knots=np.linspace(-2.0, 2.0, N_KNOTS).tolist())
    paper = DiffusionPrior(build_denoiser("residual-conv", N_ARMS), tau, schedule=schedule)
    thompson = DiffTS(DiffusionPrior(arms, tau, schedule=schedule), NOISE)
    return {
        "paper's network and sampler, 100 steps, Thompson": DiffTS(paper, NOISE, sampler="paper"),
        f"{ARMS}, sampler merged, {ArmDenoiser.default_steps} steps, Thompson": thompson,
        f"{ARMS}, one pass, default rule": thompson.playing("default"),
    }


def decision_cases(
    quick: bool, tasks: Sequence[int] | None = None, arms_alone: bool = False
) -> dict[int, Case]:
    """By the number of tasks: one, 100 at once, and where there is an accelerator 10,000."""
    players = {
        name: policy for name, policy in policies().items() if not arms_alone or ARMS in name
    }
    sizes: Sequence[tuple[int, int]] = SIZES[: -1 if jax.default_backend() == "cpu" else None]
    sizes = tuple((count, 7) for count in tasks) if tasks else sizes
    return {
        count: Case(
            "1 task" if count == 1 else f"{count:,} tasks",
            flops=0,
            bytes=0,
            runs={name: _decide(policy, count) for name, policy in players.items()},
            repeats=3 if quick else repeats,
        )
        for count, repeats in sizes
    }


def _decide(policy: Policy, tasks: int) -> Callable[[int], Any]:
    """Arms for that many tasks; other pulls and seeds every time."""
    actions = BestArm(N_ARMS)
    histories = [_history(tasks, seed) for seed in range(4)]

    @eqx.filter_jit
    def select(policy: Policy, seed: Any, history: History) -> Any:
        def one(key: Any, history: History) -> Any:
            return policy.select(key, policy.resume(history), actions)

        key = jax.random.key(seed)
        if tasks == 1:  # as an agent plays it
            return one(key, history)
        return jax.vmap(one)(jax.random.split(key, tasks), history)

    return lambda i: np.asarray(select(policy, np.uint32(i), histories[i % len(histories)]))


def _history(tasks: int, seed: int) -> History:
    """A fifth of the arms pulled, some of them more often than others; arrays of the host."""
    make: Any = History  # Any: these are no arrays of JAX yet
    rng = np.random.default_rng(seed)
    shape = (tasks, N_ARMS) if tasks > 1 else (N_ARMS,)
    pulls = np.where(rng.random(shape) < 0.2, rng.integers(1, 20, size=shape), 0)
    sums = pulls * rng.normal(size=shape)
    arrays = (np.float32(array) for array in (pulls, sums, np.zeros(shape)))
    return make(*arrays, np.int32(pulls.sum(-1)))


def decision_table(cases: dict[int, Case]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: a column for each case, and decisions a second in the largest."""
    most, largest = max(cases.items())
    headings = ["program", *(case.name for case in cases.values()), f"a second, {largest.name}"]
    rows = [
        [
            program,
            *(_milliseconds(case, program) for case in cases.values()),
            f"{most / largest.median(program):,.0f}",
        ]
        for program in largest.runs
    ]
    return headings, rows


def _milliseconds(case: Case, program: str) -> str:
    low, high = case.spread(program)
    return f"{1e3 * case.median(program):.2f} ms ({1e3 * low:.2f} to {1e3 * high:.2f})"


if __name__ == "__main__":
    main()
