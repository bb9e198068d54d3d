"""Files written whole or not at all; what cannot be written is named."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

#: How the names of unfinished files begin: hidden, and like nothing else in the folder.
UNFINISHED = ".unfinished-"


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write ``data`` beside its place, then rename it.

    A link is followed. A device or a pipe, and a file in a folder that takes no new ones, are
    written in place. An :class:`OSError` always names ``path``.
    """
    target = Path(os.path.realpath(path))
    with naming(path):
        if is_special(target) or (target.exists() and not os.access(target.parent, os.W_OK)):
            target.write_bytes(data)
        else:
            replace_file(target, data)


def replace_file(path: Path, data: bytes) -> None:
    """Put a new file with ``data`` in the place of ``path``, in one rename and flushed to disk."""
    with naming(path):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=UNFINISHED)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            Path(temporary).chmod(0o644)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(temporary).unlink(missing_ok=True)
            raise


def is_special(path: Path) -> bool:
    """Whether ``path`` is there and is neither a plain file nor a folder: a device, a pipe."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Errors of the system within are about ``path``; a failed write itself does not say so."""
    try:
        yield
    except OSError as error:
        said = error.strerror or str(error)
        raise type(error)(error.errno, said, os.fspath(path)) from error
