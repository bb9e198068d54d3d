"""Thompson sampling with a learned diffusion prior.

>>> import diffts
>>> prior = diffts.DiffusionPrior.gaussian(mean=[0.5, 0.5], covariance=[[0.04, 0.03], [0.03, 0.04]])
>>> evidence = diffts.Evidence.from_history([0, 0], [0.9, 0.8], n_arms=2, noise_std=0.1)
>>> draws = prior.posterior_sample(evidence, n=1000, sampler="moment", seed=0)
>>> draws.shape
(1000, 2)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from diffts._version import __version__

if TYPE_CHECKING:
    from diffts.bandits.agent import Agent, ThompsonSampling
    from diffts.diffusion.denoiser import Denoiser
    from diffts.diffusion.exact import Gaussian, GaussianMixture
    from diffts.diffusion.networks import NETWORKS, build_denoiser
    from diffts.diffusion.posterior import SAMPLERS, MomentSampler, PaperSampler, PosteriorSampler
    from diffts.diffusion.prior import DiffusionPrior
    from diffts.diffusion.schedule import Schedule
    from diffts.errors import ArtifactError, DifftsError, InvalidInputError
    from diffts.evidence import Evidence
    from diffts.learning import (
        PROCEDURES,
        Procedure,
        TrainingConfig,
        calibrate,
        calibrate_imperfect,
        choose_sure,
        learn_prior,
    )

__all__ = [
    "NETWORKS",
    "PROCEDURES",
    "SAMPLERS",
    "Agent",
    "ArtifactError",
    "Denoiser",
    "DifftsError",
    "DiffusionPrior",
    "Evidence",
    "Gaussian",
    "GaussianMixture",
    "InvalidInputError",
    "MomentSampler",
    "PaperSampler",
    "PosteriorSampler",
    "Procedure",
    "Schedule",
    "ThompsonSampling",
    "TrainingConfig",
    "__version__",
    "build_denoiser",
    "calibrate",
    "calibrate_imperfect",
    "choose_sure",
    "learn_prior",
]

#: Where each name comes from. It is imported when first used: the command line must be able to
#: take a Ctrl-C before JAX is loaded, and a program that needs one part does not wait for all.
_FROM = {
    "diffts.bandits.agent": (
        "Agent",
        "ThompsonSampling",
    ),
    "diffts.diffusion.denoiser": ("Denoiser",),
    "diffts.diffusion.exact": (
        "Gaussian",
        "GaussianMixture",
    ),
    "diffts.diffusion.networks": (
        "NETWORKS",
        "build_denoiser",
    ),
    "diffts.diffusion.posterior": (
        "SAMPLERS",
        "MomentSampler",
        "PaperSampler",
        "PosteriorSampler",
    ),
    "diffts.diffusion.prior": ("DiffusionPrior",),
    "diffts.diffusion.schedule": ("Schedule",),
    "diffts.errors": (
        "ArtifactError",
        "DifftsError",
        "InvalidInputError",
    ),
    "diffts.evidence": ("Evidence",),
    "diffts.learning": (
        "PROCEDURES",
        "Procedure",
        "TrainingConfig",
        "calibrate",
        "calibrate_imperfect",
        "choose_sure",
        "learn_prior",
    ),
}
_MODULE_OF = {name: module for module, names in _FROM.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name, or a part of the package, when it is first asked for."""
    if name in _MODULE_OF:
        value = getattr(importlib.import_module(_MODULE_OF[name]), name)
        globals()[name] = value
        return value
    if not name.startswith("_"):
        try:
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Public names, loaded or not."""
    return sorted({*globals(), *__all__})
