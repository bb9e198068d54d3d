"""Decisions for people: ``choose(task)``, ``reward(decision, value)``; any process, any order.

What is thought of a task is worked out from the store for each decision. So nothing is lost with a
process, and any process can answer any request.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from diffts.bandits.answers import BestArmAdvice
from diffts.bandits.history import History
from diffts.bandits.rules import Rule
from diffts.decisions import batch
from diffts.decisions.new_arms import law_of_new_arm
from diffts.decisions.sqlite import FILE, SQLiteStore
from diffts.decisions.store import DecisionStore, Logged, Made, Past, Totals, as_name, now
from diffts.errors import InvalidInputError
from diffts.fitting.fitted import Fitted
from diffts.seeding import Seed, as_key
from diffts.validation import float_array, require_finite, whole_number

#: Choices of the rule that the chance of a decision is counted in.
CHANCES = 100


class Choice(NamedTuple):
    """What to play.

    Attributes:
        arm: the arm.
        decision_id: what to tell its reward by.
        chance: with which it was chosen, for whoever judges other rules by the log; None if it was
            not to be counted.
    """

    arm: str
    decision_id: str
    chance: float | None


class Decisions:
    """Decisions by what a log has taught, kept in a store.

    Args:
        directory: the folder of the fit; decisions are kept there, in ``decisions.sqlite``.
        rule: what to play by: a rule, or a name in ``bandits.RULES``. The default has no coin:
            until a reward comes, a task gets the same arm again. 'thompson' is for tasks with
            many decisions before the first reward.
        horizon: how many decisions a task will have, if known; some rules use it.
        floor: the least chance of every arm on offer, so that the log can judge other rules.
        chances: choices of the rule that the chance of a decision is counted in; 0 for none, if
            that takes too long (a rule with a coin, a diffusion prior and many tasks at once).
        seed: for the same choices again; without one, every decision has randomness of its own.
        store: another store than that file.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        rule: str | Rule = "default",
        horizon: int | None = None,
        floor: float | None = None,
        chances: int = CHANCES,
        seed: Seed | None = None,
        store: DecisionStore | None = None,
    ) -> None:
        self.fitted = Fitted.load(directory)
        self._policy = self.fitted.policy(rule, horizon=horizon, floor=floor)
        self._chances = whole_number("chances", chances, 0)
        self._base = jax.random.key(0) if seed is None else as_key(seed)
        self._seeded, self._choices = seed is not None, 0
        self._store = SQLiteStore(Path(directory) / FILE) if store is None else store
        noise = self._policy.belief.noise
        self._store.claim(self.fitted.arms, noise.bounds)
        self._number = {arm: number for number, arm in enumerate(self.fitted.arms)}
        self._noise_std: float | None = None

    @property
    def arms(self) -> list[str]:
        """All arms there have been: those of the fit, and those on offer since."""
        added = self._store.added_arms()
        return [*self.fitted.arms, *(arm for arm in added if arm not in self._number)]

    def choose(self, task: Any, among: Sequence[Any] | None = None) -> Choice:
        """The arm to play for a task now.

        Args:
            task: its name.
            among: the arms on offer, by name; those of the fit by default. There may be new ones.
        """
        return self.choose_many([task], among)[0]

    def choose_many(
        self, tasks: Sequence[Any], among: Sequence[Any] | Sequence[Sequence[Any]] | None = None
    ) -> list[Choice]:
        """An arm for each of many tasks, in one go; the same as one by one.

        Args:
            tasks: their names.
            among: the arms on offer in all of them; or a list for each task.
        """
        names = [as_name("task", task) for task in _as_list("tasks", tasks)]
        if not names:
            return []
        offers = _offers(among, len(names))
        ids = [secrets.token_hex(16) for _ in names]
        known, new = self._situations(names, offers)
        known.words[:] = self._words(ids)
        known.rounds[:] += _times_before(names)
        chosen, chances = batch.choose(self._policy, self._base, known, self._chances)
        time = now()
        made = [
            Made(
                id=ids[row],
                task=name,
                arm=self._named(chosen[row], new[row]),
                chance=None if chances is None else float(chances[row]),
                offered=offers[row],
                time=time,
                new=tuple(arm for arm in offers[row] or () if arm not in self._number),
            )
            for row, name in enumerate(names)
        ]
        self._store.record(made)
        self._choices += len(names)
        return [Choice(one.arm, one.id, one.chance) for one in made]

    def reward(self, decision_id: Any, reward: Any) -> None:
        """Tell what a decision gave; or several, as two lists of the same length.

        Rewards may come late and in any order. To tell one again changes nothing; to tell another
        one for the same decision is refused, and then nothing is kept of any of them.
        """
        several = isinstance(decision_id, list | tuple)
        ids = list(decision_id) if several else [decision_id]
        rewards = float_array("reward", reward)
        if rewards.shape != ((len(ids),) if several else ()):
            raise InvalidInputError(
                f"reward: expected one for each of {len(ids)} decision(s), got shape "
                f"{rewards.shape}"
            )
        require_finite("reward", rewards)
        self._policy.belief.noise.check(rewards)
        names = [as_name("decision", one) for one in ids]
        self._store.reward(list(zip(names, np.atleast_1d(rewards).tolist(), strict=True)))

    def advice(self, task: Any, among: Sequence[Any] | None = None) -> BestArmAdvice:
        """The arm to settle for, whatever the rule, and how likely it is a best one."""
        name = as_name("task", task)
        known, new = self._situations([name], _offers(among, 1))
        chosen, chances = batch.advise(self._policy, known)
        return BestArmAdvice(self._named(chosen[0], new[0]), float(chances[0]))

    def history(self, task: Any) -> dict[str, Totals]:
        """The rewards of a task so far, by arm; of arms that are no longer on offer, too."""
        name = as_name("task", task)
        return dict(self._store.past([name])[name].totals)

    def table(self) -> dict[str, list[Any]]:
        """The log of all decisions that have a reward, column by column.

        With task, arm, reward, time and propensity: what ``fit`` and ``backtest`` read.
        """
        rows = list(self._store.log())
        return {name: [row[i] for row in rows] for i, name in enumerate(Logged._fields)}

    def _words(self, ids: Sequence[str]) -> np.ndarray[Any, np.dtype[np.uint32]]:
        """Where randomness comes from: the id; or with a seed, the number of the choice."""
        if not self._seeded:
            return np.array([[int(one[:8], 16), int(one[8:16], 16)] for one in ids], np.uint32)
        numbers = self._choices + np.arange(len(ids))
        return np.stack([numbers, np.zeros_like(numbers)], axis=1).astype(np.uint32)

    def _situations(
        self, tasks: Sequence[str], offers: Sequence[tuple[str, ...] | None]
    ) -> tuple[batch.Tasks, list[list[str]]]:
        """What is known of some tasks, and the new arms of each: those on offer or ever pulled.

        They have places of their own in each task, so that it does not matter what the others have.
        """
        past = self._store.past(tasks)
        new = [
            sorted({arm for arm in (*(offer or ()), *past[task].totals) if arm not in self._number})
            for task, offer in zip(tasks, offers, strict=True)
        ]
        fitted, places = len(self.fitted.arms), batch.padded_new(max(map(len, new)))
        known = batch.Tasks.empty(len(tasks), fitted, places)
        for row, (task, offer) in enumerate(zip(tasks, offers, strict=True)):
            number = self._number
            if new[row]:
                number = number | {arm: fitted + place for place, arm in enumerate(new[row])}
            known.rounds[row] = past[task].rounds
            known.offered[row] = np.arange(fitted + places) < (fitted if offer is None else 0)
            known.offered[row, [number[arm] for arm in offer or ()]] = True
            for arm, totals in past[task].totals.items():
                known.counts[row, number[arm]] = totals.pulls
                known.sums[row, number[arm]] = totals.sum
                known.squares[row, number[arm]] = totals.squares
        if places:
            self._fill_in_laws(known, [past[task] for task in tasks], new)
        return known, new

    def _fill_in_laws(
        self, known: batch.Tasks, past: Sequence[Past], new: Sequence[Sequence[str]]
    ) -> None:
        """What each task may think of each of its new arms, given the other tasks."""
        if self._noise_std is None:  # before any pull: what the log has told
            self._noise_std = float(self._policy.belief.noise.std(History.empty(1))[0])
        law, noise = self.fitted.new_arms, self._noise_std
        elsewhere = self._store.elsewhere([arm for arms in new for arm in arms])
        untried = {arm: law_of_new_arm(law, noise, seen) for arm, seen in elsewhere.items()}
        for row, arms in enumerate(new):
            for place, arm in enumerate(arms):
                own = past[row].totals.get(arm)
                here = (
                    untried[arm] if own is None else law_of_new_arm(law, noise, elsewhere[arm], own)
                )
                known.new_mean[row, place], known.new_std[row, place] = here

    def _named(self, number: int, new: Sequence[str]) -> str:
        """An arm by its number in a task."""
        fitted = self.fitted.arms
        return fitted[number] if number < len(fitted) else new[number - len(fitted)]


def _offers(among: Any, tasks: int) -> list[tuple[str, ...] | None]:
    """The arms on offer in each task; None for those of the fit."""
    if among is None:
        return [None] * tasks
    listed = _as_list("among", among)
    nested = bool(listed) and not any(isinstance(one, str) or np.ndim(one) == 0 for one in listed)
    if nested and len(listed) != tasks:
        raise InvalidInputError(f"among: {len(listed)} lists for {tasks} task(s)")
    offers = listed if nested else [listed]
    named: list[tuple[str, ...] | None] = [
        tuple(dict.fromkeys(as_name("among", arm) for arm in _as_list("among", one)))
        for one in offers
    ]
    if not all(named):
        raise InvalidInputError("among: no arm on offer")
    return named if nested else named * tasks


def _as_list(what: str, value: Any) -> list[Any]:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InvalidInputError(f"{what}: expected a list of names, got {value!r}")
    return list(value)


def _times_before(tasks: Sequence[str]) -> list[int]:
    """How often each task was there before, in one list."""
    seen: dict[str, int] = {}
    times = []
    for task in tasks:
        times.append(seen.get(task, 0))
        seen[task] = times[-1] + 1
    return times
