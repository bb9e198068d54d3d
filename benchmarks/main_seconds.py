"""Seconds that the main results take on this machine, and what they go into.

python -m benchmarks.main_seconds --seeds 3 [--profile paper] [--out FILE.json] [--keep DIR]

All races of the main results, from nothing: DiffTS by both rules, and the baselines. Left out are
the paper's DiffTS, whose training is longer than all of that, and mixtures from imperfect data,
which the paper has not: EM fits them on the CPU, for minutes.

``--keep`` leaves the parts in a new folder: its priors play on in ``diffts reproduce --out DIR``,
where DIR/parts is that folder.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.measuring import command
from diffts.circumstances import circumstances
from diffts.reproduction import PROFILES
from diffts.reproduction.evaluation import OURS, OURS_AS_IN_THE_PAPER, main_panels
from diffts.reproduction.profile import Profile
from diffts.reproduction.regret import MIXTURES
from diffts.reproduction.specs import FRESH, Run
from diffts.reproduction.store import Store
from diffts.reproduction.work import Reproduction

POLICIES = (OURS, OURS_AS_IN_THE_PAPER, "ucb1", "gts-diag", "gts-full", *MIXTURES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--profile", default="paper", choices=sorted(PROFILES))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--keep", type=Path, help="a new folder for the parts")
    options = parser.parse_args()
    if options.keep is not None and options.keep.exists():
        parser.error(f"--keep: {options.keep} is there; what is in it would not be timed")
    with tempfile.TemporaryDirectory() as folder:
        told = measure(options.keep or Path(folder), options.profile, options.seeds)
    text = json.dumps(told, indent=1) + "\n"
    print(text)
    if options.out is not None:
        options.out.write_text(text)


def measure(folder: Path, profile: str, seeds: int) -> dict[str, Any]:
    """Make the races in an empty folder; by the clock, and by what each part was told it took."""
    sizes = PROFILES[profile].with_seeds(seeds)
    store = Store(folder, sizes.as_json())
    started = time.perf_counter()

    def report(line: str, *_: int) -> None:
        print(f"{time.perf_counter() - started:6.0f} s  {line}", flush=True)

    Reproduction(sizes, store, report=report).play(races(sizes))
    clock = time.perf_counter() - started
    parts = shares(store)
    rest = clock - sum(parts.values())
    return {
        "command": command("main_seconds"),
        "seeds": seeds,
        "seconds": round(clock, 1),
        "of them": {what: round(spent, 1) for what, spent in (parts | {"the rest": rest}).items()},
        "made_with": circumstances(),
    }


def races(profile: Profile) -> list[Run]:
    """The runs of the main results that are timed, on as many tasks as they show."""
    return [
        dataclasses.replace(run, tasks=FRESH)
        for panel in main_panels(profile)
        for line in panel.lines
        if line.label in POLICIES
        for run in line.runs
        if run.components is None or run.data == "perfect"
    ]


def shares(store: Store) -> dict[str, float]:
    """Seconds of compiling, learning, fitting (on the CPU) and playing, by the parts' notes."""
    spent: dict[str, float] = defaultdict(float)
    for file in sorted(store.folder.glob("*/*/*.npz")):
        kind = file.parent.name
        if kind not in ("times", "runs"):
            continue
        note = store.note(file.relative_to(store.folder).with_suffix("").as_posix())
        what = "fitting" if file.name.startswith("fit-") else "learning"
        spent["compiling"] += note["compiling"]
        spent["playing" if kind == "runs" else what] += note["seconds"] - note["compiling"]
    return dict(spent)


if __name__ == "__main__":
    main()
