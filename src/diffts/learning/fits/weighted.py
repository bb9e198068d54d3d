"""Moments of tasks that are not all known equally well: each entry weighs as much as it tells.

Entry ``y_i^a = x_i^a + N(0, s_ia²)`` of task ``i`` and arm ``a``, with ``x^a ~ N(m^a, t^a)``, has
the weight ``w_ia = 1/(t^a + s_ia²)``; the likelihood is largest where

``m^a = Σ_i w y / Σ_i w``, ``t^a = Σ_i w² ((y - m^a)² - s²) / Σ_i w²``,

but for ``t^a`` the weights have one ``t`` for all arms. A pair that was shown once then tells
little of how tasks differ, whatever came of it. Where all entries are known equally well, these are
the plain moments.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffts.diffusion.exact import Gaussian
from diffts.errors import InvalidInputError
from diffts.evidence import Evidence

ITERATIONS = 20
#: No spread of an arm counts as less than this share of all spread: nothing is known for sure.
LEAST_SHARE = 1e-6

Array = NDArray[np.float64]


class Moments(NamedTuple):
    """Of each arm ``(K,)``, and the weights ``(N, K)`` they were found with, 0 where unobserved.

    Attributes:
        mean: ``m``; of an arm that nobody observed, the mean of all.
        variance: ``t``, drawn towards that of all arms where an arm tells little of it.
        weights: ``w``.
    """

    mean: Array
    variance: Array
    weights: Array


def weighted_moments(evidence: Evidence) -> Moments:
    """Means and variances by turns, from a first guess.

    The variance of an arm has a standard error of ``(2 / Σ w²)^½``. It is thought to lie around
    that of all arms, give or take the larger of both. So an arm with many tasks keeps its own, and
    one whose own is lost in the noise gets the common one.
    """
    y, noise, mask = _entries(evidence)
    seen = mask.any(0)
    centre = (mask * y).sum() / mask.sum()
    total = max(float((mask * (y - centre) ** 2).sum() / mask.sum()), 1e-30)
    least = LEAST_SHARE * total
    known = np.maximum(noise, least)
    common, variance = total, np.full(mask.shape[1], total)
    for _ in range(ITERATIONS):
        weights = mask / (variance + known)
        mean = np.where(seen, (weights * y).sum(0) / np.where(seen, weights.sum(0), 1.0), centre)
        excess = (y - mean) ** 2 - noise
        # By the common spread: with its own, an arm that hardly differs would speak for all, and
        # one lucky entry would make its arm's spread large, and so weigh more itself.
        alike = (mask / (common + known)) ** 2
        own, told = (alike * excess).sum(0), alike.sum(0)
        common = max(float(own.sum() / told.sum()), least)
        prior = 2.0 / np.maximum(variance, common) ** 2
        variance = np.maximum((own + prior * common) / (told + prior), least)
    return Moments(mean, variance, mask / (variance + known))


def weighted_covariance(evidence: Evidence, moments: Moments) -> Array:
    """Covariances over pairs observed together, weighted, less the noise ``(K, K)``.

    ``Σ_i w_ia w_ib (y_ia - m^a)(y_ib - m^b) / Σ_i w_ia w_ib``; it need not be positive.
    """
    y, _, mask = _entries(evidence)
    weights = moments.weights
    residual = mask * weights * (y - moments.mean)
    together = weights.T @ weights
    some = together > 0
    found = np.where(some, residual.T @ residual / np.where(some, together, 1.0), 0.0)
    np.fill_diagonal(found, moments.variance)
    return found


def fit_independent(evidence: Evidence) -> Gaussian:
    """A Gaussian of independent arms, from entries of any precision.

    An arm's mean is itself known only to ``1 / Σ w``, which is a part of the spread; an arm that
    nobody observed may be anything that arms are.
    """
    mean, variance, weights = weighted_moments(evidence)
    seen = weights.any(0)
    unknown = np.full(len(mean), mean[seen].var())
    unknown[seen] = 1.0 / weights.sum(0)[seen]
    return Gaussian(mean, np.diag(variance + unknown))


def _entries(evidence: Evidence) -> tuple[Array, Array, Array]:
    """Values (0 where unobserved), noise variances and mask, in float64."""
    mask = np.asarray(evidence.mask, np.float64)
    if mask.ndim != 2 or not mask.any():
        raise InvalidInputError("evidence: expected tasks (N, K) with at least one observation")
    y, std = np.asarray(evidence.mean, np.float64), np.asarray(evidence.std, np.float64)
    return np.where(mask > 0, y, 0.0), np.where(mask > 0, std, 0.0) ** 2, mask
