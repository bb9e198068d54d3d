"""Posterior samplers, one file each, looked up by name here and nowhere else."""

from __future__ import annotations

from diffts.diffusion.posterior.covariance import CovarianceSampler
from diffts.diffusion.posterior.dps import DPSSampler
from diffts.diffusion.posterior.merged import MergedSampler
from diffts.diffusion.posterior.merged_late import LateMergedSampler
from diffts.diffusion.posterior.moment import MomentSampler
from diffts.diffusion.posterior.paper import PaperSampler
from diffts.diffusion.posterior.sampler import (
    VARIANCE_MODES,
    PosteriorSampler,
    ReverseStep,
    draw,
    limited_step,
    reverse_steps,
)
from diffts.validation import one_of

SAMPLERS: dict[str, PosteriorSampler] = {
    "paper": PaperSampler(),
    "paper-sampled-noise": PaperSampler(noise="sampled"),
    "moment": MomentSampler(),
    "moment-diagonal": MomentSampler(iterations=0),
    "moment-learned": MomentSampler(iterations=0, residual=True),
    "moment-damped": MomentSampler(iterations=0, residual=True, damped=True),
    "merged": MergedSampler(),
    "merged-late": LateMergedSampler(),
    "covariance": CovarianceSampler(),
    "dps": DPSSampler(),
}
#: Shipped to compare with. They do not give exact observations back, as every other one does.
REFERENCES = ("dps",)
#: For denoisers that know more than an estimate of each arm; others refuse them.
ASK_FOR_MORE = ("merged", "merged-late", "covariance")


def as_sampler(sampler: str | PosteriorSampler) -> PosteriorSampler:
    """A sampler by its name, or the sampler itself."""
    if isinstance(sampler, PosteriorSampler):
        return sampler
    return SAMPLERS[one_of("sampler", sampler, SAMPLERS)]


__all__ = [
    "ASK_FOR_MORE",
    "REFERENCES",
    "SAMPLERS",
    "VARIANCE_MODES",
    "CovarianceSampler",
    "DPSSampler",
    "LateMergedSampler",
    "MergedSampler",
    "MomentSampler",
    "PaperSampler",
    "PosteriorSampler",
    "ReverseStep",
    "as_sampler",
    "draw",
    "limited_step",
    "reverse_steps",
]
