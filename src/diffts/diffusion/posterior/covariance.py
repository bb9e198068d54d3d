"""The data's own covariance says how evidence about one arm moves the others."""

from __future__ import annotations

import jax.numpy as jnp

from diffts.diffusion.denoiser import Denoiser, Vector
from diffts.diffusion.observation import Marginals, Observation
from diffts.diffusion.posterior.around import step_around
from diffts.diffusion.posterior.sampler import LimitedDenoiser, PosteriorSampler, ReverseStep
from diffts.evidence import Evidence
from diffts.seeding import KeyArray


class CovarianceSampler(PosteriorSampler):
    """Reverse steps around ``x̂_0 + C_y P (y - x̂_0)``, with ``C_y = (Σ⁻¹ + s I + P)⁻¹``.

    ``Σ`` is the covariance of the prior, ``s = ᾱ/(1-ᾱ)`` the precision of the latent and ``P`` that
    of the evidence. In the words of 'moment': ``C = (Σ⁻¹ + s I)⁻¹`` takes the place of the
    Jacobian, so that a step takes one pass of the denoiser and one solve. It is exact for
    Gaussians, at any length of the chain. Elsewhere ``x̂_0`` knows the prior and ``C`` only its
    covariance: it cannot know that an arm is certain in one state and open in another.
    """

    def step(
        self, key: KeyArray, x: Vector, step: ReverseStep, denoiser: Denoiser, evidence: Evidence
    ) -> Vector:
        """One reverse step under both."""
        assert isinstance(denoiser, LimitedDenoiser)
        source = step.transition.source
        x0_hat = denoiser(x, source)
        seen = Observation.of_evidence(evidence)
        push = seen.precision * jnp.where(evidence.mask, seen.mean - x0_hat, 0.0)
        moved = denoiser.of_gaussian(push, seen.precision + (source.signal / source.noise) ** 2)
        x_0 = Marginals(x0_hat + moved.mean, moved.std, joint=moved.joint)
        return step_around(x_0, key, x, step, evidence)
