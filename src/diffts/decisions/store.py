"""What a store of decisions does: a small interface, whatever database is behind it.

A decision is kept when it is made, its reward when it comes, once. All that a policy needs to know
of a task follows from the two. Nothing here knows JAX: whoever only tells rewards starts fast.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from diffts.errors import InvalidInputError


class Made(NamedTuple):
    """A decision, as it is kept.

    Attributes:
        id: its name, which nothing else has.
        task, arm: what was chosen for what.
        chance: with which it was chosen; None if nobody counted.
        offered: the arms there were; None for all that the fit knows.
        time: when, in ISO 8601.
        new: those of ``offered`` that the fit does not know.
    """

    id: str
    task: str
    arm: str
    chance: float | None
    offered: tuple[str, ...] | None
    time: str
    new: tuple[str, ...] = ()


class Totals(NamedTuple):
    """What the rewards of one arm in one task come down to.

    Attributes:
        pulls: how many there were.
        sum: their sum.
        squares: the sum of their squared distances from their mean (a difference of sums of
            squares would cancel).
    """

    pulls: int
    sum: float
    squares: float

    @property
    def mean(self) -> float:
        """Their mean."""
        return self.sum / self.pulls

    def and_then(self, reward: float) -> Totals:
        """With one more reward.

        >>> Totals(1, 2.0, 0.0).and_then(4.0)
        Totals(pulls=2, sum=6.0, squares=2.0)
        """
        if not self.pulls:
            return Totals(1, reward, 0.0)
        distance = (reward - self.mean) ** 2
        squares = self.squares + distance * self.pulls / (self.pulls + 1)
        return Totals(self.pulls + 1, self.sum + reward, squares)


class Past(NamedTuple):
    """What has happened in one task.

    Attributes:
        rounds: decisions made, whether their rewards have come or not.
        totals: of each arm that has had a reward.
    """

    rounds: int
    totals: Mapping[str, Totals]


class Elsewhere(NamedTuple):
    """Of one arm: how many tasks have n rewards of it, and the sum of their means."""

    pulls: int
    tasks: int
    means: float


class Logged(NamedTuple):
    """A decision and its reward, as a row of a log."""

    task: str
    arm: str
    reward: float
    time: str
    propensity: float | None


class DecisionStore(abc.ABC):
    """Keeps decisions and rewards. What a method has returned from is kept, whatever happens then.

    Any number of processes may use one store at once.
    """

    @abc.abstractmethod
    def claim(self, arms: Sequence[str], bounds: tuple[float, float] | None) -> None:
        """Say which fit decides from here on: its arms, and between what rewards must lie.

        A fit that does not know all arms of the one before is refused, and so is one whose bounds
        exclude rewards that were kept. One that knows more goes on where the other stopped.
        """

    @abc.abstractmethod
    def record(self, decisions: Sequence[Made]) -> None:
        """Keep decisions, all of them or none."""

    @abc.abstractmethod
    def reward(self, rewards: Sequence[tuple[str, float]]) -> int:
        """Keep rewards by the ids of their decisions, all of them or none; how many were new.

        One that is known already is accepted if it says the same, and counted once. Another reward
        for the same decision, an unknown id and a reward out of bounds are refused.
        """

    @abc.abstractmethod
    def past(self, tasks: Sequence[str]) -> dict[str, Past]:
        """What has happened in some tasks, at one moment."""

    @abc.abstractmethod
    def elsewhere(self, arms: Sequence[str]) -> dict[str, list[Elsewhere]]:
        """What all tasks have seen of some arms, by the number of rewards."""

    @abc.abstractmethod
    def added_arms(self) -> list[str]:
        """Arms that were on offer and that the fit did not know, the oldest first."""

    @abc.abstractmethod
    def log(self) -> Iterator[Logged]:
        """Decisions that have a reward, in the order in which they were made."""

    @abc.abstractmethod
    def waiting(self) -> int:
        """How many decisions have no reward yet."""


def now() -> str:
    """The time, in ISO 8601 and UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def as_name(what: str, value: Any) -> str:
    """The name of a task, an arm or a decision: text, or a whole number as text.

    >>> as_name("task", 17), as_name("task", "user 17")
    ('17', 'user 17')
    """
    if isinstance(value, bool) or not (isinstance(value, str) or hasattr(value, "__index__")):
        raise InvalidInputError(f"{what}: expected a name, got {value!r}")
    text = value if isinstance(value, str) else str(value.__index__())
    if not text.strip():
        raise InvalidInputError(f"{what}: is empty")
    if "\0" in text or not _is_text(text):
        raise InvalidInputError(f"{what}: {text!r} is no text")
    return str(text)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character, of a file name in an odd encoding
        return False
    return True
