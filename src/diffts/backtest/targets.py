"""Policies to be judged: their chances in the rounds of a log, and what they accept in a replay."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffts.backtest import played
from diffts.backtest.models import CHOOSING, ArmMeans, rows_of
from diffts.backtest.rounds import Floats, LoggedRounds
from diffts.bandits.policy import Policy
from diffts.errors import InvalidInputError
from diffts.seeding import as_key
from diffts.validation import finite_array, whole_number


class Chances(NamedTuple):
    """What a policy would play in some rounds.

    Attributes:
        logged: its chance of the arm that was played, ``(rounds,)``.
        by_arm: its chance of each arm, ``(rounds, K)``.
    """

    logged: Floats
    by_arm: Floats


class Target(abc.ABC):
    """A policy to be judged, or anything else that has chances in each round."""

    @abc.abstractmethod
    def chances(self, rounds: LoggedRounds, start: int, stop: int) -> Chances:
        """Its chances in the rounds from ``start`` to ``stop``."""

    def accepted(
        self, rounds: LoggedRounds, weights: Floats, bound: float | None, seed: int
    ) -> NDArray[np.bool_]:
        """Which rounds a replay accepts, ``(R,)``: each with the chance ``min(1, w/c)``.

        Args:
            rounds: the log.
            weights: ``w = π/p`` of each round, after the logged ones before it.
            bound: ``c``; by default the largest weight.
            seed: of the coins.
        """
        largest = float(weights.max()) if bound is None else bound
        coins = np.random.default_rng(seed).random(len(rounds))
        return coins * largest < weights


class Uniform(Target):
    """Every arm on offer alike."""

    def chances(self, rounds: LoggedRounds, start: int, stop: int) -> Chances:
        """One over the number on offer."""
        offered = rounds.on_offer(start, stop)
        return _of(offered / offered.sum(axis=1, keepdims=True), rounds, start, stop)


class Logged(Target):
    """The policy that made the log: its value is the mean reward."""

    def chances(self, rounds: LoggedRounds, start: int, stop: int) -> Chances:
        """The propensity; of all arms only what was played is known, a draw from them."""
        played_arms = np.eye(rounds.n_arms)[rounds.arm[start:stop]]
        return Chances(rounds.propensity[start:stop], played_arms)


class FixedArm(Target):
    """Always one arm."""

    def __init__(self, arm: Any) -> None:
        self.arm = str(arm)

    def chances(self, rounds: LoggedRounds, start: int, stop: int) -> Chances:
        """1 for this arm."""
        if self.arm not in rounds.arms:
            raise InvalidInputError(f"arm: unknown arm {self.arm!r}")
        row = np.arange(rounds.n_arms) == rounds.arms.index(self.arm)
        return _of(np.tile(row, (stop - start, 1)), rounds, start, stop)


class MostPopular(Target):
    """The arm on offer with the highest mean reward over other tasks, for everyone.

    Tasks are split into parts; the arm of one part is chosen by two others (see ``ArmMeans``).
    """

    def __init__(self, rounds: LoggedRounds, seed: int = 0) -> None:
        self._means = ArmMeans(rounds, seed, CHOOSING)

    def chances(self, rounds: LoggedRounds, start: int, stop: int) -> Chances:
        """1 for the best of the others' arms."""
        means = self._means.predict(rounds, start, stop)
        best = np.where(rounds.on_offer(start, stop), means, -np.inf).argmax(axis=1)
        return _of(np.eye(rounds.n_arms)[best], rounds, start, stop)


class GivenChances(Target):
    """Chances that somebody else has worked out, ``(R, K)``, rows as in the table of the log.

    Each row sums to 1, or to less where the policy would play what the log does not have.
    """

    def __init__(self, chances: ArrayLike) -> None:
        self._chances = finite_array("chances", chances, ndim=2)
        if (self._chances < 0).any() or (self._chances.sum(axis=1) > 1 + 1e-6).any():
            raise InvalidInputError("chances: each row must be from 0 on, and sum to 1")

    def chances(self, rounds: LoggedRounds, start: int, stop: int) -> Chances:
        """The rows of these rounds."""
        rows = rows_of("chances", self._chances, rounds, start, stop)
        return _of(rows, rounds, start, stop)


class Played(Target):
    """A belief and a rule, played through each task's rounds.

    Its chances in a round are those after the task's logged rounds before it. In a replay it learns
    from the rounds alone that it has accepted.
    """

    def __init__(self, policy: Policy, *, draws: int = 100, seed: int = 0) -> None:
        self._policy, self._draws = policy, whole_number("draws", draws, 1)
        self._count_key, self._replay_key = jax.random.split(as_key(seed))

    def chances(self, rounds: LoggedRounds, start: int, stop: int) -> Chances:
        """Shares of so many choices."""
        played.check(self._policy, rounds)
        counted = played.chances(self._policy, rounds, start, stop, self._count_key, self._draws)
        return _of(counted, rounds, start, stop)

    def accepted(
        self, rounds: LoggedRounds, weights: Floats, bound: float | None, seed: int
    ) -> NDArray[np.bool_]:
        """By its own history; ``c`` is by default one over the least propensity."""
        del weights
        key = jax.random.fold_in(self._replay_key, seed)
        if bound is None:  # nothing is cut off: one choice a round has the same law as many
            return played.replay(self._policy, rounds, key, 1.0 / rounds.propensity.min(), 1)
        return played.replay(self._policy, rounds, key, bound, self._draws)


def _of(by_arm: NDArray[Any], rounds: LoggedRounds, start: int, stop: int) -> Chances:
    table = np.asarray(by_arm, np.float64)
    return Chances(table[np.arange(stop - start), rounds.arm[start:stop]], table)
