"""A score of a prior that needs no exact data: how well it predicts observations kept from it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool
from numpy.typing import NDArray

from diffts.diffusion.posterior import PosteriorSampler
from diffts.diffusion.prior import DiffusionPrior
from diffts.errors import InvalidInputError
from diffts.evidence import Evidence
from diffts.seeding import Seed, as_generator
from diffts.validation import whole_number


class Score(NamedTuple):
    """How well hidden observations were predicted; smaller is better, in the evidence's units.

    Attributes:
        crps: continuous ranked probability score of the predictive distribution. It is proper:
            in expectation no other prediction beats the true posterior predictive.
        rmse: error of the posterior mean, with the observations' own noise taken out.
        stderr: standard error of ``crps``, from task to task.
    """

    crps: float
    rmse: float
    stderr: float


class HeldOut(NamedTuple):
    """Tasks ``(N, K)``, some of whose observations are to be predicted from the others."""

    evidence: Evidence
    hidden: Bool[np.ndarray, "N K"]

    @property
    def shown(self) -> Evidence:
        """What is left to predict from."""
        mask = np.asarray(self.evidence.mask) & ~self.hidden
        return Evidence(self.evidence.mean, self.evidence.std, mask)


def hide(evidence: Evidence, share: float = 0.2, seed: Seed = 0) -> HeldOut:
    """Hide a random share of the observations of each task."""
    if not 0 < share < 1:
        raise InvalidInputError(f"share: must be between 0 and 1, got {share}")
    mask = np.asarray(evidence.mask)
    hidden = mask & (as_generator(seed).random(mask.shape) < share)
    if not hidden.any():
        raise InvalidInputError("evidence: too few observations to hide some of them")
    return HeldOut(evidence, hidden)


def score(
    prior: DiffusionPrior,
    held_out: HeldOut,
    *,
    sampler: str | PosteriorSampler = "moment-damped",
    steps: int = 20,
    draws: int = 4,
    seed: Seed = 0,
) -> Score:
    """Draw each task given its shown observations, and compare with the hidden ones.

    ``seed`` is that of the draws and of the noise added to them.
    """
    draws = whole_number("draws", draws, 2)
    generator = as_generator(seed)
    steps = min(steps, prior.schedule.n_steps)
    all_draws = prior.posterior_sample(
        held_out.shown, n=draws, sampler=sampler, steps=steps, seed=generator
    )
    x = np.asarray(all_draws, np.float64)[:, held_out.hidden]
    y = np.asarray(held_out.evidence.mean, np.float64)[held_out.hidden]
    std = np.asarray(held_out.evidence.std, np.float64)[held_out.hidden]
    predicted = x + std * generator.standard_normal(x.shape)
    entries = crps_of_draws(predicted, y)
    # The mean of the draws misses the posterior mean by their variance over their number.
    squared = (x.mean(0) - y) ** 2 - std**2 - x.var(0, ddof=1) / draws
    rmse = float(np.sqrt(max(squared.mean(), 0.0)))
    return Score(float(entries.mean()), rmse, _stderr(entries, np.nonzero(held_out.hidden)[0]))


def crps_of_draws(predicted: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """``E|x - y| - E|x - x'| / 2`` of each column of draws ``(n, E)``, without bias."""
    return np.abs(predicted - y).mean(0) - 0.5 * _mean_distance(predicted)


def _stderr(entries: NDArray[np.float64], task: NDArray[np.int64]) -> float:
    """Standard error of the mean of entries that are independent between tasks, not within."""
    deviation = np.bincount(task, weights=entries - entries.mean())
    return float(np.sqrt((deviation**2).sum()) / len(entries))


def _mean_distance(draws: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean ``|a - b|`` over pairs of different draws, column by column: from the sorted draws."""
    n = len(draws)
    ordered = np.sort(draws, axis=0)
    weights = 2 * np.arange(1, n + 1) - n - 1
    distance: NDArray[np.float64] = 2 * (weights @ ordered) / (n * (n - 1))
    return distance
