"""What a task's log had shown before each of its rounds; never the round itself."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffts.backtest.rounds import LoggedRounds


class Histories(NamedTuple):
    """Of each round, the pulls of its task before it, as ``bandits.History`` has them.

    Attributes:
        counts: pulls of each arm, ``(rounds, K)``.
        sums: sums of their rewards, ``(rounds, K)``.
        squares: sums of their squared distances from the arm's mean, ``(rounds, K)``.
        rounds: rounds so far, ``(rounds,)``.
    """

    counts: NDArray[np.float32]
    sums: NDArray[np.float32]
    squares: NDArray[np.float32]
    rounds: NDArray[np.int32]


def before(rounds: LoggedRounds, start: int, stop: int) -> Histories:
    """The histories of the rounds from ``start`` to ``stop``.

    Running sums over the block, less what they were when the task began. Rewards are centred
    first: ``Σ(r - r̄)² = Σr² - n r̄²`` would otherwise cancel where rewards lie far from 0.
    """
    K = rounds.n_arms
    begins = np.searchsorted(rounds.task, rounds.task[start:stop])  # first round of each one's task
    first = int(begins[0])  # a task that began in an earlier block is summed up from its start
    centre = float(rounds.reward.mean())
    reward = rounds.reward[first:stop] - centre
    arm = rounds.arm[first:stop]

    def running(values: NDArray[np.float64]) -> NDArray[np.float64]:
        early = np.bincount(arm[: start - first], values[: start - first], minlength=K)
        table = np.zeros((stop - start + 1, K))
        table[0] = early
        table[np.arange(1, stop - start + 1), arm[start - first :]] = values[start - first :]
        table = np.cumsum(table, axis=0)
        # The task that runs into the block began before it: nothing to take off.
        inside = (begins >= start)[:, None]
        base = np.where(inside, table[np.maximum(begins - start, 0)], 0.0)
        return table[:-1] - base

    counts = np.rint(running(np.ones_like(reward)))
    sums, squares = running(reward), running(reward**2)
    sums = np.where(counts > 0, sums, 0.0)
    squares = np.maximum(squares - sums**2 / np.maximum(counts, 1.0), 0.0)
    squares = np.where(counts > 1, squares, 0.0)
    return Histories(
        counts.astype(np.float32),
        (sums + centre * counts).astype(np.float32),
        squares.astype(np.float32),
        (np.arange(start, stop) - begins).astype(np.int32),
    )
