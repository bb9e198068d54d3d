"""Popular and Niche: good items for everybody, and a few perfect ones for each customer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from diffts.bandits.rewards import GaussianRewards, RewardModel
from diffts.problems.problem import Problem, SuggestedNetwork, Tasks, fixed_array, random_subsets

N_GROUPS = 40
N_NICHE_GROUPS = 20
GROUP_SIZE = 5

# The arms' order belongs to the problem: every task and every seed sees the same one.
_ORDER_SEED = 20_230
_GROUP_OF_ARM = np.random.default_rng(_ORDER_SEED).permutation(
    np.repeat(np.arange(N_GROUPS), GROUP_SIZE)
)


@final
@dataclass(frozen=True)
class PopularNiche(Problem):
    """40 groups of 5 arms, 20 of them niche and 20 popular; a task is a customer.

    For each task, with ``x`` the values before noise:

    - 1 to 3 niche groups are chosen (the number uniform, then a uniform subset); in these, each
      arm has ``x = 1`` with probability 0.7, independently;
    - 15 to 17 popular groups are chosen likewise; all their arms have ``x = 0.8``;
    - every other arm has ``x = 0``.

    The mean rewards are ``μ = clip(x + N(0, 0.1²), 0, c)`` with ``c = 0.95`` for popular arms and
    ``c = 1`` for niche ones: the best arm is almost always a niche one.

    Attributes:
        group_of_arm: group of each arm, 0 to 39, shape ``(200,)``; groups below 20 are niche.
            The arms are in a random order that is fixed once and for all.
        is_niche: True for the arms of niche groups, shape ``(200,)``.

    >>> problem = PopularNiche()
    >>> problem.sample(4, seed=0)[:, ~problem.is_niche].max() <= 0.95
    np.True_
    """

    name: ClassVar[str] = "popular-niche"
    n_arms: ClassVar[int] = N_GROUPS * GROUP_SIZE
    noise_std: ClassVar[float] = 0.1
    horizon: ClassVar[int] = 1000

    group_of_arm: ClassVar[NDArray[np.int64]] = fixed_array(_GROUP_OF_ARM)
    is_niche: ClassVar[NDArray[np.bool_]] = fixed_array(_GROUP_OF_ARM < N_NICHE_GROUPS)

    niche_groups_chosen: ClassVar[tuple[int, int]] = (1, 3)
    niche_probability: ClassVar[float] = 0.7
    niche_value: ClassVar[float] = 1.0
    popular_groups_chosen: ClassVar[tuple[int, int]] = (15, 17)
    popular_value: ClassVar[float] = 0.8
    popular_cap: ClassVar[float] = 0.95
    value_std: ClassVar[float] = 0.1

    rewards: ClassVar[RewardModel] = GaussianRewards(std=0.1)
    # The arms' order says nothing, so nothing is gained from locality.
    suggested_network: ClassVar[SuggestedNetwork] = SuggestedNetwork("residual-mlp")

    def _draw(self, n: int, rng: np.random.Generator) -> Tasks:
        n_popular_groups = N_GROUPS - N_NICHE_GROUPS
        n_niche = rng.integers(*self.niche_groups_chosen, size=n, endpoint=True)
        n_popular = rng.integers(*self.popular_groups_chosen, size=n, endpoint=True)
        chosen_groups = np.concatenate(
            [
                random_subsets(rng, n_niche, N_NICHE_GROUPS),
                random_subsets(rng, n_popular, n_popular_groups),
            ],
            axis=1,
        )
        chosen = chosen_groups[:, self.group_of_arm]
        liked = rng.random((n, self.n_arms)) < self.niche_probability
        values = np.where(self.is_niche, self.niche_value * liked, self.popular_value) * chosen
        noisy = values + self.value_std * rng.standard_normal((n, self.n_arms))
        highest = np.where(self.is_niche, 1.0, self.popular_cap)
        return np.clip(noisy, 0.0, highest).astype(np.float32)
