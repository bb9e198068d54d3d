"""Labeled Arms: an arm is the better the more labels it shares with the task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from diffts.bandits.rewards import GaussianRewards, RewardModel
from diffts.problems.problem import Problem, SuggestedNetwork, Tasks, fixed_array, random_subsets

N_ARMS = 500
N_LABELS = 50
LABELS_HELD = 7
LOWEST, HIGHEST = -0.5, 1.47

# The arms' labels belong to the problem: every task and every seed sees the same ones.
_LABELS_SEED = 20_231
_ARM_LABELS = random_subsets(
    np.random.default_rng(_LABELS_SEED), np.full(N_ARMS, LABELS_HELD), N_LABELS
)


@dataclass(frozen=True)
class LabeledArms(Problem):
    """500 arms and every task hold 7 of 50 labels each.

    A task draws its set of labels ``S`` uniformly; arm ``a`` with the fixed set ``S^a`` gets
    ``x^a = 1 - 4^-|S^a ∩ S| + N(0, 0.1²)``. Then the vector is scaled to [0, 1], each task by
    itself, as in the paper: its worst arm is at 0 and its best at 1.

    Attributes:
        arm_labels: which labels each arm holds, shape ``(500, 50)``, seven True in a row.

    >>> tasks = LabeledArms().sample(2, seed=0)
    >>> tasks.min(axis=1).tolist(), tasks.max(axis=1).tolist()
    ([0.0, 0.0], [1.0, 1.0])
    """

    name: ClassVar[str] = "labeled-arms"
    n_arms: ClassVar[int] = N_ARMS
    noise_std: ClassVar[float] = 0.1
    horizon: ClassVar[int] = 1000
    version: ClassVar[int] = 2  # in version 1 all tasks had one scale: LabeledArmsCommon

    arm_labels: ClassVar[NDArray[np.bool_]] = fixed_array(_ARM_LABELS)
    value_std: ClassVar[float] = 0.1

    rewards: ClassVar[RewardModel] = GaussianRewards(std=0.1)
    # The arms' order says nothing, so nothing is gained from locality.
    suggested_network: ClassVar[SuggestedNetwork] = SuggestedNetwork("residual-mlp")

    def _draw(self, n: int, rng: np.random.Generator) -> Tasks:
        task_labels = random_subsets(rng, np.full(n, LABELS_HELD), N_LABELS)
        # Counted in float32 because only floating-point products are fast; 7 is exact in it.
        n_common = task_labels.astype(np.float32) @ self.arm_labels.T.astype(np.float32)
        noise = self.value_std * rng.standard_normal((n, N_ARMS), dtype=np.float32)
        return self._scaled(1.0 - 0.25**n_common + noise)

    def _scaled(self, values: Tasks) -> Tasks:
        """Values ``(n, K)`` in [0, 1], each task by itself."""
        lowest = values.min(axis=1, keepdims=True)
        highest = values.max(axis=1, keepdims=True)
        scaled: Tasks = (values - lowest) / (highest - lowest)
        return scaled


@final
@dataclass(frozen=True)
class LabeledArmsCommon(LabeledArms):
    """Labeled Arms with one scale for all tasks, which is not the paper's.

    ``μ = (x + 0.5) / 1.97``, clipped to [0, 1]. −0.5 and 1.47 are about the least and the largest
    of the 3 million values of a 6100-task data set. Regrets are about a fifth lower than with a
    scale for each task, whose best arm is always at 1.

    >>> bool((LabeledArmsCommon().sample(20, seed=0).max(axis=1) < 1).all())
    True
    """

    name: ClassVar[str] = "labeled-arms-common"
    version: ClassVar[int] = 1

    def _scaled(self, values: Tasks) -> Tasks:
        return np.clip((values - LOWEST) / (HIGHEST - LOWEST), 0.0, 1.0)
