"""Files and folders that a command is to write: probed before its work, and never lost after it."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffts.errors import ArtifactError, InvalidInputError
from diffts.files import is_special, write_file

if TYPE_CHECKING:
    from diffts.diffusion.prior import DiffusionPrior

_CONFIG = "config.json"
PRIOR, TRAINING = "diffts.prior", "diffts.training"  # kinds of folders


class ElsewhereError(ArtifactError):
    """A result could not be written where it was wanted, and is somewhere else."""


def check_outputs(
    files: Mapping[str, Path | None],
    folders: Mapping[str, Path | None] | None = None,
    inputs: Mapping[str, Sequence[str | Path] | None] | None = None,
    out_kind: str | None = None,
) -> None:
    """Say that a result cannot be written before the work, not after it.

    By option: files (of a picture if it has 'figure' in it), folders to be made or filled, and
    what is read, which must not be written over. ``out_kind``: what --out is to hold, if one thing.
    """
    to_fill = {name: path for name, path in (folders or {}).items() if path is not None}
    to_write = {name: path for name, path in files.items() if path is not None}
    _refuse_the_same(to_write | to_fill, inputs or {})
    for option, path in to_fill.items():
        with _as_users_mistake(option, path):
            _check_folder(option, path, TRAINING if option == "--checkpoint" else out_kind)
    made = [Path(os.path.realpath(path)) for path in to_fill.values()]
    for option, path in to_write.items():
        with _as_users_mistake(option, path):
            if "figure" in option:
                _check_suffix(option, path)
            _check_file(option, path, made)


def write_json(path: Path | None, result: Any) -> None:
    """Write ``result`` if a file was asked for; somewhere else if it cannot be written there."""
    if path is not None:
        _write(path, json.dumps(result, indent=2) + "\n", ".json")


def write_csv(path: Path | None, rows: Iterable[Mapping[str, Any]]) -> None:
    """The same of flat rows, each with the columns of the first."""
    if path is None:
        return
    text = io.StringIO()
    first, *rest = rows
    table = csv.DictWriter(text, list(first), lineterminator="\n")
    table.writeheader()
    table.writerows([first, *rest])
    _write(path, text.getvalue(), ".csv")


def _write(path: Path, text: str, suffix: str) -> None:
    try:
        write_file(path, text.encode())
    except OSError as error:
        handle, elsewhere = tempfile.mkstemp(prefix="diffts-result-", suffix=suffix)
        with os.fdopen(handle, "wb") as stream:
            stream.write(text.encode())
        said = f"{path}: {error.strerror or error}; the result is in {elsewhere}"
        raise ElsewhereError(said) from error


def do_all(*deliveries: Callable[[], None]) -> None:
    """One after the other; one that fails stops none of the others."""
    with contextlib.ExitStack() as stack:
        for deliver in reversed(deliveries):
            stack.callback(deliver)


def save_prior(prior: DiffusionPrior, folder: Path) -> None:
    """Save a prior; somewhere else, and say where, if its folder has been lost or is full."""
    try:
        prior.save(folder)
    except (ArtifactError, OSError) as error:
        for parent in (tempfile.gettempdir(), "."):
            with contextlib.suppress(ArtifactError, OSError):
                elsewhere = Path(tempfile.mkdtemp(prefix="diffts-prior-", dir=parent)).resolve()
                prior.save(elsewhere)
                break
        else:
            raise ArtifactError(f"{error}; nor could it be saved elsewhere") from error
        raise ElsewhereError(f"{error}; the prior is in {elsewhere}") from error


def fresh_folder(wanted: Path) -> Path:
    """A new folder: ``wanted``, with a number if that is there, temporary if it cannot be made."""
    wanted = wanted.parent.resolve() / wanted.name if wanted.name else wanted
    try:
        _try_file_in(_nearest_folder(wanted))
    except OSError:
        wanted = Path(tempfile.gettempdir()) / wanted.name
    numbered = (wanted.with_name(f"{wanted.name}-{number}") for number in count(2))
    folder = next(filter(_is_ours, chain([wanted], numbered)))
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


def _refuse_the_same(
    outputs: Mapping[str, Path], inputs: Mapping[str, Sequence[str | Path] | None]
) -> None:
    places = {option: os.path.realpath(path) for option, path in outputs.items()}
    for one, other in combinations(places, 2):
        if _is_same(places[one], places[other]):
            raise InvalidInputError(f"{one}, {other}: both are {outputs[one]}")
    for option, paths in inputs.items():
        parts = (Path(path) / part for path in paths or () for part in ("", _CONFIG))
        read = {os.path.realpath(part) for part in parts}
        for one, place in places.items():
            if place in read:
                raise InvalidInputError(f"{one}: {outputs[one]} is read by {option}")


def _is_same(one: str, other: str) -> bool:
    """Whether two places are one file; a device may well be named twice."""
    with contextlib.suppress(OSError):
        return not is_special(Path(one)) and os.path.samefile(one, other)
    return one == other  # one of them is not there yet


def _check_suffix(option: str, path: Path) -> None:
    from diffts.figures.style import picture_suffixes

    known = picture_suffixes()
    if not is_special(path) and path.suffix.lower().removeprefix(".") not in known:
        raise InvalidInputError(
            f"{option}: {path} has no suffix of a picture; choose from .{', .'.join(known)}"
        )


def _check_file(option: str, path: Path, made: list[Path]) -> None:
    parent = Path(os.path.realpath(path)).parent
    if path.is_dir():
        raise InvalidInputError(f"{option}: {path} is a folder")
    if is_special(path):  # opening a pipe would wait for its reader
        if not os.access(path, os.W_OK):
            raise InvalidInputError(f"{option}: {path} cannot be written")
    elif path.exists():
        with open(path, "ab"):
            return
    elif parent.is_dir():
        _try_file_in(parent)
    elif parent not in made:
        raise InvalidInputError(f"{option}: no folder {parent}")


def _check_folder(option: str, path: Path, kind: str | None) -> None:
    """Refuse what is no folder, or holds something else than what is to be saved there."""
    nearest = _nearest_folder(path)
    for one in (path, nearest):
        if os.path.lexists(one) and not one.is_dir():
            raise InvalidInputError(f"{option}: {one} is not a folder")
    _try_file_in(nearest)
    try:
        header = json.loads((path / _CONFIG).read_bytes())
    except (OSError, ValueError):
        return
    if kind is not None and (not isinstance(header, dict) or header.get("kind") != kind):
        raise InvalidInputError(f"{option}: {path} holds another {_CONFIG}; choose another")


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
