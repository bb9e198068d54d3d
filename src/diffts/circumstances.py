"""What a number was made with: versions, hardware, the state of the code, and compilation."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import jax
import jax.monitoring

from diffts._version import __version__

#: What JAX calls the stages of compilation that take time of their own.
_COMPILING = (
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)
_compiled: list[float] = []


def _listen(event: str, duration_secs: float, **_: str | int) -> None:
    if event in _COMPILING:
        _compiled.append(duration_secs)


jax.monitoring.register_event_duration_secs_listener(_listen)


def seconds_of_compilation() -> float:
    """Seconds that JAX has spent on compiling since this module was imported."""
    return sum(_compiled)


@functools.cache
def circumstances() -> dict[str, str]:
    """What a number was made with: versions, hardware and the state of the code."""
    return {
        "diffts": __version__,
        "python": platform.python_version(),
        "jax": version("jax"),
        "device": jax.devices()[0].device_kind,
        "commit": os.environ.get("DIFFTS_COMMIT") or _commit(),  # for copies without history
    }


def _commit() -> str:
    """The git revision of the code, '-dirty' if it was changed since."""
    here = Path(__file__).resolve()

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(here.parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        source = Path(git("rev-parse", "--show-toplevel")) / "src"
        if source / "diffts" not in here.parents:  # installed inside of another project
            return "unknown"
        changed = git("status", "--porcelain", "--", str(source))
        return git("rev-parse", "--short", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
