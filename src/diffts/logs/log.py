"""A log, counted up: the number, the mean and the spread of rewards of each task and arm."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffts.errors import InvalidInputError
from diffts.evidence import Evidence
from diffts.logs import levels
from diffts.logs.facts import Facts
from diffts.seeding import Seed, as_generator
from diffts.validation import number_between

FloatMatrix = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class Log:
    """Rewards of N tasks and K arms; a cell is one task and one arm.

    Attributes:
        tasks: names of the N tasks, in order.
        arms: names of the K arms, in order (whole numbers by size, others by code points).
        counts: pulls ``n`` of each cell, ``(N, K)``; 0 where the arm was not pulled.
        means: mean reward ``r̄`` of each cell, ``(N, K)``; 0 where the arm was not pulled.
        squares: ``Σ_i n_i (r_i - r̄)²`` over the rows of each cell, ``(N, K)``.
        facts: what else the log tells.
        rows: rows of each cell, ``(N, K)``: fewer than ``counts`` where a row is many pulls.

    >>> log = Log(["ann", "bob"], ["x", "y"], [[2, 1], [0, 4]], [[0.5, 1.0], [0, 0.25]],
    ...           [[0.5, 0.0], [0, 0.75]])
    >>> round(log.noise_std, 2), log.evidence().mask.tolist()
    (0.55, [[True, True], [False, True]])
    """

    tasks: tuple[str, ...]
    arms: tuple[str, ...]
    counts: FloatMatrix
    means: FloatMatrix
    squares: FloatMatrix
    facts: Facts
    rows: FloatMatrix

    def __init__(
        self,
        tasks: Sequence[str],
        arms: Sequence[str],
        counts: ArrayLike,
        means: ArrayLike,
        squares: ArrayLike,
        facts: Facts | None = None,
        rows: ArrayLike | None = None,
    ) -> None:
        set_field = object.__setattr__  # the fields of a frozen value are set once, here
        set_field(self, "tasks", tuple(map(str, tasks)))
        set_field(self, "arms", tuple(map(str, arms)))
        arrays = {"counts": counts, "means": means, "squares": squares}
        arrays["rows"] = counts if rows is None else rows
        shape = (len(self.tasks), len(self.arms))
        for name, value in arrays.items():
            matrix = np.asarray(value, np.float64)
            if matrix.shape != shape:
                raise InvalidInputError(f"{name}: expected shape {shape}, got {matrix.shape}")
            set_field(self, name, matrix)
        set_field(self, "facts", Facts() if facts is None else facts)

    @property
    def is_binary(self) -> bool:
        """Whether all rewards are 0 or 1 (clicks, wins): their noise follows from their mean."""
        return self.facts.binary

    @property
    def noise_std(self) -> float:
        """The standard deviation ``σ`` of one reward within a task and an arm, pooled; above 0.

        See :func:`diffts.logs.levels.pooled_variance` for what is assumed where nothing repeats.
        """
        return float(np.sqrt(levels.pooled_variance(self)))

    @property
    def noise_is_assumed(self) -> bool:
        """Whether no arm was pulled twice in a task, so that the noise cannot be seen."""
        return levels.repeats(self) == 0

    def evidence(self, noise_std: ArrayLike | None = None) -> Evidence:
        """What is known of each task, ``(N, K)``: the mean of each cell, and its ``σ/√n``.

        Args:
            noise_std: the noise of one reward; by default the log's own: one level for all, or
                for rewards 0 and 1 one for each arm, never 0.
        """
        if noise_std is None:
            std = np.sqrt(levels.cell_variances(self))
        else:
            std = np.broadcast_to(np.asarray(noise_std, np.float64), self.counts.shape)
        seen = self.counts > 0
        return Evidence(self.means, std / np.sqrt(np.maximum(self.counts, 1.0)), seen)

    def take(self, tasks: ArrayLike) -> Log:
        """The log of some of the tasks, by their numbers; the facts stay those of all."""
        chosen = np.asarray(tasks)
        kept: dict[str, Any] = {
            name: getattr(self, name)[chosen] for name in ("counts", "means", "squares", "rows")
        }
        return Log([self.tasks[i] for i in chosen], self.arms, facts=self.facts, **kept)

    def split(self, share: float, seed: Seed = 0) -> tuple[Log, Log]:
        """All tasks but a share of them, and that share, drawn at random; at least one in each."""
        share = number_between("share", share, 0.0, 1.0)
        n = len(self.tasks)
        if n < 2:
            raise InvalidInputError(f"log: {n} task cannot be split; at least 2 are needed")
        held = min(max(round(share * n), 1), n - 1)
        order = as_generator(seed).permutation(n)
        return self.take(np.sort(order[held:])), self.take(np.sort(order[:held]))
