"""Diffusion posterior sampling (Chung et al. 2023): a reference to compare our samplers with."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from diffts.diffusion.denoiser import Denoiser, Vector
from diffts.diffusion.posterior.sampler import PosteriorSampler, ReverseStep
from diffts.evidence import Evidence
from diffts.seeding import KeyArray


class DPSSampler(PosteriorSampler):
    """The unconditional reverse step, then a step up the likelihood of the evidence at ``x̂_0``.

    ``x_ℓ = x'_ℓ + s Jᵀu`` with ``r = y - x̂_0(x_{ℓ+1})`` and ``u = r / (σ² + k)`` on the observed
    arms, ``J`` the denoiser's Jacobian and ``k = c0 (1-ᾱ_{ℓ+1})/√ᾱ_{ℓ+1}`` what a gradient of a log
    density is worth in this step. ``s = min(k, scale · r·u / ‖Jᵀu‖²)`` never overshoots the
    evidence (Polyak's step): without a limit, chains diverge where many arms say the same thing.
    Chung et al. step by ``ζ/‖r‖`` instead, whatever ``σ`` is.

    Not a posterior sampler: it takes ``x̂_0`` for ``x_0``, as if the denoiser made no error. Where
    ``σ`` is 0.3 to 1 prior standard deviations, draws lie up to a third of a posterior standard
    deviation too far towards the evidence, in a spread up to a fifth too narrow; at 0.03, what the
    last steps add makes observed arms a quarter too wide or more (``diffts accuracy --sampler
    dps``). So noiseless evidence does not give the data back.
    """

    scale: float = eqx.field(static=True, default=1.0)

    def step(
        self, key: KeyArray, x: Vector, step: ReverseStep, denoiser: Denoiser, evidence: Evidence
    ) -> Vector:
        """Algorithm 1 of Chung et al., with the noise of each arm in the likelihood."""
        transition, source = step.transition, step.transition.source
        x0_hat, pullback = jax.vjp(lambda latent: denoiser(latent, source), x)
        mean = transition.c0 * x0_hat + transition.c1 * x
        noise = jnp.sqrt(step.variance(step.tau**2)) * jax.random.normal(key, x.shape)

        worth = transition.c0 * source.noise**2 / source.signal
        residual = jnp.where(evidence.mask, evidence.mean - x0_hat, 0.0)
        weighted = residual / (evidence.std**2 + worth)
        (uphill,) = pullback(weighted)
        # Plain sums: a GPU would take products of vectors in reduced precision.
        limit = self.scale * jnp.sum(residual * weighted) / jnp.maximum(jnp.sum(uphill**2), 1e-30)
        return mean + noise + jnp.minimum(worth, limit) * uphill
