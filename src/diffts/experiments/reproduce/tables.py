"""Results on disk for people: rows as CSV, a summary as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from diffts.experiments.reproduce.profile import Profile
from diffts.experiments.reproduce.store import Store, write_whole

#: What a note says of how a number was made.
_CIRCUMSTANCES = ("device", "jax", "python", "diffts", "commit")


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """A CSV file with the keys of the first row as its header."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]) if rows else [])
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue().encode())


def write_summary(path: Path, summary: dict[str, Any]) -> None:
    """A JSON file."""
    text = json.dumps(summary, indent=1, ensure_ascii=False) + "\n"
    write_whole(path, text.encode())


def provenance(
    store: Store, name: str, profile: Profile, parts: Iterable[str], needs_data: bool = False
) -> dict[str, Any]:
    """The command, and what the parts were made with: hardware, versions, seconds of work.

    Seconds are those of the parts an experiment rests on, wherever they were made; experiments
    that share parts each count them.
    """
    made: dict[tuple[str, ...], dict[str, Any]] = {}
    for part in sorted(set(parts)):
        if not store.has(part):
            continue
        _, note = store.load(part)
        where = tuple(str(note[name]) for name in _CIRCUMSTANCES)
        entry = made.setdefault(
            where, dict(zip(_CIRCUMSTANCES, where, strict=True)) | {"parts": 0, "seconds": 0.0}
        )
        entry["parts"] += 1
        entry["seconds"] = round(entry["seconds"] + float(note.get("seconds", 0.0)), 2)
    return {
        "experiment": name,
        "command": f"diffts reproduce {name} {profile.command_options}"
        + (" --data-dir DIR" if needs_data else ""),
        "made_with": list(made.values()),
    }
