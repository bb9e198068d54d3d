"""Diffusion priors: denoisers, samplers of posteriors, and what to build others from."""

from typing import TYPE_CHECKING

from diffts._lazy import attach

if TYPE_CHECKING:
    from diffts.diffusion.denoiser import Denoiser as Denoiser
    from diffts.diffusion.exact import Gaussian as Gaussian
    from diffts.diffusion.exact import GaussianMixture as GaussianMixture
    from diffts.diffusion.networks import NETWORKS as NETWORKS
    from diffts.diffusion.networks import Network as Network
    from diffts.diffusion.networks import build_denoiser as build_denoiser
    from diffts.diffusion.posterior import SAMPLERS as SAMPLERS
    from diffts.diffusion.posterior import MomentSampler as MomentSampler
    from diffts.diffusion.posterior import PaperSampler as PaperSampler
    from diffts.diffusion.posterior import PosteriorSampler as PosteriorSampler
    from diffts.diffusion.posterior import ReverseStep as ReverseStep
    from diffts.diffusion.prior import DiffusionPrior as DiffusionPrior
    from diffts.diffusion.schedule import Schedule as Schedule

#: The same for Python itself, by module.
_NAMES = {
    "denoiser": "Denoiser",
    "exact": "Gaussian GaussianMixture",
    "networks": "NETWORKS Network build_denoiser",
    "posterior": "SAMPLERS MomentSampler PaperSampler PosteriorSampler ReverseStep",
    "prior": "DiffusionPrior",
    "schedule": "Schedule",
}

__all__ = [name for names in _NAMES.values() for name in names.split()]
if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__, _NAMES)
