"""Names of tasks and arms: what Python calls a value, and the order they are kept in.

Engines write numbers and dates in different ways, so they only group by the value; its name is
made here.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from typing import Any

from diffts.errors import InvalidInputError

_WHOLE = re.compile(r"[+-]?[0-9]{1,15}")
_WHOLE_WITH_POINT = re.compile(r"([+-]?[0-9]+)\.0*")


def name_of(value: Any) -> str:
    """A value as people would write it.

    >>> name_of(3.0), name_of("red"), name_of(0.25), name_of(True)
    ('3', 'red', '0.25', 'true')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    return str(value)


def in_order(names: Iterable[str]) -> list[str]:
    """Sorted: whole numbers by size, anything else letter by letter (by code points).

    >>> in_order(["10", "9"]), in_order(["b", "B", "a"])
    (['9', '10'], ['B', 'a', 'b'])
    """
    found = list(names)
    if all(_WHOLE.fullmatch(name) for name in found):
        return sorted(found, key=lambda name: (int(name), name))
    return sorted(found)


def refuse_two_spellings(role: str, names: Sequence[str]) -> None:
    """Refuse '1' beside '1.0': most likely one arm, written by two programs."""
    present = set(names)
    for name in names:
        match = _WHOLE_WITH_POINT.fullmatch(name)
        if match and match[1] in present:
            raise InvalidInputError(
                f"{role}: both {match[1]!r} and {name!r} occur; write the number one way"
            )
