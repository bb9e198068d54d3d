"""Imperfect data: each task observed incompletely and with noise, as logs of the past would be."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from diffts.errors import InvalidInputError
from diffts.evidence import Evidence
from diffts.problems.problem import TaskSets, independent_streams
from diffts.seeding import Seed, as_generator
from diffts.validation import finite_array


@dataclasses.dataclass(frozen=True)
class Corruption:
    """Each entry is hidden with probability ``missing``; the others get Gaussian noise.

    The defaults are the paper's. The version is raised, by hand, when the law or the random
    numbers change.
    """

    version: ClassVar[int] = 1

    missing: float = 0.5
    noise: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.missing < 1:
            raise InvalidInputError(f"missing: must be in [0, 1), got {self.missing}")
        if not (np.isfinite(self.noise) and self.noise >= 0):
            raise InvalidInputError(f"noise: must be at least 0, got {self.noise}")

    def observe(self, tasks: ArrayLike, seed: Seed = 0) -> Evidence:
        """``y = m ⊙ (x_0 + N(0, noise²))`` of tasks ``(N, K)``.

        >>> Corruption(missing=0.0, noise=0.0).observe([[0.5, 1.0]]).mean.tolist()
        [[0.5, 1.0]]
        """
        x_0 = finite_array("tasks", tasks, ndim=2)
        rng = as_generator(seed)
        y = x_0 + self.noise * rng.standard_normal(x_0.shape)
        return Evidence(y, self.noise, rng.random(x_0.shape) >= self.missing)


class ImperfectSets(NamedTuple):
    """What is known of the training and of the calibration tasks."""

    train: Evidence
    calibration: Evidence


def corrupt(tasks: TaskSets, corruption: Corruption, seed: Seed = 0) -> ImperfectSets:
    """Training and calibration tasks, observed imperfectly; each set has its own random stream."""
    # Not the streams that drew the tasks: a seed is often used for both.
    first, second = independent_streams(1 + int(as_generator(seed).integers(2**31)), 2)
    return ImperfectSets(
        corruption.observe(tasks.train, first), corruption.observe(tasks.calibration, second)
    )
