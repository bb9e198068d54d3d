"""What was learned outlives what stops a command: Ctrl-C, SIGTERM, errors after the training."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from diffts.cli.common import complain
from diffts.cli.outputs import ElsewhereError, check_checkpoint_folder, fresh_folder, save_prior
from diffts.cli.signals import this_command
from diffts.errors import InvalidInputError

if TYPE_CHECKING:
    from diffts.diffusion.prior import DiffusionPrior


@contextmanager
def kept_training(given: Path | None, default: Path) -> Iterator[Path]:
    """The folder of a training's state.

    Where the user asked for none there is one all the same, gone when the work within is done.
    Whatever ends it before leaves the state there, and a line that says how to go on.

    Args:
        given: the user's ``--checkpoint``.
        default: the folder otherwise; with a number if something is there.
    """
    from diffts.learning import TrainingStopped

    check_checkpoint_folder("--checkpoint", given)
    folder = fresh_folder(default) if given is None else given
    if given is None and folder.name != default.name and _has_state(default):
        complain(f"{default} holds a stopped training; --checkpoint goes on from it", "note")
    try:
        yield folder
    except (InvalidInputError, ElsewhereError):
        # Going on would end the same way, or all is done: the state is of no use.
        if given is None:
            _remove(folder)
        raise
    except BaseException as error:
        kept = folder
        if isinstance(error, TrainingStopped) and not _has_state(folder):
            kept = error.folder
        _say_how_to_go_on(kept, given)
        raise
    if given is None:
        _remove(folder)


@contextmanager
def kept_prior(
    learned: Callable[[], DiffusionPrior] | None, default: Path, go_on: Callable[[Path], str]
) -> Iterator[None]:
    """If the work within is stopped, save the prior that was learned for it.

    Args:
        learned: gives that prior; None if it was not learned here.
        default: a folder for it.
        go_on: the command that goes on with the prior in a folder.
    """
    try:
        yield
    except InvalidInputError:
        raise
    except BaseException:
        if learned is not None:
            folder = fresh_folder(default)
            save_prior(learned(), folder)
            complain(f"the prior is kept in {folder}; go on with: {go_on(folder)}", "stopped")
        raise


def beside(folder: Path, what: str) -> Path:
    """A folder with a longer name in the same place."""
    whole = folder.resolve() if folder.name in ("", "..") else folder
    return whole.with_name(f"{whole.name}-{what}")


def _say_how_to_go_on(kept: Path, given: Path | None) -> None:
    if not _has_state(kept):
        complain("nothing is kept: no block of training steps was finished", "stopped")
        if given is None:
            _remove(kept)
        return
    command = this_command() if kept == given else this_command("--checkpoint", str(kept))
    complain(f"the training is kept in {kept}; go on with: {command}", "stopped")


def _has_state(folder: Path) -> bool:
    """Whether a training's state is there, or those of several in folders of their own."""
    return (folder / "config.json").exists() or any(folder.glob("sure-*/config.json"))


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
