"""CSV files: their header, delimiter and encoding, found without guessing.

The delimiter is the one that splits the header into the columns asked for. All values are read as
text, so that the name '007' stays what it is, and a bad reward can be shown as it was written.
"""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from diffts.errors import InvalidInputError
from diffts.logs.columns import Columns

_DELIMITERS = (",", ";", "\t", "|")
_LONGEST_HEADER = 1_000_000


class Layout(NamedTuple):
    """How a file is laid out: the names of its columns, and what is between them."""

    header: tuple[str, ...]
    delimiter: str


def layout_of(path: Path, columns: Columns) -> Layout:
    """The layout of a CSV file that has the columns asked for."""
    line = _first_line(path)
    wanted = set(columns.named().values())
    layouts = [Layout(_split(line, delimiter), delimiter) for delimiter in _DELIMITERS]
    found = max(layouts, key=lambda layout: (len(wanted & set(layout.header)), len(layout.header)))
    columns.check(found.header, path.name)
    return found


def read_csv(connection: Any, files: list[Path], layout: Layout) -> Any:
    """CSV files of one layout as a table of text."""
    return connection.read_csv(
        [_literal(file) for file in files],
        columns=dict.fromkeys(_all_different(layout.header), "VARCHAR"),
        auto_detect=False,
        header=True,
        delim=layout.delimiter,
        quote='"',
        escape='"',
    )


def _first_line(path: Path) -> str:
    """The header, with quoted newlines in it."""
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as file:
            start = file.read(_LONGEST_HEADER)
    except (OSError, EOFError, gzip.BadGzipFile) as error:
        raise InvalidInputError(f"{path.name}: cannot be read ({error})") from None
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InvalidInputError(f"{path.name}: encoded as UTF-16; save it as UTF-8")
    if b"\x00" in start[:1000]:
        raise InvalidInputError(f"{path.name}: not a text file")
    text = start.decode("utf-8-sig", errors="replace")
    if not text.strip():
        raise InvalidInputError(f"{path.name}: empty")
    lines = text.splitlines(keepends=True)
    header = lines[0]
    while header.count('"') % 2 and len(lines) > 1:
        header += lines.pop(1)
    if "\ufffd" in header:
        raise InvalidInputError(f"{path.name}: line 1: not UTF-8; save the file with that encoding")
    return header


def _split(line: str, delimiter: str) -> tuple[str, ...]:
    row = next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter), [])
    return tuple(name.strip() for name in row)


def _all_different(header: tuple[str, ...]) -> list[str]:
    """Names for all columns: those without one, or with another's, get a number."""
    seen: Counter[str] = Counter()
    names = []
    for position, name in enumerate(header):
        key = name.casefold()  # DuckDB does not tell 'Arm' from 'arm'
        unused = name and not seen[key]
        seen[key] += 1
        names.append(name if unused else f"{name}_column_{position + 1}")
    return names


def _literal(path: Path) -> str:
    """A path for DuckDB, which takes stars and brackets for patterns."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in str(path))
