"""Training states on disk, each tied to the very training that wrote it."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from diffts.errors import ArtifactError
from diffts.learning.phases import LearningState
from diffts.storage import CONFIG, load_folder, named_arrays, save_folder, with_arrays

_KIND, _VERSION = "diffts.training", 1
State = TypeVar("State")


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

    def save_or_warn(self, state: Any) -> None:
        """Replace the saved state; what cannot be saved is a warning."""
        try:
            self.save(state)
        except (ArtifactError, OSError) as error:
            warnings.warn(
                f"checkpoint not saved, the training goes on: {error}",
                CheckpointWarning,
                stacklevel=3,
            )

    def save_somewhere(self, state: LearningState) -> Path | None:
        """The folder where the state is; None if there is none to keep or nowhere to keep it."""
        if self.folder is None or state.step == 0:
            return None
        folder = Path(self.folder)
        for _ in range(2):
            try:
                Checkpoint(folder, self.digest).save(state)
                return folder
            except (ArtifactError, OSError):
                folder = Path(tempfile.mkdtemp(prefix="diffts-checkpoint-"))
        return None


def follow(
    saved: Sequence[Checkpoint],
    now: Sequence[LearningState],
    states: Iterable[Sequence[LearningState]],
    every: int,
    on_states: Callable[[Sequence[LearningState]], None],
) -> Sequence[LearningState]:
    """Run trainings side by side to their ends; save their states now and then, and when stopped.

    A state that cannot be saved is a warning: an hour of training is worth more than its
    checkpoint.

    Raises:
        TrainingStopped: a KeyboardInterrupt came, and the last states are kept; it tells of the
            first one.
    """
    saved_at = [state.step for state in now]

    def save(least: int) -> None:
        for i, (one, state) in enumerate(zip(saved, now, strict=True)):
            if state.step - saved_at[i] >= least:
                one.save_or_warn(state)
                saved_at[i] = state.step

    try:
        for now in states:
            on_states(now)
            save(every)
        save(1)
    except KeyboardInterrupt as interrupt:
        kept = [one.save_somewhere(state) for one, state in zip(saved, now, strict=True)]
        if kept[0] is None:
            raise
        raise TrainingStopped(kept[0], now[0].step) from interrupt
    return now
