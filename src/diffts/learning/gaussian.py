"""Fitting the baselines' priors: a Gaussian and a Gaussian mixture, from the same data.

Exact mean rewards come as arrays, incomplete and noisy ones as :class:`Evidence`.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffts.diffusion.exact import Gaussian, GaussianMixture
from diffts.errors import InvalidInputError
from diffts.evidence import Evidence
from diffts.extras import optional
from diffts.seeding import Seed, as_generator
from diffts.validation import finite_array, whole_number


def fit_gaussian(tasks: ArrayLike) -> Gaussian:
    """Mean and covariance of exact mean rewards ``(N, K)``."""
    data = finite_array("tasks", tasks, ndim=2)
    if len(data) < 2:
        raise InvalidInputError(f"tasks: expected at least 2 tasks, got {len(data)}")
    return Gaussian(data.mean(0), np.atleast_2d(np.cov(data.T)))


def pairwise_moments(
    evidence: Evidence,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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


def fit_gaussian_imperfect(evidence: Evidence, floor: float = 1e-4) -> Gaussian:
    """The paper's full Gaussian from imperfect data: eigenvalues of at least ``floor``."""
    mean, covariance = pairwise_moments(evidence)
    eigenvalues, basis = np.linalg.eigh(covariance)
    return Gaussian(mean, (basis * np.maximum(eigenvalues, floor)) @ basis.T)


def fit_diagonal_imperfect(evidence: Evidence) -> Gaussian:
    """The paper's diagonal Gaussian from imperfect data: variances of at least 0."""
    mean, covariance = pairwise_moments(evidence)
    return Gaussian(mean, np.diag(np.maximum(np.diag(covariance), 0.0)))


def fit_mixture(tasks: ArrayLike, components: int, seed: Seed = 0) -> GaussianMixture:
    """A full-covariance Gaussian mixture by EM (scikit-learn), from k-means' clusters.

    Covariances are regularised by 1e-6 of the data's variance, relative, so that any units will
    do.
    """
    ConvergenceWarning = optional("sklearn.exceptions", "fitting a mixture").ConvergenceWarning
    Fit = optional("sklearn.mixture", "fitting a mixture").GaussianMixture
    data = finite_array("tasks", tasks, ndim=2)
    components = whole_number("components", components, 1)
    if components > len(data):
        raise InvalidInputError(f"components: {components} of a mixture, from {len(data)} tasks")
    fit = Fit(
        components,
        covariance_type="full",
        reg_covar=1e-6 * float(data.var()) + 1e-12,
        max_iter=100,
        random_state=int(as_generator(seed).integers(2**31)),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 100 steps are enough for a prior
        fit.fit(data)
    return GaussianMixture(fit.weights_ / fit.weights_.sum(), fit.means_, fit.covariances_)
