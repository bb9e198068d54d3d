"""Speed of ``diffts`` beside an eager PyTorch port of the same maths, in one run on one machine.

    python -m benchmarks.speed [--out FILE.md] [--device auto|cpu|gpu] [--quick]

What is timed, for the paper's network (K = 200, 100 diffusion steps):

- one decision: one posterior draw for one task;
- 100 tasks: one posterior draw for each, in one batch;
- a training step at batch 128: a block of steps as ``train_clean`` runs it, over its length.

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
import os
import platform
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
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
from diffts.diffusion.networks import ResidualConv, build_denoiser
from diffts.diffusion.networks.network import NetworkDenoiser
from diffts.diffusion.prior import DiffusionPrior
from diffts.diffusion.schedule import Schedule
from diffts.evidence import Evidence
from diffts.learning.clean import train_clean
from diffts.learning.training import TrainingConfig

# Any: some versions of JAX have no types here.
_wait: Any = jax.block_until_ready
_configure: Any = jax.config.update

N_ARMS, N_TRAIN, BATCH = 200, 5000, 128
#: Smallest ratio PyTorch / ours that we promise, by case and kind of device.
REQUIRED = {
    "cpu": {"one decision": 5.0, "100 tasks": 1.3, "training step": 1.5},
    "gpu": {"100 tasks": 20.0},
}


@dataclass
class Case:
    """One workload: what to run on each side, and the least it has to do."""

    name: str
    flops: float
    bytes: float
    runs: dict[str, Callable[[int], Any]]
    repeats: int
    steps_per_run: int = 1
    times: dict[str, list[float]] = field(default_factory=dict)

    def measure(self) -> None:
        """Warm up, then take turns; the order changes from round to round."""
        for run in self.runs.values():
            for i in range(2):
                run(i)
        self.times = {label: [] for label in self.runs}
        for i in range(self.repeats):
            for label in list(self.runs)[:: 1 if i % 2 else -1]:
                start = time.perf_counter()
                self.runs[label](i)
                elapsed = time.perf_counter() - start
                self.times[label].append(elapsed / self.steps_per_run)

    def median(self, label: str) -> float:
        """Median time in seconds."""
        return statistics.median(self.times[label])

    def spread(self, label: str) -> tuple[float, float]:
        """The middle half of the repeats."""
        low, high = np.quantile(self.times[label], [0.25, 0.75])
        return float(low), float(high)


@dataclass(frozen=True)
class Ceilings:
    """What this machine reaches: operations and bytes a second."""

    flops: float
    bandwidth: float

    def floor(self, case: Case) -> float:
        """The time below which no program can do this case."""
        return max(case.flops / self.flops, case.bytes / self.bandwidth)


class OtherPrograms:
    """How many cores other programs keep busy: they slow the two sides unequally.

    Eager PyTorch waits for its slowest thread after every operation, so on a busy machine it
    can be tens of times slower, and a ratio says nothing.
    """

    def __init__(self) -> None:
        self.start = time.perf_counter(), self._all_programs(), time.process_time()

    @staticmethod
    def too_many(cores: float, kind: str) -> bool:
        """A run on a GPU needs one core or two; a run on the CPU needs all."""
        return cores > (0.5 if kind == "gpu" else 0.05) * (os.cpu_count() or 1)

    def cores(self) -> float:
        """Average since the start (0 where /proc/stat is missing)."""
        wall, used, own = self.start
        others = (self._all_programs() - used) - (time.process_time() - own)
        return max(0.0, others / (time.perf_counter() - wall))

    @staticmethod
    def _all_programs() -> float:
        stat = Path("/proc/stat")
        if not stat.exists():
            return time.process_time()
        user, nice, system, _idle, _iowait, irq, softirq, steal = (
            int(value) for value in stat.read_text().split("\n")[0].split()[1:9]
        )
        return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


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
    for case in cases:
        case.measure()
    busy = others.cores()

    rows = [row for case in cases for row in table_rows(case, kind, ceilings, busy)]
    console = Console(width=150)
    table = Table(*HEADINGS)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    lines = environment(kind, ceilings, busy)
    for line in lines:
        console.print(line)
    if options.out is not None:
        given = sys.argv[1:] if arguments is None else arguments
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(markdown(rows, lines, given))
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
    twin = torch_port.from_equinox(_residual_conv(conv)).to(device).eval()
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
        blocks = train_clean(denoiser, data, config, schedule=schedule)
        return lambda _: _wait(next(blocks).loss)

    twin = torch_port.from_equinox(_residual_conv(conv)).to(device)
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


def measure_ceilings(kind: str) -> Ceilings:
    """The rates of a large matrix product (float32) and a large copy (read plus write)."""
    size = 8192 if kind == "gpu" else 2048
    square = jax.random.normal(jax.random.key(0), (size, size))
    vector = jax.random.normal(jax.random.key(1), (2**29 if kind == "gpu" else 2**26,))
    multiply, shift = jax.jit(jnp.matmul), jax.jit(lambda x: x + 1)
    product = _best_time(lambda: _wait(multiply(square, square)))
    copy = _best_time(lambda: _wait(shift(vector)))
    return Ceilings(2 * size**3 / product, 2 * vector.nbytes / copy)


def _best_time(run: Callable[[], Any]) -> float:
    run()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


HEADINGS = (
    "case",
    "program",
    "median",
    "middle half",
    "PyTorch / this",
    "required",
    "GFLOP",
    "MB",
    "floor",
)


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


def environment(kind: str, ceilings: Ceilings, busy: float) -> list[str]:
    """What a reader needs to judge or repeat the numbers."""
    chip = torch.cuda.get_device_name() if kind == "gpu" else _cpu_name()
    packages = ", ".join(f"{name} {version(name)}" for name in ("jax", "equinox", "torch"))
    return [
        f"Chip: {chip}; {os.cpu_count()} CPU cores, {torch.get_num_threads()} threads in PyTorch.",
        f"Versions: Python {platform.python_version()}, {packages}.",
        f"Ceilings measured here: {ceilings.flops / 1e9:.4g} GFLOP/s (float32 matrix product), "
        f"{ceilings.bandwidth / 1e9:.4g} GB/s (copy).",
        f"Other programs kept {busy:.2f} cores busy during the run"
        + (": too many to trust these numbers." if OtherPrograms.too_many(busy, kind) else "."),
    ]


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def markdown(rows: list[list[str]], lines: list[str], arguments: list[str]) -> str:
    """The page that is committed."""
    command = shlex.join(["python", "-m", "benchmarks.speed", *arguments])
    table = [
        "| " + " | ".join(HEADINGS) + " |",
        "|" + " --- |" * len(HEADINGS),
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
    about = (
        "Paper's network, K = 200, 100 diffusion steps, float32. Times are medians of repeats in "
        "which both sides take turns, compilation not counted. 'PyTorch / this' is how many times "
        "longer eager PyTorch took. GFLOP and MB are the operations of the network and the bytes "
        "of weights, inputs and outputs; 'floor' is the larger of the two over the rates below."
    )
    return "\n".join(
        [
            "# Speed",
            "",
            f"Made with `{command}`.",
            "",
            about,
            "",
            *table,
            "",
            *(f"- {line}" for line in lines),
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
