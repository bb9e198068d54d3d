"""What was learned outlives what stops a command: Ctrl-C, SIGTERM, errors after the training."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from diffts.cli.console import complain
from diffts.cli.outputs import ElsewhereError, fresh_folder, save_prior
from diffts.cli.signals import this_command
from diffts.errors import InvalidInputError

if TYPE_CHECKING:
    from diffts.diffusion.prior import DiffusionPrior

#: Where states may be: of one training, of several seeds, of several λ.
_STATES = ("config.json", "seed-*/config.json", "sure-*/config.json", "seed-*/sure-*/config.json")


@contextmanager
def kept_training(given: Path | None, default: Path) -> Iterator[Path]:
    """The folder of a training's state: the ``--checkpoint`` that was given.

    Where the user asked for none there is one all the same (``default``, with a number if something
    is there), gone when the work within is done. Whatever ends it before leaves the state there,
    and a line that says how to go on.
    """
    from diffts.learning import TrainingStopped

    folder = fresh_folder(default) if given is None else given
    if given is None and folder.name != default.name and _has_state(default):
        complain(f"{default} holds a stopped training; --checkpoint goes on from it", "note")
    keeps = given is not None
    try:
        yield folder
    except (InvalidInputError, ElsewhereError):
        raise  # going on would end the same way, or all is done: the state is of no use
    except BaseException as error:
        kept = folder
        if isinstance(error, TrainingStopped) and not _has_state(folder):
            kept = error.folder
        if _has_state(kept):
            keeps = True
            command = this_command() if kept == given else this_command("--checkpoint", str(kept))
            complain(f"the training is kept in {kept}; go on with: {command}", "stopped")
        else:
            complain("nothing is kept: no block of training steps was finished", "stopped")
        raise
    finally:
        if not keeps:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def kept_priors(
    learned: Sequence[DiffusionPrior], default: Path, instead: list[str] | None = None
) -> Iterator[None]:
    """If the work within is stopped, save the priors that were learned for it.

    The first goes to ``default``, others get a number. With ``--prior`` the same command goes on,
    or that with the arguments ``instead``.
    """
    try:
        yield
    except InvalidInputError:
        raise
    except BaseException:
        folders = []
        for prior in learned:
            folders.append(str(fresh_folder(default)))
            save_prior(prior, Path(folders[-1]))
        if folders:
            more = [word for folder in folders for word in ("--prior", folder)]
            command = this_command(*more, instead=instead)
            kept = "the prior is" if len(folders) == 1 else "the priors are"
            complain(f"{kept} kept in {', '.join(folders)}; go on with: {command}", "stopped")
        raise


def beside(folder: Path, what: str) -> Path:
    """A folder with a longer name in the same place."""
    whole = folder.resolve() if folder.name in ("", "..") else folder
    return whole.with_name(f"{whole.name}-{what}")


def _has_state(folder: Path) -> bool:
    return any(any(folder.glob(pattern)) for pattern in _STATES)
