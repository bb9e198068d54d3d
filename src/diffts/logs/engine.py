"""The engine that counts: DuckDB, inside this process, unless the log lies somewhere else."""

from __future__ import annotations

import contextlib
import re
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from diffts.errors import DifftsError, InvalidInputError
from diffts.logs.values import ibis

#: What DuckDB may keep in memory; beyond that it uses the disk.
MEMORY = "512MB"


@contextlib.contextmanager
def embedded() -> Iterator[Any]:
    """A DuckDB of our own, with bounded memory and a folder for what does not fit."""
    with tempfile.TemporaryDirectory(prefix="diffts-log-") as folder:
        connection = ibis().duckdb.connect(
            temp_directory=folder, memory_limit=MEMORY, autoinstall_known_extensions=False
        )
        try:
            yield connection
        finally:
            connection.disconnect()


@contextlib.contextmanager
def connected(url: str) -> Iterator[Any]:
    """The engine that a URL names; errors are one line, without the password."""
    with one_line(without_password(url)):
        connection = ibis().connect(url)
    try:
        yield connection
    finally:
        connection.disconnect()


def without_password(url: str) -> str:
    """A URL that can be shown.

    >>> without_password("postgresql://me:secret@host/db")
    'postgresql://me@host/db'
    """
    shown = re.sub(r"(://[^/@:]*):[^@/]*@", r"\1@", url)
    return re.sub(r"(?i)(password=)[^&#]*", r"\1…", shown)


@contextlib.contextmanager
def one_line(where: str) -> Iterator[None]:
    """Whatever an engine complains of becomes one line that begins with ``where``."""
    try:
        with warnings.catch_warnings():  # Ibis' use of DuckDB is not the user's affair
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    except DifftsError:
        raise
    except (MemoryError, KeyboardInterrupt):
        raise
    except Exception as error:  # each engine has its own errors, with no base class in common
        raise InvalidInputError(f"{where}: {_short(error, where)}") from error


def _short(error: Exception, where: str) -> str:
    """The point of an engine's message, in one line."""
    text = str(error)
    line = re.search(r"CSV Error on Line: (\d+)", text)
    file = re.search(r"^\s*file = (.+)$", text, re.MULTILINE)
    name = f"{Path(file[1]).name}, " if file and not where.endswith(Path(file[1]).name) else ""
    at = name + (f"line {line[1]}: " if line else "")
    wanted = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", text)
    if line and wanted:
        found = wanted[2] if int(wanted[2]) < int(wanted[1]) else "more"
        return f"{at}expected {wanted[1]} columns, got {found}"
    if line and "unterminated quote" in text:
        return f"{at}a quote is not closed"
    if line and "unicode" in text:
        return f"{at}not UTF-8; save the file with that encoding"
    first = next((part.strip() for part in text.splitlines() if part.strip()), "")
    first = re.sub(r"^(Invalid Input|IO|Conversion|Binder|Catalog) Error: ", "", first)
    shown = without_password(first or type(error).__name__)
    return (at if line else "") + shown[:300]
