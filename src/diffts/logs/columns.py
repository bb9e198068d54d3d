"""Which column of a table is which."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from diffts.errors import InvalidInputError


@dataclass(frozen=True)
class Columns:
    """The names that a table's columns have.

    Attributes:
        task: what the rewards of one user, campaign or route share.
        arm: what was chosen.
        reward: what came of it: a number, or true and false.
        time: when; None if the table does not say. Times without a zone are taken as UTC.
        count: how many pulls the row stands for, ``reward`` being their mean; None: one each.
        propensity: the chance that the arm had; None if the table does not say.

    >>> Columns(task="user").named()
    {'task': 'user', 'arm': 'arm', 'reward': 'reward'}
    """

    task: str = "task"
    arm: str = "arm"
    reward: str = "reward"
    time: str | None = None
    count: str | None = None
    propensity: str | None = None

    def __post_init__(self) -> None:
        for role, column in vars(self).items():
            optional = role in ("time", "count", "propensity")
            if not (isinstance(column, str) and column) and not (optional and column is None):
                raise InvalidInputError(f"{role}: expected the name of a column, got {column!r}")
        names = list(self.named().values())
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InvalidInputError(f"columns: {twice[0]!r} is named for two things")

    def named(self) -> dict[str, str]:
        """The column of each thing that the table has."""
        return {role: column for role, column in vars(self).items() if column is not None}

    def check(self, present: Iterable[str], where: str) -> None:
        """Refuse a table that lacks one of them; the nearest name is suggested."""
        names = list(present)
        for role, column in self.named().items():
            if names.count(column) > 1:
                raise InvalidInputError(f"{where}: {names.count(column)} columns named {column!r}")
            if column in names:
                continue
            near = _nearest(column, names)
            hint = f"did you mean {near!r}?" if near else f"columns are {_listed(names)}"
            called = "" if role == column else f" (the {role})"
            raise InvalidInputError(f"{where}: no column {column!r}{called}; {hint}")


def _nearest(name: str, names: list[str]) -> str | None:
    """The name that was meant, most likely: letters and blanks aside, or nearly so."""
    plain = {other.strip().casefold(): other for other in names}
    found = difflib.get_close_matches(name.strip().casefold(), plain, n=1, cutoff=0.7)
    return plain[found[0]] if found else None


def _listed(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:8])) or "none"
    return shown + (", …" if len(names) > 8 else "")
