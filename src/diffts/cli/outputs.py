"""Files and folders that a command is to write: probed before its work, and never lost after it."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffts.errors import ArtifactError, InvalidInputError
from diffts.files import is_special, write_file

if TYPE_CHECKING:
    from diffts.diffusion.prior import DiffusionPrior

_CONFIG = "config.json"
_PRIOR, _TRAINING = "diffts.prior", "diffts.training"  # kinds of folders


class ElsewhereError(ArtifactError):
    """A result could not be written where it was wanted, and is somewhere else."""


def check_outputs(
    files: Mapping[str, Path | None],
    folders: Mapping[str, Path | None] | None = None,
    inputs: Mapping[str, Path | None] | None = None,
) -> None:
    """Say that a result cannot be written before the work, not after it.

    Args:
        files: path of each option that names a file; one with 'figure' in it names a picture.
        folders: the same of folders to be made or filled.
        inputs: the same of what is read, which must not be written over.
    """
    wanted_folders = {name: path for name, path in (folders or {}).items() if path is not None}
    wanted = {name: path for name, path in files.items() if path is not None}
    made = [Path(os.path.realpath(path)) for path in wanted_folders.values()]
    _refuse_the_same({**wanted, **wanted_folders}, inputs or {})
    for option, path in wanted_folders.items():
        with _as_users_mistake(option, path):
            _check_folder(option, path)
    for option, path in wanted.items():
        with _as_users_mistake(option, path):
            if "figure" in option:
                _check_suffix(option, path)
            _check_file(option, path, made)


def check_kind(option: str, folder: Path, kind: str) -> None:
    """Refuse a folder that holds something else than what is to be saved there."""
    try:
        header = json.loads((folder / _CONFIG).read_bytes())
    except (OSError, ValueError):
        return
    found = header.get("kind") if isinstance(header, dict) else None
    if found != kind:
        raise InvalidInputError(f"{option}: {folder} holds another {_CONFIG}; choose another")


def check_prior_folder(option: str, folder: Path) -> None:
    """Refuse a folder in which no prior can be saved."""
    check_kind(option, folder, _PRIOR)


def check_checkpoint_folder(option: str, folder: Path | None) -> None:
    """Refuse a folder that holds something else than the state of a training."""
    if folder is not None:
        check_kind(option, folder, _TRAINING)


def write_json(path: Path | None, result: Any) -> None:
    """Write ``result`` if a file was asked for; somewhere else if it cannot be written there."""
    if path is None:
        return
    data = (json.dumps(result, indent=2) + "\n").encode()
    try:
        write_file(path, data)
    except OSError as error:
        handle, elsewhere = tempfile.mkstemp(prefix="diffts-result-", suffix=".json")
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        raise ElsewhereError(
            f"{path}: {error.strerror or error}; the result is in {elsewhere}"
        ) from error


def save_prior(prior: DiffusionPrior, folder: Path) -> None:
    """Save a prior; somewhere else, and say where, if its folder has been lost or is full."""
    try:
        prior.save(folder)
    except (ArtifactError, OSError) as error:
        if (elsewhere := _save_elsewhere(prior)) is None:
            raise ArtifactError(f"{error}; nor could it be saved elsewhere") from error
        raise ElsewhereError(f"{error}; the prior is in {elsewhere}") from error


def _save_elsewhere(prior: DiffusionPrior) -> Path | None:
    """A new folder with the prior, among the temporary ones or in the current one."""
    for parent in (tempfile.gettempdir(), "."):
        with contextlib.suppress(ArtifactError, OSError):
            folder = Path(tempfile.mkdtemp(prefix="diffts-prior-", dir=parent)).resolve()
            prior.save(folder)
            return folder
    return None


def fresh_folder(wanted: Path) -> Path:
    """A new folder: ``wanted``, with a number if that is there, temporary if it cannot be made."""
    wanted = wanted.parent.resolve() / wanted.name if wanted.name else wanted
    if not _takes_files(_nearest_folder(wanted)):
        wanted = Path(tempfile.gettempdir()) / wanted.name
    number, folder = 1, wanted
    while not _is_ours(folder):
        number += 1
        folder = wanted.with_name(f"{wanted.name}-{number}")
    with contextlib.suppress(ValueError):
        return folder.relative_to(Path.cwd())  # shorter, where it is below
    return folder


def _is_ours(folder: Path) -> bool:
    """Make the folder, unless something is there: another process may want the same name."""
    if not folder.parent.is_dir():
        return not os.path.lexists(folder)  # made when needed, with what is above it
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    return True


@contextlib.contextmanager
def _as_users_mistake(option: str, path: Path) -> Iterator[None]:
    """What the system says against a path, said of the option."""
    try:
        yield
    except OSError as error:
        said = error.strerror or str(error)
        raise InvalidInputError(f"{option}: {path} cannot be written ({said})") from None


def _refuse_the_same(outputs: Mapping[str, Path], inputs: Mapping[str, Path | None]) -> None:
    places = {option: os.path.realpath(path) for option, path in outputs.items()}
    names = list(places)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            if _is_same(places[one], places[other]):
                raise InvalidInputError(f"{one}, {other}: both are {outputs[one]}")
    for option, path in inputs.items():
        if path is None:
            continue
        parts = {os.path.realpath(path), os.path.realpath(path / _CONFIG)}
        for one, place in places.items():
            if place in parts and one != "--out":
                raise InvalidInputError(f"{one}: {outputs[one]} is read by {option}")


def _is_same(one: str, other: str) -> bool:
    """Whether two places are one file; a device may well be named twice."""
    with contextlib.suppress(OSError):
        if is_special(Path(one)):
            return False
        return one == other or os.path.samefile(one, other)
    return one == other


def _check_suffix(option: str, path: Path) -> None:
    from diffts.figures.style import picture_suffixes

    if is_special(path):
        return
    known = picture_suffixes()
    if path.suffix.lower().removeprefix(".") not in known:
        raise InvalidInputError(
            f"{option}: {path} has no suffix of a picture; choose from .{', .'.join(known)}"
        )


def _check_file(option: str, path: Path, made: list[Path]) -> None:
    if path.is_dir():
        raise InvalidInputError(f"{option}: {path} is a folder")
    if is_special(path):  # opening a pipe would wait for its reader
        if not os.access(path, os.W_OK):
            raise InvalidInputError(f"{option}: {path} cannot be written")
        return
    parent = Path(os.path.realpath(path)).parent
    if path.exists():
        with open(path, "ab"):
            return
    if not parent.is_dir():
        if parent in made:
            return  # it will be
        raise InvalidInputError(f"{option}: no folder {parent}")
    _try_file_in(parent)


def _check_folder(option: str, path: Path) -> None:
    if os.path.lexists(path) and not path.is_dir():
        raise InvalidInputError(f"{option}: {path} is not a folder")
    nearest = _nearest_folder(path)
    if not nearest.is_dir():
        raise InvalidInputError(f"{option}: {nearest} is not a folder")
    _try_file_in(nearest)


def _nearest_folder(path: Path) -> Path:
    """The path itself, or the first above it that is there."""
    path = Path(os.path.realpath(path))
    while not os.path.lexists(path):
        path = path.parent
    return path


def _try_file_in(folder: Path) -> None:
    """Make a file there and remove it: permissions alone do not tell of full or odd disks."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".diffts-probe-") as probe:
        probe.write(b"\0")
        probe.flush()


def _takes_files(folder: Path) -> bool:
    try:
        _try_file_in(folder)
    except OSError:
        return False
    return True
