"""Logged decisions: which task, which arm, with which chance, and what it gave."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffts.errors import InvalidInputError
from diffts.validation import float_array

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

WHAT_TO_LOG = (
    "log the chance of the arm that was played (Agent.decide gives it), or say that every arm was "
    "equally likely (uniform)"
)


@dataclass(frozen=True)
class LoggedRounds:
    """R rounds of N tasks on K arms, task by task and in the order of time within a task.

    Make one by :meth:`of`, or from a table by the functions in :mod:`diffts.backtest.tables`.

    Attributes:
        tasks: names of the N tasks.
        arms: names of the K arms.
        task: number of each round's task, ``(R,)``, ascending.
        arm: number of the arm played, ``(R,)``.
        reward: what it gave, ``(R,)``.
        propensity: the chance ``p`` with which the log's policy played that arm, ``(R,)``.
        row: where the round stood in the table that it came from, from 0 on, ``(R,)``.
        offered: the arms on offer in each round, ``(R, K)``; None if the log does not say.
        position: the place where the arm was shown, ``(R,)``; None if there is none.
    """

    tasks: tuple[str, ...]
    arms: tuple[str, ...]
    task: Integers
    arm: Integers
    reward: Floats
    propensity: Floats
    row: Integers
    offered: NDArray[np.bool_] | None = None
    position: NDArray[Any] | None = None

    @staticmethod
    def of(
        task: Sequence[Any] | NDArray[Any],
        arm: Sequence[Any] | NDArray[Any],
        reward: ArrayLike,
        propensity: ArrayLike | None = None,
        *,
        time: Sequence[Any] | NDArray[Any] | None = None,
        position: Sequence[Any] | NDArray[Any] | None = None,
        offered: Sequence[Sequence[Any]] | None = None,
        arms: Sequence[Any] | None = None,
        uniform: bool = False,
    ) -> LoggedRounds:
        """Rounds from columns of equal length, checked.

        Args:
            task: name of each round's task.
            arm: name of the arm played.
            reward: what it gave.
            propensity: the chance with which it was played, above 0 and up to 1.
            time: when, if rows are not in order: numbers, or dates.
            position: the place where the arm was shown.
            offered: the names of the arms on offer in each round.
            arms: names of all arms; by default those that occur.
            uniform: every arm on offer was equally likely, instead of ``propensity``.

        >>> rounds = LoggedRounds.of(["u", "v"], ["red", "blue"], [0.0, 1.0], [0.5, 0.5])
        >>> rounds.arms, rounds.reward.tolist()
        (('blue', 'red'), [0.0, 1.0])
        """
        rewards = float_array("reward", reward, ndim=1)
        count = len(rewards)
        if not count:
            raise InvalidInputError("rounds: the log is empty")
        columns = {"task": task, "arm": arm, "propensity": propensity, "time": time}
        columns |= {"position": position, "offered": offered}
        for name, column in columns.items():
            if column is not None and len(column) != count:  # type: ignore[arg-type]
                raise InvalidInputError(
                    f"{name}: expected one for each of {count} rewards, got {len(column)}"  # type: ignore[arg-type]
                )
        _refuse_rows("reward", rewards, ~np.isfinite(rewards), "not finite")
        task_names, task_number = np.unique(names_of("task", task), return_inverse=True)
        words = names_of("arm", arm)
        sets = None if offered is None else [[str(one) for one in some] for some in offered]
        known = set(words.tolist()).union(*sets or ()) if arms is None else map(str, arms)
        arm_names = tuple(sorted(known) if arms is None else known)
        order = np.lexsort((as_times(time), task_number)) if time is not None else None
        if order is None:
            order = np.argsort(task_number, kind="stable")
        rounds = LoggedRounds(
            tasks=tuple(task_names.tolist()),
            arms=arm_names,
            task=task_number[order].astype(np.int64),
            arm=_numbers(words, arm_names)[order],
            reward=rewards[order],
            propensity=np.ones(count),
            row=order.astype(np.int64),
            offered=None if sets is None else _offered(sets, arm_names)[order],
            position=None if position is None else np.asarray(position)[order],
        )
        rounds._check_offer()
        if propensity is None:
            if not uniform:
                raise InvalidInputError(f"propensity: missing; {WHAT_TO_LOG}")
            return dataclasses.replace(rounds, propensity=1.0 / rounds.on_offer().sum(axis=1))
        if uniform:
            raise InvalidInputError("uniform: has no meaning where propensities are given")
        chances = float_array("propensity", propensity, ndim=1)
        _refuse_rows("propensity", chances, ~((chances > 0) & (chances <= 1)), "not in (0, 1]")
        return dataclasses.replace(rounds, propensity=chances[order])

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def n_tasks(self) -> int:
        """Number of tasks ``N``."""
        return len(self.tasks)

    @property
    def n_arms(self) -> int:
        """Number of arms ``K``."""
        return len(self.arms)

    @property
    def clusters(self) -> Integers:
        """What is taken to be independent, ``(R,)``: tasks; of a log of one task, its rounds."""
        return self.task if self.n_tasks > 1 else np.arange(len(self), dtype=np.int64)

    @property
    def played(self) -> NDArray[np.bool_]:
        """Which arms the log plays or offers at all, ``(K,)``."""
        counts = np.bincount(self.arm, minlength=self.n_arms) > 0
        return counts if self.offered is None else counts | self.offered.any(axis=0)

    def on_offer(self, start: int = 0, stop: int | None = None) -> NDArray[np.bool_]:
        """The arms on offer in some of the rounds, ``(rounds, K)``.

        Where the log does not say, all that it ever plays: others could not be judged.
        """
        stop = len(self) if stop is None else min(stop, len(self))
        if self.offered is not None:
            return self.offered[start:stop]
        return np.broadcast_to(self.played, (max(0, stop - start), self.n_arms))

    def with_arms(self, arms: Sequence[str]) -> LoggedRounds:
        """The same rounds with the arms of a policy, by name; it must have all of the log's."""
        names = tuple(map(str, arms))
        to = _numbers(np.asarray(self.arms), names, "the policy's arms")
        offered = None
        if self.offered is not None:
            offered = np.zeros((len(self), len(names)), bool)
            offered[:, to] = self.offered
        return dataclasses.replace(self, arms=names, arm=to[self.arm], offered=offered)

    def of_tasks(self, names: Sequence[str]) -> LoggedRounds:
        """The rounds of some tasks alone: of those, say, that nothing was learned from."""
        wanted = np.isin(np.asarray(self.tasks), np.asarray(list(map(str, names))))
        if not wanted.any():
            raise InvalidInputError("tasks: none of them is in the log")
        keep = wanted[self.task]
        number = np.cumsum(wanted) - 1
        parts: dict[str, Any] = {
            name: None if (values := getattr(self, name)) is None else values[keep]
            for name in ("arm", "reward", "propensity", "row", "offered", "position")
        }
        kept = tuple(name for name, want in zip(self.tasks, wanted, strict=True) if want)
        return dataclasses.replace(self, tasks=kept, task=number[self.task[keep]], **parts)

    def _check_offer(self) -> None:
        if self.offered is None:
            return
        inside = self.offered[np.arange(len(self)), self.arm]
        if not inside.all():
            first = int(self.row[~inside].min())
            raise InvalidInputError(f"offered: row {first + 1}: the arm played was not on offer")


def names_of(column: str, values: Sequence[Any] | NDArray[Any]) -> NDArray[np.str_]:
    """Names as words, ``(R,)``; a blank one is refused."""
    given = np.asarray(values)
    if given.ndim != 1:
        raise InvalidInputError(f"{column}: expected one name a row, got shape {given.shape}")
    if given.dtype.kind in "iuU":
        words = given.astype(np.str_)
    else:
        missing = [value is None or value != value for value in given.tolist()]
        _refuse_rows(column, given, np.asarray(missing, bool), "blank")
        words = np.asarray([str(value) for value in given.tolist()])
    _refuse_rows(column, words, words == "", "blank")
    return words


def as_times(values: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
    """Numbers or dates that can be sorted, ``(R,)``; words are read as ISO dates."""
    given = np.asarray(values)
    if given.dtype.kind in "OU":
        from datetime import datetime

        try:
            dates = [datetime.fromisoformat(str(value)) for value in given.tolist()]
            if len({date.tzinfo is None for date in dates}) > 1:
                raise InvalidInputError("time: some rows have a time zone, others have none")
            given = np.asarray([date.timestamp() for date in dates])
        except ValueError as error:
            raise InvalidInputError(f"time: neither numbers nor dates ({error})") from None
    missing = np.isnat(given) if given.dtype.kind == "M" else ~np.isfinite(given.astype(np.float64))
    _refuse_rows("time", given, missing, "blank")
    return given


def _refuse_rows(column: str, values: NDArray[Any], bad: NDArray[np.bool_], what: str) -> None:
    if bad.any():
        first = int(np.argmax(bad))
        raise InvalidInputError(
            f"{column}: {what} in {int(bad.sum())} row(s), the first is row {first + 1} "
            f"({values[first]})"
        )


def _numbers(
    words: NDArray[np.str_], names: Sequence[str], whose: str = "the arms given"
) -> Integers:
    """The number of each word among some names, which differ."""
    if len(set(names)) != len(names):
        raise InvalidInputError("arms: two have the same name")
    in_order = np.argsort(np.asarray(names))
    ordered = np.asarray(names)[in_order]
    place = np.minimum(np.searchsorted(ordered, words), len(names) - 1)
    unknown = ordered[place] != words
    if unknown.any():
        raise InvalidInputError(
            f"arm: {len(np.unique(words[unknown]))} arm(s) of the log are not among {whose}, the "
            f"first is {str(words[unknown][0])!r}"
        )
    return in_order[place].astype(np.int64)


def _offered(sets: Sequence[Sequence[str]], names: Sequence[str]) -> NDArray[np.bool_]:
    """Which arms are on offer in each round, ``(R, K)``."""
    mask = np.zeros((len(sets), len(names)), bool)
    index = {name: number for number, name in enumerate(names)}
    for row, some in enumerate(sets):
        for name in some:
            if name not in index:
                raise InvalidInputError(f"offered: row {row + 1}: unknown arm {name!r}")
            mask[row, index[name]] = True
    return mask
