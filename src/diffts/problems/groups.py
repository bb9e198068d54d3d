"""20 Groups: a toy whose posterior can be checked by eye (paper, appendix)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffts.bandits.rewards import GaussianRewards, RewardModel
from diffts.errors import InvalidInputError
from diffts.evidence import Evidence
from diffts.problems.problem import Problem, SuggestedNetwork, Tasks, random_subsets
from diffts.seeding import Seed, as_generator
from diffts.validation import finite_array

N_GROUPS = 20
GROUP_SIZE = 10
MOST_ACTIVE = 6


@final
@dataclass(frozen=True)
class Groups(Problem):
    """20 blocks of 10 arms; between 1 and 6 blocks are at 1, all others at 0.

    The number of active groups is uniform on ``{1, …, 6}``, and given that number every set of
    groups is equally likely. Arms ``10 g, …, 10 g + 9`` form group ``g``. There are finitely many
    such vectors, so two independent tasks can be the same.

    >>> tasks = Groups().sample(3, seed=0)
    >>> sorted(set(tasks.ravel().tolist())), tasks.shape
    ([0.0, 1.0], (3, 200))
    """

    name: ClassVar[str] = "groups"
    n_arms: ClassVar[int] = N_GROUPS * GROUP_SIZE
    noise_std: ClassVar[float] = 0.1
    horizon: ClassVar[int] = 500

    rewards: ClassVar[RewardModel] = GaussianRewards(std=0.1)
    # The order of the groups says nothing, so nothing is gained from locality.
    suggested_network: ClassVar[SuggestedNetwork] = SuggestedNetwork("residual-mlp")

    def _draw(self, n: int, rng: np.random.Generator) -> Tasks:
        n_active = rng.integers(1, MOST_ACTIVE, size=n, endpoint=True)
        active = random_subsets(rng, n_active, N_GROUPS)
        return np.repeat(active, GROUP_SIZE, axis=1).astype(np.float32)


def hide(values: ArrayLike, seed: Seed, missing: float = 0.5) -> Evidence:
    """Noiseless evidence of tasks ``(*batch, K)`` that hides each entry with a probability.

    >>> hide([[1.0, 0.0]], seed=0, missing=0.0).mask.tolist()
    [[True, True]]
    """
    if not 0.0 <= missing <= 1.0:
        raise InvalidInputError(f"missing: must be a probability, got {missing!r}")
    array = finite_array("values", values)
    kept = as_generator(seed).random(array.shape) >= missing
    return Evidence(array, std=0.0, mask=kept)


def recall_precision(
    truth: ArrayLike, draws: ArrayLike, threshold: float = 0.8
) -> tuple[float, float]:
    """How well posterior draws find the active groups, averaged over tasks.

    A group is found when all its features exceed ``threshold``. Recall is the share of the
    active groups that were found, precision the share of the found groups that are active; a
    task in which nothing was found has precision 1 (it made no false claim). Tasks and draws, one
    for each task, have the shape ``(n, 200)``.

    >>> tasks = Groups().sample(5, seed=0)
    >>> recall_precision(tasks, tasks), recall_precision(tasks, 0 * tasks)
    ((1.0, 1.0), (0.0, 1.0))
    """
    active = found_groups("truth", truth, threshold)
    found = found_groups("draws", draws, threshold)
    if active.shape != found.shape:
        raise InvalidInputError(
            f"draws: expected one for each of {len(active)} tasks, got {len(found)}"
        )
    right = (active & found).sum(1)

    def share_right(of: NDArray[np.bool_]) -> float:
        count = of.sum(1)
        return float(np.where(count > 0, right / np.maximum(count, 1), 1.0).mean())

    return share_right(active), share_right(found)


def found_groups(name: str, values: ArrayLike, threshold: float) -> NDArray[np.bool_]:
    """Whether all features of a group exceed ``threshold``, shape ``(n, 20)``."""
    array = finite_array(name, values, ndim=2)
    if array.shape[1] != Groups.n_arms or not len(array):
        raise InvalidInputError(
            f"{name}: expected shape (tasks, {Groups.n_arms}), got {array.shape}"
        )
    found: NDArray[np.bool_] = np.all(array.reshape(-1, N_GROUPS, GROUP_SIZE) > threshold, axis=2)
    return found
