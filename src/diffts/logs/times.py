"""Times as seconds since 1970 (UTC), whatever the engine and the column's type."""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple

from diffts.errors import InvalidInputError
from diffts.logs.values import NUMBER, ibis, is_nan

_DAY = "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_CLOCK = "([t ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?)?"
_ZONE = "( ?(z|utc|[+-][0-9]{2}(:[0-9]{2})?))?$"
_ZONE_GIVEN = ":[0-9.]+ ?(z|utc|[+-][0-9]{2}(:[0-9]{2})?)$"


class Moment(NamedTuple):
    """A column of times.

    Attributes:
        seconds: since 1970, UTC, float64; NULL where missing or bad.
        bad: whether there is something that is no time.
        naive: whether the time has no zone, and is taken as UTC.
    """

    seconds: Any
    bad: Any
    naive: Any


def moment_value(column: Any) -> Moment:
    """A column of timestamps, of dates, of numbers since 1970, or of ISO 8601 text."""
    i = ibis()
    kind = column.type()
    if kind.is_date():
        column = column.cast("timestamp")
        kind = column.type()
    if kind.is_timestamp():
        naive = column.notnull() & i.literal(kind.timezone is None)
        return Moment(column.epoch_seconds().cast("float64"), i.literal(False), naive)
    if kind.is_numeric():
        return Moment(_since_1970(column.cast("float64")), i.literal(False), i.literal(False))
    if kind.is_string():
        return _text(column)
    raise InvalidInputError(f"time: expected times, got a column of type {kind}")


def iso(seconds: float | None) -> str | None:
    """In words that every program reads.

    >>> iso(0.0)
    '1970-01-01T00:00:00Z'
    """
    if seconds is None or seconds != seconds:
        return None
    try:
        moment = datetime.datetime.fromtimestamp(int(seconds), datetime.UTC)
    except (ValueError, OverflowError, OSError):
        raise InvalidInputError(f"time: {seconds:g} seconds since 1970 is no date") from None
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _since_1970(value: Any) -> Any:
    """Seconds, from seconds, milli-, micro- or nanoseconds: the size tells which."""
    i = ibis()
    scaled = i.cases(
        (value.abs() > 1e17, value / 1e9),
        (value.abs() > 1e14, value / 1e6),
        (value.abs() > 1e11, value / 1e3),
        else_=value,
    )
    return i.ifelse(is_nan(value), i.null("float64"), scaled)


def _text(column: Any) -> Moment:
    i = ibis()
    text = column.strip().lower()
    nothing = i.null("string")
    is_date = text.re_search(_DAY + _CLOCK + _ZONE)
    zoned = text.re_search(_ZONE_GIVEN)
    # Spelled out, since engines differ in what they let go: 2024-01-31 09:30:00+00:00.
    date = i.ifelse(is_date, text.upper(), nothing)
    date = date.replace("UTC", "Z").replace(" Z", "Z").replace(" +", "+").replace("Z", "+00:00")
    rest = date.substr(16)
    seconds_given = i.ifelse(rest.startswith(":"), date, date.left(16) + ":00" + rest)
    clock = i.ifelse(date.length() == 10, date + " 00:00:00", seconds_given)
    clock = i.ifelse(zoned, clock, clock + "+00:00")
    dated = clock.try_cast("timestamp('UTC')").epoch_seconds().cast("float64")
    number = i.ifelse(text.re_search(NUMBER), text, nothing).cast("float64")
    seconds = i.coalesce(dated, _since_1970(number))
    given = text.notnull() & (text != "")
    bad = (given & seconds.isnull()).fill_null(False)
    return Moment(seconds, bad, (is_date & ~zoned).fill_null(False))
