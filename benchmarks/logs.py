"""What it takes to read a log: seconds and memory by rows, for Parquet and CSV.

python -m benchmarks.logs [--rows 1000000 10000000] [--out FILE.md]

Logs of 5,000 tasks and 200 arms are made in a temporary folder. Each is read by a process of its
own, which tells the seconds of `read_log`, those of the processor (all cores; other programs do not
change them much), and the most memory that the whole process ever had (Python, JAX and Ibis take
the part that is shown as 'before').
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.measuring import markdown_table

TASKS, ARMS, CHUNK = 5_000, 200, 500_000
COLUMNS = (
    "log",
    "rows",
    "file MB",
    "seconds",
    "processor s",
    "processor µs a row",
    "peak MB",
    "before MB",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        print(json.dumps(measured(options.read)))
        return
    lines = []
    for rows in options.rows:
        for kind in ("parquet", "csv"):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / f"log.{kind}"
                write(path, rows)
                lines.append(line(path, rows))
                print("  ".join(lines[-1]), flush=True)
    cores = len(os.sched_getaffinity(0))
    text = "\n".join(
        [
            "# Reading a log",
            "",
            f"Made with `python -m benchmarks.logs`; {TASKS:,} tasks, {ARMS} arms, {cores} cores.",
            "",
            *markdown_table(COLUMNS, lines),
        ]
    )
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


def write(path: Path, rows: int) -> None:
    """A log of rows in no order, chunk by chunk."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    rng = np.random.default_rng(0)
    users = np.array([f"user-{i}" for i in range(TASKS)], object)
    items = np.array([f"item-{i}" for i in range(ARMS)], object)
    schema = pa.schema([("task", pa.string()), ("arm", pa.string()), ("reward", pa.float64())])
    opened = pa.parquet.ParquetWriter if path.suffix == ".parquet" else pa.csv.CSVWriter
    with opened(str(path), schema) as writer:
        for start in range(0, rows, CHUNK):
            n = min(CHUNK, rows - start)
            columns = [
                users[rng.integers(TASKS, size=n)],
                items[rng.integers(ARMS, size=n)],
                rng.normal(size=n).round(6),
            ]
            writer.write_table(pa.table(columns, schema=schema))


def line(path: Path, rows: int) -> list[str]:
    """What a fresh process took."""
    command = [sys.executable, "-m", "benchmarks.logs", "--read", str(path)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return [
        path.suffix[1:],
        f"{rows:,}",
        f"{path.stat().st_size / 1e6:.0f}",
        f"{found['seconds']:.2f}",
        f"{found['processor']:.2f}",
        f"{1e6 * found['processor'] / rows:.2f}",
        f"{found['peak']:.0f}",
        f"{found['before']:.0f}",
    ]


def measured(path: Path) -> dict[str, float]:
    """Seconds of reading, and the most memory so far before and after it, in MB."""
    import ibis

    from diffts.logs import read_log

    ibis.duckdb.connect().disconnect()  # loads the engine
    before = peak_megabytes()
    start, busy = time.perf_counter(), time.process_time()
    log = read_log(path)
    seconds, processor = time.perf_counter() - start, time.process_time() - busy
    assert log.counts.sum() == log.facts.rows_used
    return {"seconds": seconds, "processor": processor, "before": before, "peak": peak_megabytes()}


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
