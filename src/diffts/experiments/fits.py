"""The baselines' priors from either kind of data: exact means ``(N, K)``, or evidence.

``diffts.learning.fits`` will have these three; then this file goes.
"""

from __future__ import annotations

from typing import Any

from diffts.diffusion.exact import Gaussian, GaussianMixture
from diffts.evidence import Evidence
from diffts.learning import gaussian, mixture_em


def fit_gaussian(past: Any) -> Gaussian:
    """A Gaussian."""
    imperfect = isinstance(past, Evidence)
    return gaussian.fit_gaussian_imperfect(past) if imperfect else gaussian.fit_gaussian(past)


def fit_diagonal(past: Any) -> Gaussian:
    """A Gaussian of independent arms (of exact means: of arms that are treated so)."""
    imperfect = isinstance(past, Evidence)
    return gaussian.fit_diagonal_imperfect(past) if imperfect else gaussian.fit_gaussian(past)


def fit_mixture(past: Any, components: int, seed: int) -> GaussianMixture:
    """A Gaussian mixture."""
    if isinstance(past, Evidence):
        return mixture_em.fit_mixture_imperfect(past, components, seed=seed)
    return gaussian.fit_mixture(past, components, seed=seed)
