"""Cells of a table as Ibis expressions: names, numbers, and what is wrong with them.

Each engine has its own idea of a cast: PostgreSQL refuses what is no number, NaN may come back as
NULL, a Decimal is no float. So text is matched before it is cast, numbers become float64 first of
all, and NaN counts as missing everywhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from diffts.errors import InvalidInputError
from diffts.extras import optional

#: What a number looks like, blanks around it or not. Exponents are short: PostgreSQL refuses what
#: overflows.
NUMBER = "^[ \t]*[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE]([+]?0?[0-9]{1,2}|-[0-9]{1,3}))?[ \t]*$"
#: Words that stand for a number which is missing, in small letters.
MISSING = ("", "nan", "na", "n/a", "null", "none")
#: Larger numbers are refused: float32 must hold their squares.
LARGEST = 1e18


class Number(NamedTuple):
    """A column of numbers.

    Attributes:
        value: float64; NULL where there is none (NULL, NaN, or a word that says so) or a bad one.
        bad: whether there is something that is no finite number.
    """

    value: Any
    bad: Any


def ibis() -> Any:
    """The package, loaded when a log is read."""
    return optional("ibis", "reading a log")


def name_value(column: Any, role: str) -> Any:
    """The value that tasks or arms are told apart by; NULL where there is none.

    Blanks around a name stay: they are taken off the few different names, not off all rows.
    """
    kind = column.type()
    if kind.is_string():
        return column.nullif("")
    if kind.is_floating() or kind.is_decimal():
        value = column.cast("float64")
        return ibis().ifelse(is_nan(value), ibis().null("float64"), value)
    if kind.is_integer() or kind.is_boolean() or kind.is_date():
        return column
    if kind.is_null():
        return column.cast("string")
    if kind.is_uuid() or kind.is_unknown():
        return column.cast("string").nullif("")
    raise InvalidInputError(f"{role}: expected names or numbers, got a column of type {kind}")


def number_value(column: Any, role: str) -> Number:
    """A column of numbers, of truth values, or of text that says either."""
    kind = column.type()
    if kind.is_null():
        column = column.cast("float64")
        kind = column.type()
    if kind.is_boolean():
        # PostgreSQL has no cast from boolean to bigint, and takes 1.0 for a Decimal.
        return _finite(ibis().cases((column, 1), (~column, 0)).cast("float64"))
    if kind.is_numeric():
        return _finite(column.cast("float64"))
    if kind.is_string():
        return _text(column)
    raise InvalidInputError(f"{role}: expected numbers, got a column of type {kind}")


def is_nan(value: Any) -> Any:
    """Whether a float64 is NaN, asked of its text.

    Parquet's statistics leave NaN out, and DuckDB takes ``isnan`` for false where they show none:
    NaN of files that Arrow or pandas wrote would pass for rewards (duckdb/duckdb, issue 25521).
    """
    return value.cast("string").lower().isin(("nan", "-nan"))


def _finite(value: Any) -> Number:
    i = ibis()
    nan = is_nan(value)
    bad = (~nan & ((value > LARGEST) | (value < -LARGEST))).fill_null(False)
    return Number(i.ifelse(nan | bad, i.null("float64"), value), bad)


def _text(column: Any) -> Number:
    """Numbers first: the rest is looked at only where a row has none, which is seldom."""
    i = ibis()
    is_number = column.re_search(NUMBER)
    word = column.strip().lower()
    digits = i.ifelse(is_number, column, i.null("string")).cast("float64")
    digits = i.ifelse((digits > LARGEST) | (digits < -LARGEST), i.null("float64"), digits)
    value = i.cases(
        (is_number, digits), (word == "true", 1.0), (word == "false", 0.0), else_=i.null("float64")
    )
    bad = i.cases((column.isnull(), False), (value.isnull(), word.notin(MISSING)), else_=False)
    return Number(value, bad)
