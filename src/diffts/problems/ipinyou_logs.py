"""Reading real iPinYou logs: paid prices, counted for each ad slot.

Three layouts are understood:

- the original one: tab-separated, 24 columns, no header (``imp.*.txt``, ``imp.*.txt.bz2``);
- the same with ``click weekday hour`` in front, 27 columns, with or without a header line, as
  other projects write it (``*.log.txt``);
- a comma-separated file with a header that names ``slotid`` and ``payprice``.
"""

from __future__ import annotations

import bz2
import csv
from array import array
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffts.errors import InvalidInputError
from diffts.validation import whole_number

HIGHEST_PRICE = 300

# fmt: off
COLUMNS = [
    "bidid", "timestamp", "logtype", "ipinyouid", "useragent", "IP", "region", "city",
    "adexchange", "domain", "url", "urlid", "slotid", "slotwidth", "slotheight",
    "slotvisibility", "slotformat", "slotprice", "creative", "bidprice", "payprice", "keypage",
    "advertiser", "usertag",
]
# fmt: on
EXTRA_LEADING_COLUMNS = ["click", "weekday", "hour"]
LAYOUTS = {len(names): names for names in (COLUMNS, EXTRA_LEADING_COLUMNS + COLUMNS)}
SLOT, PRICE = "slotid", "payprice"

TEXT_SUFFIXES = (".txt", ".txt.bz2")
# In the original folders these lie beside the impressions: bids have no price, and clicks and
# conversions repeat impressions that are counted already.
OTHER_LOGS = ("bid.", "clk.", "conv.")


class SlotPrices(NamedTuple):
    """Paid prices of the ad slots that were seen often enough."""

    slots: tuple[str, ...]  # their names, sorted
    counts: NDArray[np.int64]  # how often each price was paid in each slot, ``(slots, 301)``


def read_slot_prices(path: str | PathLike[str], min_prices: int = 1000) -> SlotPrices:
    """Prices for each slot in a log file, or in all logs below a folder.

    Args:
        path: a ``.txt``, ``.txt.bz2`` or ``.csv`` file, or a folder. In a folder, comma-separated
            files are read only if there are no tab-separated logs, whose rows they may repeat.
        min_prices: leave out slots with fewer prices.

    Raises:
        InvalidInputError: no such path, no logs, a missing column, a row that cannot be read, or
            no slot with enough prices.
    """
    min_prices = whole_number("min_prices", min_prices, 1)
    number_of: dict[str, int] = {}
    slot_numbers, prices = array("q"), array("h")
    for file in log_files(Path(path)):
        for slot, price in _rows(file):
            slot_numbers.append(number_of.setdefault(slot, len(number_of)))
            prices.append(price)
    totals = np.bincount(np.asarray(slot_numbers, np.int64), minlength=len(number_of))
    slots = tuple(sorted(name for name, i in number_of.items() if totals[i] >= min_prices))
    if not slots:
        raise InvalidInputError(
            f"min_prices: none of {len(number_of)} slot(s) in {str(path)!r} has {min_prices} "
            f"price(s); the most is {totals.max(initial=0)}"
        )
    # Count the kept slots only: a full log has far more slots than anyone trains on.
    row_of = np.full(len(number_of), -1)
    row_of[[number_of[name] for name in slots]] = np.arange(len(slots))
    rows = row_of[np.asarray(slot_numbers, np.int64)]
    cells = rows * (HIGHEST_PRICE + 1) + np.asarray(prices, np.int64)
    shape = (len(slots), HIGHEST_PRICE + 1)
    counts = np.bincount(cells[rows >= 0], minlength=shape[0] * shape[1]).reshape(shape)
    return SlotPrices(slots, counts)


def log_files(path: Path) -> list[Path]:
    """The logs at ``path`` in a fixed order: the file itself, or what a folder holds."""
    if path.is_file():
        if not path.name.endswith((*TEXT_SUFFIXES, ".csv")):
            raise InvalidInputError(f"logs: {str(path)!r} is not a .txt, .txt.bz2 or .csv file")
        return [path]
    if not path.is_dir():
        raise InvalidInputError(f"logs: no file or folder {str(path)!r}")
    below = sorted(file for file in path.rglob("*") if file.is_file())
    logs = [
        file
        for file in below
        if file.name.endswith(TEXT_SUFFIXES)
        and not file.name.startswith(OTHER_LOGS)
        and _is_tab_separated(file)
    ]
    logs = logs or [file for file in below if file.name.endswith(".csv")]
    if not logs:
        raise InvalidInputError(
            f"logs: folder {str(path)!r} has no iPinYou logs (tab-separated .txt or .txt.bz2 "
            f"files with {' or '.join(map(str, LAYOUTS))} columns, or a .csv file)"
        )
    return logs


def _is_tab_separated(file: Path) -> bool:
    """Notes and licences lie among logs; only a log's first line has tabs."""
    with _open(file) as stream:
        return "\t" in next((line for line in _lines(file, stream) if line.strip()), "")


def _open(file: Path) -> IO[str]:
    # Web addresses in the logs are not always valid UTF-8; they are not used here.
    if file.suffix == ".bz2":
        return bz2.open(file, "rt", encoding="utf-8", errors="replace", newline="\n")
    return open(file, encoding="utf-8", errors="replace", newline="\n")


def _lines(file: Path, stream: IO[str]) -> Iterator[str]:
    try:
        for line in stream:
            yield line.rstrip("\r\n")
    except (OSError, EOFError) as error:
        raise InvalidInputError(f"logs: cannot read {str(file)!r} ({error})") from None


def _fields(file: Path, stream: IO[str]) -> Iterator[list[str]]:
    """Every line as a list of its fields."""
    if file.suffix != ".csv":
        yield from (line.split("\t") for line in _lines(file, stream))
        return
    try:
        yield from csv.reader(_lines(file, stream))
    except csv.Error as error:
        raise InvalidInputError(f"logs: cannot read {str(file)!r} ({error})") from None


def _rows(file: Path) -> Iterator[tuple[str, int]]:
    """Slot and price of every row of one log."""
    with _open(file) as stream:
        names: list[str] | None = None
        for number, row in enumerate(_fields(file, stream), start=1):
            if not any(row):
                continue
            if names is None:
                names, is_header = _column_names(file, row)
                slot_at, price_at = names.index(SLOT), names.index(PRICE)
                if is_header:
                    continue
            if len(row) != len(names):
                raise InvalidInputError(
                    f"logs: {str(file)!r} line {number}: {len(row)} columns, expected {len(names)}"
                )
            # 'null' is the logs' word for an unknown slot, which is not one task.
            if (slot := row[slot_at]) not in ("", "null"):
                yield slot, _price(file, number, row[price_at])


def _column_names(file: Path, first_row: Sequence[str]) -> tuple[list[str], bool]:
    """The names of the columns, and whether the first row is a header."""
    known = {name.lower() for name in COLUMNS}
    names = [name.strip().lstrip("\ufeff").lower() for name in first_row]
    is_header = file.suffix == ".csv" or not known.isdisjoint(names)
    if is_header:
        if missing := [name for name in (SLOT, PRICE) if name not in names]:
            raise InvalidInputError(
                f"logs: {str(file)!r} has no column {' and no column '.join(missing)}"
            )
        return names, True
    if len(first_row) not in LAYOUTS:
        raise InvalidInputError(
            f"logs: {str(file)!r} has {len(first_row)} columns, expected "
            f"{' or '.join(map(str, LAYOUTS))} ({' '.join(COLUMNS)}); a column is missing or added"
        )
    return LAYOUTS[len(first_row)], False


def _price(file: Path, number: int, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InvalidInputError(
            f"logs: {str(file)!r} line {number}: {PRICE} {text!r} is not a whole number"
        )
    # No bid below 300 wins at 300 or above, so that all such prices are the same to a bidder.
    return min(int(text), HIGHEST_PRICE)
