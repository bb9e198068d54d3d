"""20 Groups: does a posterior draw complete half-hidden tasks as the prior demands?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from diffts.diffusion.prior import DiffusionPrior
from diffts.problems.groups import hide, recall_precision
from diffts.problems.problem import Tasks

#: The paper's two: observations diffused with predicted noise, and with sampled noise.
DEFAULT_SAMPLERS = ("paper", "paper-sampled-noise")


class Completion(NamedTuple):
    """Recall and precision of the groups that a sampler's draws found."""

    sampler: str
    recall: float
    precision: float


def measure_groups(
    prior: DiffusionPrior,
    tasks: Tasks,
    samplers: Sequence[str] = DEFAULT_SAMPLERS,
    seed: int = 0,
    missing: float = 0.5,
) -> list[Completion]:
    """Hide entries of each task with probability ``missing``, and draw one completion of it."""
    evidence = hide(tasks, seed=seed + 1, missing=missing)
    return [
        Completion(
            sampler,
            *recall_precision(tasks, prior.posterior_sample(evidence, sampler=sampler, seed=seed)),
        )
        for sampler in samplers
    ]
