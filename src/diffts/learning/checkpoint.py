"""Training states on disk, each tied to the very training that wrote it."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping
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


class CheckpointWarning(UserWarning):
    """A state could not be saved; the training goes on without it."""


class TrainingStopped(KeyboardInterrupt):
    """An interrupted training whose last state was kept.

    Attributes:
        folder: where it is: the ``checkpoint`` that was asked for, or if that could not be
            written, a new folder among the system's temporary ones.
        step: gradient steps it has done.
    """

    def __init__(self, folder: Path, step: int) -> None:
        super().__init__(f"stopped at step {step}; its state is in {folder}")
        self.folder, self.step = folder, step


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

    def follow(
        self,
        start: State,
        states: Iterable[State],
        *,
        every: int,
        step_of: Callable[[State], int],
        is_last: Callable[[State], bool],
        on_state: Callable[[State], None] | None,
    ) -> State:
        """Run a training to its end, saving its state now and then, at the end and when stopped.

        A state that cannot be saved is a warning: an hour of training is worth more than its
        checkpoint.

        Args:
            start: the state that the training goes on from.
            states: the training, a state after every block of steps.
            every: steps between two saves.
            step_of: the number of steps of a state.
            is_last: whether a state is the last one.
            on_state: called with each state.

        Raises:
            TrainingStopped: a KeyboardInterrupt came, and the last state is kept.
        """
        state, saved_at = start, step_of(start)
        try:
            for state in states:
                if on_state is not None:
                    on_state(state)
                done = step_of(state)
                if done - saved_at >= every or is_last(state):
                    self._save_or_warn(state)
                    saved_at = done
        except KeyboardInterrupt as interrupt:
            if (kept := self._save_somewhere(state, step_of(state))) is None:
                raise
            raise TrainingStopped(kept, step_of(state)) from interrupt
        return state

    def _save_or_warn(self, state: Any) -> None:
        try:
            self.save(state)
        except (ArtifactError, OSError) as error:
            warnings.warn(
                f"checkpoint not saved, the training goes on: {error}",
                CheckpointWarning,
                stacklevel=3,
            )

    def _save_somewhere(self, state: Any, step: int) -> Path | None:
        """The folder where the state is; None if there is none to keep or nowhere to keep it."""
        if self.folder is None or step == 0:
            return None
        folder = Path(self.folder)
        for _ in range(2):
            try:
                Checkpoint(folder, self.digest).save(state)
                return folder
            except (ArtifactError, OSError):
                folder = Path(tempfile.mkdtemp(prefix="diffts-checkpoint-"))
        return None
