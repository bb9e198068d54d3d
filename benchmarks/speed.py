"""Speed of ``diffts`` beside an eager PyTorch port of the same maths, in one run on one machine.

    python -m benchmarks.speed [--out FILE.md] [--device auto|cpu|gpu] [--quick]

What is timed, for the paper's network (K = 200, 100 diffusion steps):

- one decision: one posterior draw for one task;
- 100 tasks: one posterior draw for each, in one batch;
- a training step at batch 128: a block of steps as ``train`` runs it, over its length.

In a table of its own: decisions with the network 'arms', by Thompson sampling and by the default
rule, beside the paper's network and sampler; for 10,000 tasks at once, too, on a GPU.

A draw starts from evidence in host memory and ends with the draw in host memory, on both sides,
which also waits for the device. Both sides are warmed up (compilation is not counted), then take
turns, so that whatever else the machine does falls on both; inputs and seeds change every time.
Times are medians; the spread is that of the middle half of the repeats.

Beside each time stands what no program could do without: the network's multiplications and
additions (gates and random numbers are not counted), and the bytes of its weights, inputs and
outputs, over the rates that a large matrix product and a large copy reach here.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks import torch_port
from benchmarks.arm_speed import decision_cases, decision_table
from benchmarks.measuring import (
    Case,
    Ceilings,
    OtherPrograms,
    environment,
    markdown_table,
    measure_ceilings,
    wait,
)
from diffts.diffusion.networks import ResidualConv, build_denoiser
from diffts.diffusion.networks.network import NetworkDenoiser
from diffts.diffusion.prior import DiffusionPrior
from diffts.diffusion.schedule import Schedule
from diffts.evidence import Evidence
from diffts.learning.objectives import ExactTasks
from diffts.learning.training import TrainingConfig, initial_state, train

_configure: Any = jax.config.update  # Any: some versions of JAX have no types here

N_ARMS, N_TRAIN, BATCH = 200, 5000, 128
#: Smallest ratio PyTorch / ours that we promise, by case and kind of device.
REQUIRED = {
    "cpu": {"one decision": 5.0, "100 tasks": 1.3, "training step": 1.5},
    "gpu": {"100 tasks": 20.0},
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed")
    parser.add_argument("--out", type=Path, help="write the table as Markdown to this file")
    parser.add_argument("--device", choices=("auto", "cpu", "gpu"), default="auto")
    parser.add_argument("--quick", action="store_true", help="few repeats: does it run at all?")
    options = parser.parse_args(arguments)

    if options.device != "auto":
        _configure("jax_platforms", {"cpu": "cpu", "gpu": "cuda"}[options.device])
    kind = "gpu" if jax.default_backend() == "gpu" else "cpu"
    if kind == "gpu" and not torch.cuda.is_available():
        parser.error("JAX sees a GPU and PyTorch does not: use --device cpu")
    device = torch.device("cuda" if kind == "gpu" else "cpu")
    # JAX multiplies in TF32 on a GPU by default: let PyTorch do so, too.
    torch.set_float32_matmul_precision("high")

    others = OtherPrograms()
    ceilings = measure_ceilings(kind)
    cases = [
        *sampling_cases(device, options.quick),
        training_case(device, options.quick),
    ]
    decisions = decision_cases(options.quick)
    for case in [*cases, *decisions.values()]:
        case.measure()
    busy = others.cores()

    rows = [row for case in cases for row in table_rows(case, kind, ceilings, busy)]
    by_arms = decision_table(decisions)
    console = Console(width=150)
    for headings, of_table in ((HEADINGS, rows), by_arms):
        table = Table(*headings)
        for row in of_table:
            table.add_row(*row)
        console.print(table)
    lines = environment(kind, ceilings, busy, torch.get_num_threads())
    for line in lines:
        console.print(line)
    if options.out is not None:
        given = sys.argv[1:] if arguments is None else arguments
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(markdown(rows, by_arms, lines, given))
        console.print(f"written to {options.out}")
    return 0


def sampling_cases(device: torch.device, quick: bool) -> list[Case]:
    """One decision, and 100 tasks at once."""
    schedule = Schedule.linear()
    # Errors like those of a trained network: small at low noise, near the prior's spread at high.
    level = schedule.level(np.arange(1, schedule.n_steps + 1))
    tau = np.repeat(0.9 * np.asarray(level.noise)[:, None], N_ARMS, axis=1)
    conv = build_denoiser("residual-conv", N_ARMS)
    mlp = build_denoiser("residual-mlp", N_ARMS)
    twin = torch_port.TorchResidualConv(_residual_conv(conv)).to(device).eval()
    chain = torch_port.reverse_chain(schedule, tau, device)
    priors = {
        "diffts": DiffusionPrior(conv, tau, schedule=schedule),
        "diffts, residual-mlp": DiffusionPrior(mlp, tau, schedule=schedule),
    }

    def eager(*inputs: torch.Tensor) -> torch.Tensor:
        return torch_port.posterior_sample(twin, chain, *inputs)

    cases = []
    for name, batch, repeats in (("one decision", (), 40), ("100 tasks", (100,), 15)):
        evidences = [_evidence(batch, seed) for seed in range(4)]
        arrays = [_host_arrays(evidence) for evidence in evidences]
        runs: dict[str, Callable[[int], Any]] = {
            "diffts": _ours(priors["diffts"], evidences),
            "PyTorch, eager": _theirs(eager, arrays, device),
        }
        if device.type == "cuda":
            graph = torch_port.captured(eager, *_on_device(arrays[0], device))
            runs["PyTorch, CUDA graph"] = _theirs(graph, arrays, device)
        runs["diffts, residual-mlp"] = _ours(priors["diffts, residual-mlp"], evidences)
        tasks = int(np.prod(batch))
        values = tasks * N_ARMS
        cases.append(
            Case(
                name,
                flops=network_flops(conv) * schedule.n_steps * tasks,
                bytes=4 * n_weights(conv) + values * (4 + 4 + 1 + 4),
                runs=runs,
                repeats=3 if quick else repeats,
            )
        )
    return cases


def training_case(device: torch.device, quick: bool) -> Case:
    """A training step at the paper's batch size."""
    schedule = Schedule.linear()
    data = np.random.default_rng(0).normal(size=(N_TRAIN, N_ARMS)).astype(np.float32)
    conv = build_denoiser("residual-conv", N_ARMS)
    mlp = build_denoiser("residual-mlp", N_ARMS)
    block = 10 if quick else TrainingConfig().block
    config = TrainingConfig(steps=10**6, batch_size=BATCH, block=block)

    def ours(denoiser: NetworkDenoiser) -> Callable[[int], Any]:
        start, objective = initial_state(denoiser, config), ExactTasks(jnp.asarray(data))
        blocks = train([start], [objective], config, schedule, [0], config.steps)
        return lambda _: wait(next(blocks)[0].loss)

    twin = torch_port.TorchResidualConv(_residual_conv(conv)).to(device)
    trainer = torch_port.Trainer(twin, torch.tensor(data, device=device), schedule, BATCH)

    def theirs(_: int) -> None:
        for _ in range(block):
            trainer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()

    return Case(
        "training step",
        # Forward, and twice as much backward.
        flops=3 * network_flops(conv) * BATCH,
        # Weights and Adam's two moments, read and written; the batch, read.
        bytes=4 * (6 * n_weights(conv) + BATCH * N_ARMS),
        runs={
            "diffts": ours(conv),
            "PyTorch, eager": theirs,
            "diffts, residual-mlp": ours(mlp),
        },
        repeats=2 if quick else 7,
        steps_per_run=block,
    )


def _ours(prior: DiffusionPrior, evidences: list[Evidence]) -> Callable[[int], Any]:
    return lambda i: prior.posterior_sample(evidences[i % len(evidences)], seed=i)


def _theirs(
    sample: Callable[..., torch.Tensor], arrays: list[list[np.ndarray]], device: torch.device
) -> Callable[[int], Any]:
    def run(i: int) -> np.ndarray:
        drawn: np.ndarray = sample(*_on_device(arrays[i % len(arrays)], device)).cpu().numpy()
        return drawn

    return run


def _on_device(arrays: list[np.ndarray], device: torch.device) -> list[torch.Tensor]:
    return [torch.from_numpy(array).to(device) for array in arrays]


def _host_arrays(evidence: Evidence) -> list[np.ndarray]:
    leaves = (evidence.mean, evidence.std, evidence.mask)
    return [np.array(leaf).reshape(-1, N_ARMS) for leaf in leaves]


def _evidence(batch: tuple[int, ...], seed: int) -> Evidence:
    """A fifth of the arms observed, some of them more often than others."""
    rng = np.random.default_rng(seed)
    shape = (*batch, N_ARMS)
    pulls = rng.integers(1, 20, size=shape)
    return Evidence(rng.normal(size=shape), 0.5 / np.sqrt(pulls), rng.random(shape) < 0.2)


def _residual_conv(denoiser: NetworkDenoiser) -> ResidualConv:
    assert isinstance(denoiser.network, ResidualConv)
    return denoiser.network


def network_flops(denoiser: NetworkDenoiser) -> int:
    """Multiplications and additions of one evaluation: 2 for each use of each weight."""
    length = getattr(denoiser.network, "length", 1)
    layers = jax.tree.leaves(denoiser.network, is_leaf=_is_layer)
    uses = [(length if isinstance(x, eqx.nn.Conv1d) else 1) for x in layers if _is_layer(x)]
    sizes = [x.weight.size for x in layers if _is_layer(x)]
    return sum(2 * use * size for use, size in zip(uses, sizes, strict=True))


def _is_layer(node: Any) -> bool:
    return isinstance(node, eqx.nn.Linear | eqx.nn.Conv1d)


def n_weights(denoiser: NetworkDenoiser) -> int:
    """Number of parameters."""
    return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(denoiser, eqx.is_array)))


HEADINGS = [
    "case",
    "program",
    "median",
    "middle half",
    "PyTorch / this",
    "required",
    "GFLOP",
    "MB",
    "floor",
]


def table_rows(case: Case, kind: str, ceilings: Ceilings, busy: float) -> list[list[str]]:
    """One row for each program; operations and bytes where the network is the paper's."""
    rows = []
    for label in case.times:
        same_maths = "mlp" not in label
        ratio = case.median("PyTorch, eager") / case.median(label)
        required = REQUIRED[kind].get(case.name) if label == "diffts" else None
        verdict = (
            "" if required is None else f"{required:g}: {_verdict(ratio, required, busy, kind)}"
        )
        low, high = case.spread(label)
        rows.append(
            [
                case.name,
                label,
                f"{1e3 * case.median(label):.2f} ms",
                f"{1e3 * low:.2f} to {1e3 * high:.2f}",
                f"{ratio:.1f}" if same_maths else "",
                verdict,
                f"{case.flops / 1e9:.3g}" if same_maths else "",
                f"{case.bytes / 1e6:.3g}" if same_maths else "",
                f"{1e3 * ceilings.floor(case):.2g} ms" if same_maths else "",
            ]
        )
    return rows


def _verdict(ratio: float, required: float, busy: float, kind: str) -> str:
    if OtherPrograms.too_many(busy, kind):
        return "machine busy"
    return "reached" if ratio >= required else "MISSED"


def markdown(
    rows: list[list[str]],
    by_arms: tuple[list[str], list[list[str]]],
    lines: list[str],
    arguments: list[str],
) -> str:
    """The page that is committed."""
    command = shlex.join(["python", "-m", "benchmarks.speed", *arguments])
    about = (
        "Paper's network, K = 200, 100 diffusion steps, float32. Times are medians of repeats in "
        "which both sides take turns, compilation not counted. 'PyTorch / this' is how many times "
        "longer eager PyTorch took. GFLOP and MB are the operations of the network and the bytes "
        "of weights, inputs and outputs; 'floor' is the larger of the two over the rates below."
    )
    about_arms = (
        "Whole decisions, from pulls to an arm, for one task and for several at once: with the "
        "network 'arms' (K = 200, rank 48, 6 knots), and with the paper's network and sampler."
    )
    return "\n".join(
        [
            "# Speed",
            "",
            f"Made with `{command}`.",
            "",
            about,
            "",
            *markdown_table(HEADINGS, rows),
            "",
            about_arms,
            "",
            *markdown_table(*by_arms),
            "",
            *(f"- {line}" for line in lines),
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
