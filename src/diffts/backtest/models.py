"""What an arm is expected to give in a round, known from other rounds: for direct estimates.

No model sees the reward of the round that it is asked about, or estimates would be too good.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from diffts.backtest import played
from diffts.backtest.rounds import Floats, Integers, LoggedRounds
from diffts.bandits.beliefs import Belief
from diffts.errors import InvalidInputError
from diffts.validation import finite_array

#: Parts that tasks are split into: each is judged with what the others have taught.
FOLDS = 5
#: Of the other parts, those that an arm for everyone is chosen by, and those that judge.
CHOOSING, JUDGING = (1, 2), (3, 4)
#: Rounds that the mean of all rewards is worth to each arm: one lucky round wins nothing.
STRENGTH = 10.0


class RewardModel(Protocol):
    """Expected rewards of all arms in some of the rounds."""

    def predict(self, rounds: LoggedRounds, start: int, stop: int) -> Floats:
        """``q(a)`` of each arm, ``(rounds, K)``."""
        ...


class ArmMeans:
    """The mean reward of each arm over the tasks of other parts (cross-fitting by task).

    ``q(a) = (s r̄ + Σ r) / (s + n)``, with the sum over the n rounds of the arm, and r̄ of all.

    Args:
        rounds: the log.
        seed: of the split.
        parts: which others, counted on from each part. An arm that is chosen by some parts is
            judged by the rest, or the luck that had it chosen would count for it.
    """

    def __init__(self, rounds: LoggedRounds, seed: int = 0, parts: Sequence[int] = JUDGING) -> None:
        self._fold = folds(rounds, seed)
        shape = (FOLDS, rounds.n_arms)
        cell = self._fold * rounds.n_arms + rounds.arm
        size = FOLDS * rounds.n_arms
        counts = np.bincount(cell, minlength=size).reshape(shape)
        sums = np.bincount(cell, rounds.reward, minlength=size).reshape(shape)
        others, totals = (
            np.sum([np.roll(table, -part, axis=0) for part in parts], axis=0)
            for table in (counts, sums)
        )
        overall = totals.sum(1) / np.maximum(others.sum(1), 1)
        self.means = (STRENGTH * overall[:, None] + totals) / (STRENGTH + others)  # (FOLDS, K)

    def predict(self, rounds: LoggedRounds, start: int, stop: int) -> Floats:
        """The means of the parts that each round's task is not in."""
        del rounds
        return self.means[self._fold[start:stop]]


class PosteriorMeans:
    """The mean under a belief, given the task's earlier rounds: its prior is of other tasks."""

    def __init__(self, belief: Belief) -> None:
        self._belief = belief

    def predict(self, rounds: LoggedRounds, start: int, stop: int) -> Floats:
        """The posterior means before each round."""
        return played.expected(self._belief, rounds, start, stop)


class GivenRewards:
    """Expected rewards that somebody else knows, ``(R, K)``, rows as in the table of the log."""

    def __init__(self, values: ArrayLike) -> None:
        self._values = finite_array("model", values, ndim=2)

    def predict(self, rounds: LoggedRounds, start: int, stop: int) -> Floats:
        """The rows of these rounds."""
        return rows_of("model", self._values, rounds, start, stop)


def rows_of(name: str, table: Floats, rounds: LoggedRounds, start: int, stop: int) -> Floats:
    """Rows of a user's table ``(R, K)``, which are in the order of the log's table."""
    if table.shape[1] != rounds.n_arms or len(table) <= rounds.row.max():
        raise InvalidInputError(
            f"{name}: expected shape {(len(rounds), rounds.n_arms)}, got {table.shape}"
        )
    return table[rounds.row[start:stop]]


def folds(rounds: LoggedRounds, seed: int = 0) -> Integers:
    """The part of each round, ``(R,)``: a task is in one part as a whole."""
    clusters = rounds.clusters
    order = np.random.default_rng(seed).permutation(int(clusters[-1]) + 1)
    return (order % FOLDS)[clusters]
