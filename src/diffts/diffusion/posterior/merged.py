"""Evidence as noise: latent and evidence are one observation, and the denoiser answers for both."""

from __future__ import annotations

from diffts.diffusion.denoiser import Denoiser, Vector
from diffts.diffusion.observation import Observation
from diffts.diffusion.posterior.around import step_around
from diffts.diffusion.posterior.sampler import LimitedDenoiser, PosteriorSampler, ReverseStep
from diffts.evidence import Evidence
from diffts.seeding import KeyArray


class MergedSampler(PosteriorSampler):
    """Reverse steps around ``E[x_0 | x_ℓ, y]``, one pass of the denoiser each.

    No guidance, no Jacobian, no solve: the latent and the evidence are both Gaussian observations
    of ``x_0``, and a denoiser that takes a precision of each arm is given their sum (published as
    'exact posterior score', arXiv 2606.17048; here the covariance is diagonal). It is right if the
    denoiser is. The variance of a step is ``v + c0² Var[x_0^a | x_ℓ, y]``, by the denoiser's own
    account of its error in this very state; the last step draws each arm from its marginal.

    A denoiser that knows how its arms go together (the exact ones of Gaussians and mixtures) gives
    the noise their whole covariance: ``v I + c0² Cov[x_0 | x_ℓ, y]``. That is the exact law of a
    step where ``x_0`` is Gaussian, so that chains of any length are then right. With variances
    alone, a chain has to be long enough to find the covariance by many small steps.
    """

    def step(
        self, key: KeyArray, x: Vector, step: ReverseStep, denoiser: Denoiser, evidence: Evidence
    ) -> Vector:
        """One reverse step under both."""
        assert isinstance(denoiser, LimitedDenoiser)
        latent = Observation.of_latent(x, step.transition.source)
        x_0 = denoiser.given(latent.merged(Observation.of_evidence(evidence)), evidence)
        return step_around(x_0, key, x, step, evidence)
