"""Fitting a Gaussian to past tasks: exact means (arrays), or incomplete, noisy ones (Evidence)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffts.diffusion.exact import Gaussian
from diffts.errors import InvalidInputError
from diffts.evidence import Evidence
from diffts.validation import finite_array


def fit_gaussian(past: ArrayLike | Evidence, floor: float = 1e-4) -> Gaussian:
    """Mean and covariance of past tasks ``(N, K)``.

    From evidence as in the paper: moments of pairs observed together, and eigenvalues of at least
    ``floor``.
    """
    if isinstance(past, Evidence):
        mean, covariance = pairwise_moments(past)
        eigenvalues, basis = np.linalg.eigh(covariance)
        return Gaussian(mean, (basis * np.maximum(eigenvalues, floor)) @ basis.T)
    data = finite_array("past", past, ndim=2)
    if len(data) < 2:
        raise InvalidInputError(f"past: expected at least 2 tasks, got {len(data)}")
    return Gaussian(data.mean(0), np.atleast_2d(np.cov(data.T)))


def fit_diagonal(past: ArrayLike | Evidence) -> Gaussian:
    """A Gaussian of independent arms; from evidence with variances of at least 0."""
    if isinstance(past, Evidence):
        mean, covariance = pairwise_moments(past)
    else:
        mean, covariance = (fitted := fit_gaussian(past)).mean, fitted.covariance
    return Gaussian(mean, np.diag(np.maximum(np.diag(covariance), 0.0)))


def pairwise_moments(evidence: Evidence) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means over observed entries; covariances over pairs observed together, minus the noise.

    ``(K,)`` and ``(K, K)``; the matrix need not be positive. An arm that nobody observed gets the
    overall mean and the mean variance; a pair never observed together gets no covariance.
    """
    mask = np.asarray(evidence.mask, np.float64)
    if mask.ndim != 2 or not mask.any():
        raise InvalidInputError("evidence: expected tasks (N, K) with at least one observation")
    y, std = np.asarray(evidence.mean, np.float64), np.asarray(evidence.std, np.float64)
    count = mask.sum(0)
    seen = count > 0
    overall = float((mask * y).sum() / mask.sum())
    mean = np.where(seen, (mask * y).sum(0) / np.maximum(count, 1), overall)
    residual = mask * (y - mean)
    together = mask.T @ mask
    covariance = np.where(together > 0, residual.T @ residual / np.maximum(together, 1), 0.0)
    noise = (mask * std**2).sum(0) / np.maximum(count, 1)
    covariance[np.diag_indices_from(covariance)] -= noise
    if not seen.all():
        typical = max(float(np.diag(covariance)[seen].mean()), 0.0)
        unseen = np.flatnonzero(~seen)
        covariance[unseen, unseen] = typical
    return mean, covariance
