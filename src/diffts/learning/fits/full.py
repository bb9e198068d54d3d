"""A Gaussian of full covariance, from exact means or from incomplete, noisy ones.

A factor Gaussian has few numbers, and misses what only neighbours share: on mazes, where each wall
tells of those beside it, its regret is half again that of the full covariance. From imperfect data
the covariance of pairs is the start of EM, and a factor Gaussian what EM is drawn towards.
"""

from __future__ import annotations

import numpy as np

from diffts.diffusion.exact import Gaussian, GaussianMixture
from diffts.evidence import Evidence
from diffts.learning.fits.factor import fit_factor_gaussian
from diffts.learning.fits.gaussian import fit_gaussian
from diffts.learning.fits.mixture import fit_by_em

ITERATIONS = 10


def fit_full_gaussian(evidence: Evidence, held_out: Evidence) -> Gaussian:
    """The likeliest Gaussian of tasks ``(N, K)``; ``held_out`` tells the factor Gaussian's rank.

    From exact means the sample covariance. Else EM for a mixture of one component, whose conjugate
    prior is worth K tasks.
    """
    if bool(np.all(evidence.mask)) and not np.any(evidence.std):
        return fit_gaussian(np.asarray(evidence.mean))
    towards = fit_factor_gaussian(evidence, held_out).gaussian
    start = fit_gaussian(evidence)
    single = GaussianMixture(np.ones(1), start.mean[None], start.covariance[None])
    fitted = fit_by_em(evidence, single, towards=towards, iterations=ITERATIONS)
    return Gaussian(fitted.means[0], fitted.covariances[0])
