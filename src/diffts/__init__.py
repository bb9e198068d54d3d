"""Thompson sampling with a learned diffusion prior.

>>> import diffts
>>> prior = diffts.DiffusionPrior.gaussian(mean=[0.5, 0.5], covariance=[[0.04, 0.03], [0.03, 0.04]])
>>> evidence = diffts.Evidence.from_history([0, 0], [0.9, 0.8], n_arms=2, noise_std=0.1)
>>> draws = prior.posterior_sample(evidence, n=1000, sampler="moment", seed=0)
>>> draws.shape
(1000, 2)
"""

from diffts._version import __version__
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
    learn_prior_imperfect,
    train_clean,
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
    "learn_prior_imperfect",
    "train_clean",
]
