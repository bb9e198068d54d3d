"""Cells of a table as Ibis expressions: names, numbers, and what is wrong with them.

Each engine has its own idea of a cast: PostgreSQL refuses what is no number, NaN may come back as
NULL, a Decimal is no float. So text is matched before it is cast, numbers become float64 first of
all, and NaN counts as missing everywhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from diffts.errors import InvalidInputError
from diffts.extras import optional

#: What a number looks like. Exponents are short: PostgreSQL refuses what overflows.
NUMBER = "^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE]([+]?0?[0-9]{1,2}|-[0-9]{1,3}))?$"
#: Words that stand for a number which is missing, in small letters.
MISSING = ("", "nan", "na", "n/a", "null", "none")
#: Larger numbers are refused: float32 must hold their squares.
LARGEST = 1e18


class Number(NamedTuple):
    """A column of numbers.

    Attributes:
        value: float64; NULL where missing or bad.
        missing: whether there is none: NULL, NaN, or a word that says so.
        bad: whether there is something that is no finite number.
    """

    value: Any
    missing: Any
    bad: Any


def ibis() -> Any:
    """The package, loaded when a log is read."""
    return optional("ibis", "reading a log")


def name_value(column: Any, role: str) -> Any:
    """The value that tasks or arms are told apart by; NULL where blank or missing."""
    kind = column.type()
    if kind.is_string():
        return column.strip().nullif("")
    if kind.is_floating() or kind.is_decimal():
        value = column.cast("float64")
        return ibis().ifelse(value.isnan(), ibis().null("float64"), value)
    if kind.is_integer() or kind.is_boolean() or kind.is_date():
        return column
    if kind.is_null():
        return column.cast("string")
    if kind.is_uuid() or kind.is_unknown():
        return column.cast("string").strip().nullif("")
    raise InvalidInputError(f"{role}: expected names or numbers, got a column of type {kind}")


def number_value(column: Any, role: str) -> Number:
    """A column of numbers, of truth values, or of text that says either."""
    kind = column.type()
    if kind.is_null():
        column = column.cast("float64")
        kind = column.type()
    if kind.is_boolean():
        return _finite(column.cast("int64").cast("float64"))
    if kind.is_numeric():
        return _finite(column.cast("float64"))
    if kind.is_string():
        return _text(column)
    raise InvalidInputError(f"{role}: expected numbers, got a column of type {kind}")


def _finite(value: Any) -> Number:
    i = ibis()
    missing = value.isnull() | value.isnan().fill_null(False)
    bad = ~missing & ((value > LARGEST) | (value < -LARGEST)).fill_null(False)
    return Number(i.ifelse(missing | bad, i.null("float64"), value), missing, bad)


def _text(column: Any) -> Number:
    i = ibis()
    text = column.strip().lower()
    missing = text.isnull() | text.isin(MISSING).fill_null(False)
    digits = i.ifelse(text.re_search(NUMBER), text, i.null("string")).cast("float64")
    value = i.cases((text == "true", 1.0), (text == "false", 0.0), else_=digits)
    bad = ~missing & (value.isnull() | (value > LARGEST) | (value < -LARGEST)).fill_null(True)
    return Number(i.ifelse(bad, i.null("float64"), value), missing, bad)
