"""What a number was made with: versions, hardware and the state of the code."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

from diffts._version import __version__


@functools.cache
def circumstances() -> dict[str, Any]:
    """Versions, device and commit, as plain values."""
    return {
        "diffts": __version__,
        "python": platform.python_version(),
        "jax": version("jax"),
        "device": jax.devices()[0].device_kind,
        "commit": _commit(),
    }


def _commit() -> str:
    """The git revision of the code, '-dirty' if it was changed since.

    Of a copy without its history, what DIFFTS_COMMIT says.
    """
    if said := os.environ.get("DIFFTS_COMMIT"):
        return said
    here = Path(__file__).resolve()
    try:
        root = Path(_git(here.parent, "rev-parse", "--show-toplevel"))
        if root / "src" / "diffts" not in here.parents:  # installed inside of another project
            return "unknown"
        changed = _git(root, "status", "--porcelain", "--", "src")
        return _git(root, "rev-parse", "--short", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
