"""What is finished, on disk: so that a second start of a reproduction goes on where it stopped."""

from __future__ import annotations

import functools
import io
import json
import os
import platform
import subprocess
import zipfile
import zlib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from diffts._version import __version__
from diffts.diffusion.prior import DiffusionPrior
from diffts.errors import ArtifactError, InvalidInputError
from diffts.files import naming

Arrays = dict[str, NDArray[Any]]


class Store:
    """A folder of finished parts: arrays with a note in JSON, and priors.

    Every part is written beside its place and then renamed: it is there in full or not at all.
    """

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder = folder
        marker = folder / "settings.json"
        if marker.exists():
            there = read_json(marker)
            if there != settings:
                known = there if isinstance(there, dict) else {}
                other = [name for name in settings if known.get(name) != settings[name]]
                raise InvalidInputError(
                    f"--out: {folder} holds parts of other settings ({', '.join(other)}); choose "
                    "another folder or remove it"
                )
        else:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(marker, (json.dumps(settings, indent=1) + "\n").encode())

    def has(self, key: str) -> bool:
        """Whether a part is finished."""
        return self._file(key).exists()

    def save(self, key: str, arrays: Arrays, note: dict[str, Any]) -> None:
        """Keep arrays and what to know about them."""
        path = self._file(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        text = np.frombuffer(json.dumps(note | circumstances()).encode(), np.uint8)
        np.savez_compressed(buffer, **arrays, note=text)  # type: ignore[arg-type]
        write_whole(path, buffer.getvalue())

    def load(self, key: str) -> tuple[Arrays, dict[str, Any]]:
        """The arrays and their note."""
        try:
            with np.load(self._file(key), allow_pickle=False) as content:
                arrays = {name: content[name] for name in content.files}
            note: dict[str, Any] = json.loads(arrays.pop("note").tobytes().decode())
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error):
            # NumPy's own words would advise to unpickle what is no archive.
            raise ArtifactError(f"{self._file(key)}: damaged; remove it") from None
        return arrays, note

    def has_prior(self, key: str) -> bool:
        """Whether a prior is there."""
        return (self.folder / key / "config.json").exists()

    def save_prior(self, key: str, prior: DiffusionPrior) -> None:
        """Keep a prior."""
        prior.save(self.folder / key)

    def load_prior(self, key: str) -> DiffusionPrior:
        """A prior that was kept."""
        return DiffusionPrior.load(self.folder / key)

    def _file(self, key: str) -> Path:
        return self.folder / f"{key}.npz"


@functools.cache
def circumstances() -> dict[str, Any]:
    """What a number was made with: versions, hardware and the state of the code."""
    return {
        "diffts": __version__,
        "python": platform.python_version(),
        "jax": version("jax"),
        "device": jax.devices()[0].device_kind,
        "commit": _commit(),
    }


def read_json(path: Path) -> Any:
    """A JSON file, or a clear word about a damaged one."""
    try:
        return json.loads(path.read_bytes())
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ArtifactError(f"{path}: damaged, not JSON ({error}); remove it") from None


def write_whole(path: Path, data: bytes) -> None:
    """Write a file beside its place, then rename it; other processes may write the same one."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    with naming(path):
        try:
            unfinished.write_bytes(data)
            os.replace(unfinished, path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise


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
