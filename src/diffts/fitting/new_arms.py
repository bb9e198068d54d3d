"""What new arms are like: the law of arms over arms, from those that a log has seen.

The mean reward of arm a in task i, and what the log says of it, are taken to be

``M_a ~ N(m, between²)``, ``μ_ia ~ N(M_a, within²)``, ``y_ia ~ N(μ_ia, σ²/n_ia)``.

A new arm is one more draw of ``M`` and ``μ``. Arms of one task are taken as independent: that
matters little to what an arm is like by itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffts.errors import InvalidInputError
from diffts.fitting.fitted import NewArms
from diffts.validation import finite_array, float_array

#: Standard deviations that are tried out, of each kind.
_POINTS = 40
#: The largest of them, in spreads of the log's entries; and the least, in the largest.
_LARGEST, _LEAST = 3.0, 1e-3


def estimate_new_arms(counts: ArrayLike, means: ArrayLike, noise_std: ArrayLike) -> NewArms:
    """The law of arms over arms, as wide as the log leaves it.

    ``between²`` and ``within²`` are posterior means: every standard deviation from 0 to three times
    the spread of the entries is as likely as any other at first, and ``m`` is any number. So where
    few arms or tasks tell little, the law is wide, and a new arm is tried; where many do, it is
    what restricted maximum likelihood gives. What is not known of ``m`` counts as ``between``.

    Args:
        counts: rewards of each task and arm, ``(N, K)``; 0 where there are none.
        means: their means, ``(N, K)``; not read where there are none.
        noise_std: of one reward; a number, or one for each arm, ``(K,)``.

    >>> rng = np.random.default_rng(0)
    >>> arms = 0.5 + 0.2 * rng.standard_normal(500)
    >>> entries = arms + 0.1 * rng.standard_normal((40, 500))
    >>> law = estimate_new_arms(np.ones((40, 500)), entries, noise_std=1e-3)
    >>> [round(number, 2) for number in law]
    [0.5, 0.2, 0.1]
    """
    counted = float_array("counts", counts, ndim=2)
    seen = counted > 0
    if not seen.any():
        raise InvalidInputError("counts: no rewards at all")
    values = float_array("means", means, ndim=2)
    if values.shape != counted.shape:
        raise InvalidInputError(f"means: expected shape {counted.shape}, got {values.shape}")
    finite_array("means", values[seen])
    noise = np.broadcast_to(finite_array("noise_std", noise_std), counted.shape[1:])
    if not (noise > 0).all():
        raise InvalidInputError(f"noise_std: must be above 0, got {noise.min():g}")

    centre = float(values[seen].mean())
    entries = _Entries(counted, np.where(seen, values - centre, 0.0), noise)
    largest = _LARGEST * entries.spread
    grids = [np.geomspace(_LEAST * largest, largest, _POINTS)] * 2
    for _ in range(3):
        weights, mean, mean_variance = _posterior(entries, *grids)
        grids = [_around(grid, weights.sum(axis)) for grid, axis in zip(grids, (1, 0), strict=True)]
    weights, mean, mean_variance = _posterior(entries, *grids)
    overall = float((weights * mean).sum())
    unsure = float((weights * (mean_variance + (mean - overall) ** 2)).sum())
    between, within = (
        float(weights.sum(axis) @ grid**2) for grid, axis in zip(grids, (1, 0), strict=True)
    )
    return NewArms(centre + overall, float(np.sqrt(between + unsure)), float(np.sqrt(within)))


class _Entries:
    """The entries of a log that have the same number of rewards, arm by arm.

    Attributes:
        variance: ``σ²/n`` of an entry, ``(U, K)``, of each of U numbers of rewards.
        tasks: how many entries have it, ``(U, K)``.
        sums: sum of their means.
        squares: sum of the squares of these.
        spread: root of the variance of all entries, or of their noise if that is more.
    """

    def __init__(
        self, counts: NDArray[np.float64], values: NDArray[np.float64], noise: NDArray[np.float64]
    ) -> None:
        numbers, index = np.unique(counts, return_inverse=True)
        shape = (len(numbers), counts.shape[1])
        place = (index.reshape(counts.shape) * shape[1] + np.arange(shape[1])).ravel()
        size = shape[0] * shape[1]
        rewarded = numbers > 0

        def total(weights: NDArray[np.float64]) -> NDArray[np.float64]:
            summed = np.bincount(place, weights.ravel(), size).astype(np.float64)
            return summed.reshape(shape)[rewarded]

        self.tasks, self.sums = total(np.ones_like(values)), total(values)
        self.squares = total(values**2)
        self.variance = noise**2 / numbers[rewarded][:, None]
        entries = self.tasks.sum()
        noise_share = float((self.tasks * self.variance).sum() / entries)
        variance = float(self.squares.sum() / entries - (self.sums.sum() / entries) ** 2)
        self.spread = float(np.sqrt(max(variance, noise_share)))


def _posterior(
    entries: _Entries, between: NDArray[np.float64], within: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Weights of pairs ``(B, W)``, and the mean and variance of ``m`` given each.

    With ``w = 1/(within² + σ²/n)``, ``W_a = Σ w`` and ``ȳ_a = Σ w y / W_a`` of an arm, and
    ``V_a = between² + 1/W_a``, twice the logarithm of the likelihood, ``m`` integrated out, is

    ``Σ log w - Σ w (y - ȳ_a)² - Σ_a [log W_a + log V_a + (ȳ_a - m̂)²/V_a] - log Σ_a 1/V_a``.
    """
    likelihood = np.empty((len(between), len(within)))
    mean, variance = np.empty_like(likelihood), np.empty_like(likelihood)
    arms = entries.tasks.sum(0) > 0
    for column, std in enumerate(within):
        w = 1.0 / (std**2 + entries.variance)
        W = (w * entries.tasks).sum(0)[arms]
        y = (w * entries.sums).sum(0)[arms] / W
        rest = (w * entries.squares).sum(0)[arms] - W * y**2
        of_arms = (entries.tasks * np.log(w)).sum() - rest.sum() - np.log(W).sum()
        V = between[:, None] ** 2 + 1.0 / W  # (B, K)
        precision = (1.0 / V).sum(1)
        centre = (y / V).sum(1) / precision
        over_arms = (np.log(V) + (y - centre[:, None]) ** 2 / V).sum(1)
        likelihood[:, column] = 0.5 * (of_arms - over_arms - np.log(precision))
        mean[:, column], variance[:, column] = centre, 1.0 / precision
    # A flat density in the standard deviations: a point stands for what lies around it.
    width = np.gradient(between)[:, None] * np.gradient(within)
    weights = np.exp(likelihood - likelihood.max()) * width
    return weights / weights.sum(), mean, variance


def _around(grid: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """A finer grid over what has weight."""
    (heavy,) = np.nonzero(weights > 1e-5 * weights.max())
    first, last = max(heavy[0] - 1, 0), min(heavy[-1] + 1, len(grid) - 1)
    return np.geomspace(grid[first], grid[last], _POINTS)
