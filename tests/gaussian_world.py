"""A small Gaussian world, and what is observed of its tasks."""

import numpy as np

from diffts.problems import Corruption

LOADINGS = np.array([[1.0, 0.0], [0.9, 0.3], [0.0, 1.0], [-0.5, 0.8], [0.6, 0.6], [0.2, -0.9]])
MEAN = np.array([2.0, 3.0, 2.5, 2.0, 3.5, 2.2])
COVARIANCE = LOADINGS @ LOADINGS.T + 0.1 * np.eye(6)


def gaussian_tasks(n, seed=0):
    return np.random.default_rng(seed).multivariate_normal(MEAN, COVARIANCE, n)


def observed(tasks, missing=0.5, noise=0.4, seed=1):
    return Corruption(missing, noise).observe(tasks, seed)
