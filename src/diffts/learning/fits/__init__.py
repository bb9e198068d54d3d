"""Priors with exact posteriors, fitted to past tasks: exact means (arrays) or ``Evidence``."""

from diffts.learning.fits.factor import FactorFit, fit_factor_gaussian
from diffts.learning.fits.gaussian import fit_diagonal, fit_gaussian
from diffts.learning.fits.mixture import fit_mixture
from diffts.learning.fits.weighted import fit_independent, weighted_moments

__all__ = [
    "FactorFit",
    "fit_diagonal",
    "fit_factor_gaussian",
    "fit_gaussian",
    "fit_independent",
    "fit_mixture",
    "weighted_moments",
]
