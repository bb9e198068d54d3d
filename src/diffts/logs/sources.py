"""Where a log can come from, as tables of Ibis: files, data frames, Arrow tables, databases."""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from diffts.errors import InvalidInputError
from diffts.logs.columns import Columns
from diffts.logs.csv_files import layout_of, read_csv
from diffts.logs.engine import connected, embedded, one_line, without_password
from diffts.logs.frames import arrow_from_pandas
from diffts.logs.values import ibis

_CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz")
_PARQUET = (".parquet", ".pq")


class Piece(NamedTuple):
    """A part of a log whose rows can be numbered: a file, a data frame; or a whole database table.

    Attributes:
        where: what to call it in an error.
        table: makes the table.
        numbered: whether its rows have an order.
    """

    where: str
    table: Callable[[], Any]
    numbered: bool


class Source(NamedTuple):
    """An opened log.

    Attributes:
        where: what to call it.
        backend: the engine that counts.
        tables: tables of the same rows, each of one layout.
        pieces: the same rows once more, in the pieces that somebody would look at.
    """

    where: str
    backend: Any
    tables: list[Any]
    pieces: list[Piece]


@contextlib.contextmanager
def opened(source: Any, columns: Columns, connection: Any) -> Iterator[Source]:
    """A log, ready to be counted; the engine is closed afterwards, if it is ours."""
    i = ibis()
    if isinstance(source, i.Table):
        yield _one_table("table", source.get_backend(), source, columns)
    elif isinstance(source, str) and ("://" in source or connection is not None):
        with _database(source, connection) as (where, backend, name):
            with one_line(where):
                made = _named_table(backend, where, name)
            yield _one_table(where, backend, made, columns)
    elif connection is not None:
        raise InvalidInputError(
            f"connection: for the name of a table, got {type(source).__name__} as well"
        )
    elif isinstance(source, str | os.PathLike):
        with embedded() as backend:
            yield _files(Path(source), backend, columns)
    else:
        with embedded() as backend:
            yield _in_memory(source, backend, columns)


@contextlib.contextmanager
def _database(source: str, connection: Any) -> Iterator[tuple[str, Any, str]]:
    """What to call a table of a database, the engine, and the table's name."""
    if connection is None:
        url, _, name = source.partition("#")
        if not name:
            raise InvalidInputError(
                f"{without_password(url)}: no table named; write URL#TABLE or URL#SCHEMA.TABLE"
            )
        connection = url
    else:
        name = source
    if isinstance(connection, str):
        with connected(connection) as backend:
            yield f"{without_password(connection)}#{name}", backend, name
    else:
        yield name, connection, name


def _named_table(backend: Any, where: str, name: str) -> Any:
    *schema, table = name.split(".")
    try:
        return backend.table(table, database=tuple(schema) or None)
    except ibis().common.exceptions.TableNotFound:
        raise InvalidInputError(f"{where}: no such table") from None


def _one_table(where: str, backend: Any, table: Any, columns: Columns) -> Source:
    columns.check(table.columns, where)
    return Source(where, backend, [table], [Piece(where, lambda: table, False)])


def _in_memory(source: Any, backend: Any, columns: Columns) -> Source:
    """A pandas data frame or an Arrow table (or what turns itself into one)."""
    kind = type(source)
    if kind.__module__.partition(".")[0] == "pandas" and kind.__name__ == "DataFrame":
        columns.check(map(str, source.columns), "table")
        source = arrow_from_pandas(source, columns)
    elif hasattr(source, "column_names") and hasattr(source, "schema"):
        columns.check(source.column_names, "table")
    else:
        raise InvalidInputError(
            "log: expected a CSV or Parquet file, a folder or pattern of them, a pandas or Arrow "
            f"table, an Ibis table or a database URL, got {kind.__name__}"
        )
    with one_line("table"):
        table = ibis().memtable(source)
    return Source("table", backend, [table], [Piece("table", lambda: table, True)])


def _files(path: Path, backend: Any, columns: Columns) -> Source:
    """A file, all files of a folder, or all that a pattern matches."""
    where = str(path)
    files = _found(path)
    if all(_is(file, _PARQUET) for file in files):
        pieces = [_parquet_piece(file, backend, columns) for file in files]
        tables = _parquet_tables(pieces, columns)
    elif all(_is(file, _CSV) for file in files):
        layouts = {file: layout_of(file, columns) for file in files}
        pieces = [
            Piece(file.name, partial(read_csv, backend, [file], layout), True)
            for file, layout in layouts.items()
        ]
        alike: dict[Any, list[Path]] = {}
        for file, layout in layouts.items():
            alike.setdefault(layout, []).append(file)
        with one_line(where):
            tables = [read_csv(backend, group, layout) for layout, group in alike.items()]
    else:
        raise InvalidInputError(f"{where}: CSV and Parquet files side by side; keep one kind")
    return Source(where, backend, tables, pieces)


def _found(path: Path) -> list[Path]:
    known = (*_CSV, *_PARQUET)
    if path.is_dir():
        inside = sorted(file for file in path.rglob("*") if file.is_file())
        files = [
            file for file in inside if _is(file, known) and not file.name.startswith((".", "_"))
        ]
        if not files:
            raise InvalidInputError(f"{path}: no CSV or Parquet file in this folder")
        return files
    if path.is_file():
        if not _is(path, known):
            raise InvalidInputError(
                f"{path}: unknown kind of file; expected one of {', '.join(known)}"
            )
        return [path]
    matched = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]
    files = [file for file in matched if file.is_file() and _is(file, known)]
    if not files:
        pattern = any(letter in str(path) for letter in "*?[")
        raise InvalidInputError(f"{path}: " + ("no file matches" if pattern else "no such file"))
    return files


def _is(file: Path, endings: tuple[str, ...]) -> bool:
    return file.name.casefold().endswith(endings)


def _parquet_piece(file: Path, backend: Any, columns: Columns) -> Piece:
    with one_line(file.name):
        table = backend.read_parquet(str(file))
    columns.check(table.columns, file.name)
    return Piece(file.name, lambda: table, True)


def _parquet_tables(pieces: list[Piece], columns: Columns) -> list[Any]:
    """Tables of all files; refused where a name is text in one and a number in another."""
    first = pieces[0].table()
    for piece in pieces:
        for role in ("task", "arm"):
            column = getattr(columns, role)
            types = [made[column].type() for made in (first, piece.table())]
            if types[0].is_string() != types[1].is_string():
                raise InvalidInputError(
                    f"{column}: {types[0]} in {pieces[0].where}, {types[1]} in {piece.where}"
                )
    return [piece.table() for piece in pieces]
