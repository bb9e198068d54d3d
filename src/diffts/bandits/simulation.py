"""What happened in simulated runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclasses.dataclass(frozen=True)
class Simulation:
    """What happened, at the recorded rounds.

    Attributes:
        rounds: the recorded rounds, counted from 1, ``(R,)``.
        regret: cumulative regret up to each of them, ``(R, tasks)``.
        simple_regret: regret of the action that was advised last, ``(R, tasks)``. Advice is given
            before the first round, at half time, and at the end.
        chance_right: the belief's own probability that this action is a best one, ``(R, tasks)``.
        chosen: the arm played in each of them, ``(R, tasks)``; -1 for sets of arms.
        seconds: wall-clock time, compilation included.
        decisions_per_second: decisions of all tasks a second, compilation left out (the median
            over blocks of rounds).
    """

    rounds: NDArray[np.int64]
    regret: NDArray[np.float64]
    simple_regret: NDArray[np.float64]
    chance_right: NDArray[np.float64]
    chosen: NDArray[np.int64]
    seconds: float
    decisions_per_second: float

    @property
    def mean_regret(self) -> NDArray[np.float64]:
        """Mean over tasks of the cumulative regret, ``(R,)``."""
        return self.regret.mean(1)

    @property
    def stderr_regret(self) -> NDArray[np.float64]:
        """Standard error of that mean, ``(R,)``."""
        tasks = self.regret.shape[1]
        if tasks == 1:
            return np.zeros(len(self.regret))
        return self.regret.std(1, ddof=1) / np.sqrt(tasks)

    @property
    def share_right(self) -> NDArray[np.float64]:
        """Share of tasks whose advised action is a best one, ``(R,)``."""
        return (self.simple_regret <= 1e-6).mean(1)

    def rows(self, **labels: Any) -> Iterator[dict[str, Any]]:
        """Flat rows for any data frame: one for each recorded round and task."""
        for r, done in enumerate(self.rounds):
            for task in range(self.regret.shape[1]):
                yield {
                    **labels,
                    "task": task,
                    "round": int(done),
                    "regret": float(self.regret[r, task]),
                    "simple_regret": float(self.simple_regret[r, task]),
                    "chance_right": float(self.chance_right[r, task]),
                    "chosen": int(self.chosen[r, task]),
                }
