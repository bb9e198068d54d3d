"""Folders of ``config.json`` and safetensors: how everything here is kept. Never a pickle.

A save is atomic. The arrays go into a new file named after their hash; then ``config.json``,
which names that file, is replaced in one rename. A crash at any point leaves the old pair whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
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

CONFIG = "config.json"
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
    _write_atomically(folder / file, data)
    _write_atomically(folder / CONFIG, text.encode())
    for stale in folder.glob("arrays-*.safetensors"):
        if stale.name != file:
            stale.unlink(missing_ok=True)


def load_folder(
    directory: str | os.PathLike[str], kind: str, version: int
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Content and arrays of an artifact, or an :class:`ArtifactError` that says what is wrong."""
    folder = Path(directory)
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
        raise ArtifactError(f"{folder / name}: cannot be read ({error.strerror})") from None
    if hashlib.sha256(data).hexdigest() != entry.get("sha256"):
        raise ArtifactError(f"{folder / name}: damaged (its hash is not the one in {CONFIG})")
    try:
        arrays = safetensors.numpy.load(data)
    except safetensors.SafetensorError as error:
        raise ArtifactError(f"{folder / name}: damaged ({error})") from None
    return content, arrays


def named_arrays(tree: Any) -> dict[str, NDArray[Any]]:
    """The array leaves of a pytree, named by their path (``.network.inward.weight``)."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(tree, eqx.is_array))
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def with_arrays(skeleton: Tree, arrays: Mapping[str, NDArray[Any]], where: str) -> Tree:
    """``skeleton`` with its array leaves (shapes are enough) replaced by the named ``arrays``."""

    def is_slot(leaf: Any) -> bool:
        return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)

    slots = eqx.filter(skeleton, is_slot)
    expected = {
        jax.tree_util.keystr(path): leaf
        for path, leaf in jax.tree_util.tree_flatten_with_path(slots)[0]
    }
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


def _write_atomically(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
