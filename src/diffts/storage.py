"""Folders of ``config.json`` and safetensors: how everything here is kept. Never a pickle.

A save is atomic. The arrays go into a new file named after their hash; then ``config.json``,
which names that file, is replaced in one rename. A crash at any point leaves the old pair whole.

Several processes may save and load one folder at the same time. Writers take turns: each holds a
lock of the folder itself (no file, and the system frees it when its holder is killed), so that what
no ``config.json`` names can be removed without taking it from a writer about to name it. A reader
takes no lock unless the arrays are gone that the ``config.json`` it read has named: then somebody
saved in between, and it reads again in its turn.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from diffts.errors import ArtifactError
from diffts.files import UNFINISHED, replace_file

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

CONFIG = "config.json"
#: Seconds after which, without a lock, no writer can still be about to name its arrays.
_SURELY_STALE = 30.0
#: Where there is no lock, how often a reader looks again before it says that arrays are missing.
_READS_WITHOUT_LOCK = 50
Tree = TypeVar("Tree")


def save_folder(
    directory: str | os.PathLike[str],
    kind: str,
    version: int,
    content: Mapping[str, Any],
    arrays: Mapping[str, Any],
) -> None:
    """Write ``content`` (JSON) and ``arrays`` as an artifact of ``kind`` and ``version``."""
    folder = Path(directory)
    _refuse_foreign(folder, kind)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArtifactError(f"{folder}: cannot be made a folder ({error.strerror})") from None
    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    data = safetensors.numpy.save(plain)
    digest = hashlib.sha256(data).hexdigest()
    file = f"arrays-{digest[:16]}.safetensors"
    header = {
        "kind": kind,
        "version": version,
        "arrays": {"file": file, "sha256": digest},
        "content": dict(content),
    }
    text = json.dumps(header, indent=2, sort_keys=True, allow_nan=False) + "\n"
    try:
        with _turn(folder) as alone:
            _refuse_foreign(folder, kind)  # again: somebody may have been faster
            replace_file(folder / file, data)
            replace_file(folder / CONFIG, text.encode())
            _remove_stale(folder, file, alone)
    except OSError as error:
        where = error.filename or folder
        raise ArtifactError(f"{where}: cannot be written ({error.strerror or error})") from error


def load_folder(
    directory: str | os.PathLike[str], kind: str, version: int
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Content and arrays of an artifact, or an :class:`ArtifactError` that says what is wrong."""
    folder = Path(directory)
    try:
        return _load(folder, kind, version)
    except _ArraysError:
        pass  # or replaced between the reading of the two files: once more, while nobody saves
    with _turn(folder, shared=True) as alone:
        for _ in range(0 if alone else _READS_WITHOUT_LOCK):
            with contextlib.suppress(_ArraysError):
                return _load(folder, kind, version)
            time.sleep(0.01)
        return _load(folder, kind, version)


class _ArraysError(ArtifactError):
    """The arrays are not those that the config names: damaged, or just being replaced."""


def _load(folder: Path, kind: str, version: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    header = _read_header(folder)
    if header.get("kind") != kind:
        raise ArtifactError(f"{folder}: holds {header.get('kind')!r}, expected {kind!r}")
    found = header.get("version")
    if not isinstance(found, int) or found < 1:
        raise ArtifactError(f"{folder / CONFIG}: damaged (version is {found!r})")
    if found > version:
        raise ArtifactError(
            f"{folder}: written in format {found}; this diffts reads up to {version}. "
            "Install a newer diffts."
        )
    entry, content = header.get("arrays"), header.get("content")
    if not isinstance(entry, dict) or not isinstance(content, dict):
        raise ArtifactError(f"{folder / CONFIG}: damaged (no arrays or no content)")
    name = entry.get("file")
    if not isinstance(name, str) or Path(name).name != name:
        raise ArtifactError(f"{folder / CONFIG}: damaged (arrays file is {name!r})")
    try:
        data = (folder / name).read_bytes()
    except OSError as error:
        raise _ArraysError(f"{folder / name}: cannot be read ({error.strerror})") from None
    if hashlib.sha256(data).hexdigest() != entry.get("sha256"):
        raise _ArraysError(f"{folder / name}: damaged (its hash is not the one in {CONFIG})")
    try:
        arrays = safetensors.numpy.load(data)
    except safetensors.SafetensorError as error:
        raise ArtifactError(f"{folder / name}: damaged ({error})") from None
    return content, arrays


def kind_of(directory: str | os.PathLike[str]) -> Any:
    """What kind of artifact a folder says that it holds."""
    return _read_header(Path(directory)).get("kind")


def named_arrays(tree: Any) -> dict[str, NDArray[Any]]:
    """The array leaves of a pytree, named by their path (``.network.inward.weight``)."""
    return {name: np.asarray(leaf) for name, leaf in _named(eqx.filter(tree, eqx.is_array)).items()}


def _named(tree: Any) -> dict[str, Any]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def with_arrays(skeleton: Tree, arrays: Mapping[str, NDArray[Any]], where: str) -> Tree:
    """``skeleton`` with its array leaves (shapes are enough) replaced by the named ``arrays``."""

    def is_slot(leaf: Any) -> bool:
        return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)

    expected = _named(eqx.filter(skeleton, is_slot))
    if missing := sorted(expected.keys() - arrays.keys()):
        raise ArtifactError(f"{where}: damaged (no array {missing[0]}; {len(missing)} missing)")
    for name, leaf in expected.items():
        if arrays[name].shape != leaf.shape or arrays[name].dtype != leaf.dtype:
            raise ArtifactError(
                f"{where}: damaged (array {name} is {arrays[name].dtype}{arrays[name].shape}, "
                f"expected {leaf.dtype}{leaf.shape})"
            )

    def fill(path: Any, leaf: Any) -> Any:
        return jnp.asarray(arrays[jax.tree_util.keystr(path)]) if is_slot(leaf) else leaf

    filled: Tree = jax.tree_util.tree_map_with_path(fill, skeleton)
    return filled


def _read_header(folder: Path) -> dict[str, Any]:
    try:
        header = json.loads((folder / CONFIG).read_bytes())
    except FileNotFoundError:
        raise ArtifactError(f"{folder}: no {CONFIG} there") from None
    except OSError as error:
        raise ArtifactError(f"{folder / CONFIG}: cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ArtifactError(f"{folder / CONFIG}: damaged, not JSON ({error})") from None
    if not isinstance(header, dict):
        raise ArtifactError(f"{folder / CONFIG}: foreign, not written by diffts")
    return header


def _refuse_foreign(folder: Path, kind: str) -> None:
    """Never overwrite somebody else's ``config.json``; a damaged one of ours may be replaced."""
    try:
        header = json.loads((folder / CONFIG).read_bytes())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError):
        return
    if not isinstance(header, dict) or header.get("kind") != kind:
        raise ArtifactError(f"{folder}: already holds another {CONFIG}; choose another folder")


@contextlib.contextmanager
def _turn(folder: Path, shared: bool = False) -> Iterator[bool]:
    """Wait for the folder's lock; yields whether there is one (not on Windows, nor on NFS)."""
    with contextlib.ExitStack() as held:
        locked = False
        if fcntl is not None:
            with contextlib.suppress(OSError):
                handle = os.open(folder, os.O_RDONLY)
                held.callback(os.close, handle)  # which frees the lock
                fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
                locked = True
        yield locked


def _remove_stale(folder: Path, named: str, alone: bool) -> None:
    """Remove arrays that no config names, and what killed writers left unfinished.

    Without a lock another writer may be about to name its arrays: only what is old goes.
    """
    now = (folder / CONFIG).stat().st_mtime  # of the same clock as the others, on a server too
    for pattern in ("arrays-*.safetensors", f"{UNFINISHED}*"):
        for stale in folder.glob(pattern):
            with contextlib.suppress(OSError):  # it harms nobody; the next save tries again
                if stale.name != named and (alone or now - stale.stat().st_mtime > _SURELY_STALE):
                    stale.unlink(missing_ok=True)
