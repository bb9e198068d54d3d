"""How well a law predicts what was kept from it: entries of tasks it was not fitted to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import norm

from diffts.fitting.candidates import posterior_draws
from diffts.fitting.fitted import Law
from diffts.learning.held_out import HeldOut, crps_of_draws
from diffts.seeding import as_generator

#: Draws of each task that predictions are made of.
DRAWS = 100
LEVELS = (0.5, 0.9)


@dataclass(frozen=True)
class Prediction:
    """Scores of a law, task by task, so that two laws can be compared task by task.

    Attributes:
        crps: of each task, the mean over its hidden entries; smaller is better ``(N,)``.
        log_score: likewise the log density of what was hidden; larger is better ``(N,)``.
        coverage: share of hidden entries within the central interval of each level.
    """

    crps: NDArray[np.float64]
    log_score: NDArray[np.float64]
    coverage: dict[str, float]


def predict(law: Law, held_out: HeldOut, seed: int = 0) -> Prediction:
    """Draw each task given what is shown of it, and compare with what is hidden.

    With draws ``θ^1 … θ^M`` and an entry's own error ``σ``, the predictive law of the entry ``y``
    is ``mean_m N(θ^m, σ²)``: its density is the log score.
    """
    # An exact entry would have a density only where a draw hits it.
    hidden = held_out.hidden
    drawn = posterior_draws(law, held_out.shown, DRAWS, seed)[:, hidden]
    y = np.asarray(held_out.evidence.mean, np.float64)[hidden]
    std = np.asarray(held_out.evidence.std, np.float64)[hidden]
    std = np.maximum(std, 1e-3 * max(float(drawn.std()), 1e-12))
    noise = as_generator(seed).standard_normal(drawn.shape)
    predicted = drawn + std * noise
    log_density = logsumexp(norm.logpdf(y, drawn, std), axis=0) - np.log(len(drawn))
    low, high = ((1 - np.array(LEVELS)) / 2)[:, None], ((1 + np.array(LEVELS)) / 2)[:, None]
    rank = (predicted < y).mean(0)
    inside = (rank >= low) & (rank <= high)
    task = np.nonzero(hidden)[0]
    return Prediction(
        crps=_by_task(crps_of_draws(predicted, y), task),
        log_score=_by_task(log_density, task),
        coverage={str(level): float(x.mean()) for level, x in zip(LEVELS, inside, strict=True)},
    )


def _by_task(entries: NDArray[np.float64], task: NDArray[np.int64]) -> NDArray[np.float64]:
    """Means over the entries of each task that has any."""
    counts = np.bincount(task)
    sums = np.bincount(task, weights=entries)
    return sums[counts > 0] / counts[counts > 0]


def mean_and_error(values: NDArray[np.float64]) -> tuple[float, float]:
    """A mean over tasks and its standard error."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.inf
    return float(values.mean()), float(error)
