"""Fitting the baselines' priors: a Gaussian and a Gaussian mixture, from the same data."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike

from diffts.diffusion.exact import Gaussian, GaussianMixture
from diffts.errors import InvalidInputError
from diffts.seeding import Seed, as_generator
from diffts.validation import finite_array, whole_number


def fit_gaussian(tasks: ArrayLike) -> Gaussian:
    """Mean and covariance of exact mean rewards ``(N, K)``."""
    data = finite_array("tasks", tasks, ndim=2)
    if len(data) < 2:
        raise InvalidInputError(f"tasks: expected at least 2 tasks, got {len(data)}")
    return Gaussian(data.mean(0), np.atleast_2d(np.cov(data.T)))


def fit_mixture(tasks: ArrayLike, components: int, seed: Seed = 0) -> GaussianMixture:
    """A full-covariance Gaussian mixture by EM (scikit-learn), from k-means' clusters.

    ``components`` is lowered to the number of tasks where there are fewer of those. Covariances
    are regularised by 1e-6 of the data's variance, relative, so that any units will do.
    """
    # Imported here: it takes half a second, and only the mixture needs it.
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture as Fit

    data = finite_array("tasks", tasks, ndim=2)
    components = min(whole_number("components", components, 1), len(data))
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
