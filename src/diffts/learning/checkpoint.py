"""Training states on disk, each tied to the very training that wrote it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from diffts.errors import ArtifactError
from diffts.storage import CONFIG, load_folder, named_arrays, save_folder, with_arrays

_KIND, _VERSION = "diffts.training", 1
State = TypeVar("State")


def fingerprint(settings: Mapping[str, Any], *data: NDArray[Any]) -> str:
    """A digest of all that must agree for a checkpoint to be a part of this very training."""
    digest = hashlib.sha256(json.dumps(dict(settings), sort_keys=True).encode())
    for array in data:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


class Checkpoint:
    """A folder with the last state of a training; None for a training that keeps none."""

    def __init__(self, folder: str | os.PathLike[str] | None, digest: str) -> None:
        self.folder, self.digest = folder, digest

    def load(self, start: State) -> State:
        """The saved state, or ``start`` where there is none."""
        if self.folder is None or not (Path(self.folder) / CONFIG).exists():
            return start
        content, arrays = load_folder(self.folder, _KIND, _VERSION)
        if content.get("fingerprint") != self.digest:
            raise ArtifactError(
                f"{self.folder}: a training of other data, settings or seed; "
                "remove the folder or choose another"
            )
        return with_arrays(start, arrays, str(self.folder))

    def save(self, state: Any) -> None:
        """Replace the saved state, atomically."""
        if self.folder is not None:
            content = {"fingerprint": self.digest}
            save_folder(self.folder, _KIND, _VERSION, content, named_arrays(state))
