"""The table of docs/arms.md, from the files in results/decisions.

python -m benchmarks.decision_tables
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "results/decisions"
ROUNDS = ("40", "100", "300", "1000")


def main() -> None:
    print("\n".join(table()))


def table() -> Iterator[str]:
    """Regret of each run at each horizon, its standard error and its tail."""
    yield "| run | rule | σ̂ | " + " | ".join(ROUNDS) + " | 95th percentile |"
    yield "|---|---|---|" + "---:|" * (len(ROUNDS) + 1)
    for path in sorted(FOLDER.glob("*.json")):
        for row in json.loads(path.read_text())["rows"]:
            if row["policy"] == "diffts":
                yield line(path.stem, row)


def line(name: str, row: dict[str, Any]) -> str:
    """One run."""
    last = max(row["regret"], key=int)
    cells = [f"{row['regret'][t]:.1f}" if t in row["regret"] else "–" for t in ROUNDS]
    cells[ROUNDS.index(last)] += f" ± {row['stderr'][last]:.1f}"
    return (
        f"| {name} | `{row['rule']}` | {row['noise']} | "
        + " | ".join([*cells, f"{row['p95']:.1f}"])
        + " |"
    )


def errors(name: str) -> str:
    """τ of a run's denoiser at some steps, as a sentence has them."""
    row = json.loads((FOLDER / f"{name}.json").read_text())["rows"][0]
    return ", ".join(f"{value:.4f}" for value in row["tau"].values())


if __name__ == "__main__":
    main()
