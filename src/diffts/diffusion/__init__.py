"""Diffusion priors: denoisers, samplers of posteriors, and what to build others from."""

from diffts.diffusion.denoiser import Denoiser
from diffts.diffusion.exact import Gaussian, GaussianMixture
from diffts.diffusion.networks import NETWORKS, Network, build_denoiser
from diffts.diffusion.posterior import (
    SAMPLERS,
    MomentSampler,
    PaperSampler,
    PosteriorSampler,
    ReverseStep,
)
from diffts.diffusion.prior import DiffusionPrior
from diffts.diffusion.schedule import Schedule

__all__ = [
    "NETWORKS",
    "SAMPLERS",
    "Denoiser",
    "DiffusionPrior",
    "Gaussian",
    "GaussianMixture",
    "MomentSampler",
    "Network",
    "PaperSampler",
    "PosteriorSampler",
    "ReverseStep",
    "Schedule",
    "build_denoiser",
]
