"""A counted log in one small file, for machines without the packages that read tables."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from diffts.logs import Facts, Log


def keep_log(log: Log, file: Path, law: str) -> None:
    """Write a log and the name of the law that it was drawn from: an ``.npz`` file."""
    told = {
        "law": law,
        "tasks": log.tasks,
        "arms": log.arms,
        "facts": log.facts.to_json(),
    }
    with file.open("wb") as opened:  # np.savez would add a suffix to a name without it
        np.savez_compressed(
            opened,
            told=np.asarray(json.dumps(told)),
            **{name: getattr(log, name) for name in ("counts", "means", "squares", "rows")},
        )


def kept_log(file: Path) -> tuple[Log, str]:
    """What :func:`keep_log` wrote: the log, and the name of its law."""
    with np.load(file, allow_pickle=False) as kept:
        told = json.loads(str(kept["told"]))
        facts = Facts(**{**told["facts"], "seldom_arms": tuple(told["facts"]["seldom_arms"])})
        arrays = {name: kept[name] for name in ("counts", "means", "squares")}
        log = Log(told["tasks"], told["arms"], **arrays, facts=facts, rows=kept["rows"])
    return log, told["law"]
