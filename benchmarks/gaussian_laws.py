"""Two laws of tasks that are Gaussian, or nearly: where a plain Gaussian prior is hard to beat.

Made like tables of ratings: 100 items, a few tastes that people differ by, loud single ratings.
"""

from __future__ import annotations

import functools
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from diffts.bandits.rewards import GaussianRewards, RewardModel
from diffts.evidence import Evidence
from diffts.problems import Corruption, Problem
from diffts.problems.problem import SuggestedNetwork, Tasks

#: A quarter of the past ratings is missing; what is there is nearly exact, so that a law is what
#: its prior can learn, and not how many ratings there were.
PAST = Corruption(missing=0.25, noise=0.1)


@functools.cache
def structure(n_arms: int, factors: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What all tasks share: mean of each arm, and loadings ``(K, factors)``."""
    rng = np.random.default_rng(2026)
    strength = 3.0 / np.sqrt(1.0 + np.arange(factors))
    return rng.normal(0.0, 1.5, n_arms), rng.normal(0.0, 1.0, (n_arms, factors)) * strength / 1.5


@final
class FactorGaussian(Problem):
    """``μ = m + L z + e``: five tastes ``z``, and what is left of each arm, all Gaussian."""

    name: ClassVar[str] = "factor-gaussian"
    n_arms: ClassVar[int] = 100
    noise_std: ClassVar[float] = 4.0
    horizon: ClassVar[int] = 1000
    rewards: ClassVar[RewardModel] = GaussianRewards(std=4.0)
    suggested_network: ClassVar[SuggestedNetwork] = SuggestedNetwork(
        "residual-mlp", predicts="residual", options={"width": 256}
    )

    def _draw(self, n: int, rng: np.random.Generator) -> Tasks:
        mean, loadings = structure(self.n_arms, 5)
        tastes = rng.normal(size=(n, 5)) @ loadings.T
        return (mean + tastes + rng.normal(0.0, 1.5, (n, self.n_arms))).astype(np.float32)


@final
class BoundedRatings(Problem):
    """The same, seen through a scale that ends at ± 10: most extreme tastes are alike."""

    name: ClassVar[str] = "bounded-ratings"
    n_arms: ClassVar[int] = 100
    noise_std: ClassVar[float] = 4.0
    horizon: ClassVar[int] = 1000
    rewards: ClassVar[RewardModel] = GaussianRewards(std=4.0)
    suggested_network: ClassVar[SuggestedNetwork] = FactorGaussian.suggested_network

    def _draw(self, n: int, rng: np.random.Generator) -> Tasks:
        return (10.0 * np.tanh(FactorGaussian()._draw(n, rng) / 10.0)).astype(np.float32)


LAWS: dict[str, Problem] = {law.name: law for law in (FactorGaussian(), BoundedRatings())}


def as_seen(tasks: Tasks, seed: int) -> Evidence:
    """Past tasks of these laws, a quarter of the entries missing."""
    return PAST.observe(tasks, seed)
