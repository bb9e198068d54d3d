"""Timing programs side by side, and what the machine can reach at most."""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

wait: Any = jax.block_until_ready  # Any: some versions of JAX have no types here


def command(name: str) -> str:
    """The benchmark and its options as they were typed, but for where files are."""
    places = ("--out", "--keep", "--keep-log", "--log")
    words = [
        word
        for before, word in zip(["", *sys.argv[1:]], sys.argv[1:], strict=False)
        if word not in places and before not in places
    ]
    return " ".join([f"python -m benchmarks.{name}", *words])


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


def measure_ceilings(kind: str) -> Ceilings:
    """The rates of a large matrix product (float32) and a large copy (read plus write)."""
    size = 8192 if kind == "gpu" else 2048
    square = jax.random.normal(jax.random.key(0), (size, size))
    vector = jax.random.normal(jax.random.key(1), (2**29 if kind == "gpu" else 2**26,))
    multiply, shift = jax.jit(jnp.matmul), jax.jit(lambda x: x + 1)
    product = _best_time(lambda: wait(multiply(square, square)))
    copy = _best_time(lambda: wait(shift(vector)))
    return Ceilings(2 * size**3 / product, 2 * vector.nbytes / copy)


def _best_time(run: Callable[[], Any]) -> float:
    run()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def machine(kind: str) -> str:
    """Chip and versions, in a line."""
    chip = jax.devices()[0].device_kind if kind == "gpu" else _cpu_name()
    packages = ", ".join(f"{name} {version(name)}" for name in ("jax", "equinox"))
    return (
        f"Chip: {chip}; {os.cpu_count()} CPU cores. Python {platform.python_version()}, {packages}."
    )


def environment(kind: str, ceilings: Ceilings, busy: float, threads: int) -> list[str]:
    """What a reader needs to judge or repeat the numbers."""
    return [
        f"{machine(kind)} torch {version('torch')}, {threads} threads in it.",
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


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table; numbers as they are written."""
    return [
        "| " + " | ".join(headings) + " |",
        "|" + " --- |" * len(headings),
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
