"""The paper's sampler (Algorithm 'Posterior Sampling with Diffusion Prior')."""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from diffts.diffusion.denoiser import Denoiser, Vector
from diffts.diffusion.posterior.sampler import PosteriorSampler, ReverseStep
from diffts.evidence import Evidence
from diffts.seeding import KeyArray
from diffts.validation import one_of


class PaperSampler(PosteriorSampler):
    """Mixes each unconditional latent with the observation, diffused to the same noise level.

    ``noise='predicted'`` diffuses the observation with the noise that the denoiser predicts
    (the paper's choice); ``noise='sampled'`` with fresh noise (its ablation).
    """

    noise: Literal["predicted", "sampled"] = eqx.field(static=True, default="predicted")

    def __check_init__(self) -> None:
        one_of("noise", self.noise, ("predicted", "sampled"))

    def step(
        self, key: KeyArray, x: Vector, step: ReverseStep, denoiser: Denoiser, evidence: Evidence
    ) -> Vector:
        """Lines 5-10 of the algorithm, with the spread of the diffused observation a variance.

        The algorithm draws ``x'_ℓ`` and ``ỹ_ℓ`` and takes their precision-weighted mean. By the
        paper's two-Gaussian lemma this is one draw from the product of their two densities,
        which needs half as many random numbers: ``N((1-g) E[x'] + g E[ỹ], (1-g) Var[x'])`` with
        ``g = Var[x'] / (Var[x'] + s_y²)``.
        """
        source, target = step.transition.source, step.transition.target

        x0_hat = denoiser(x, source)
        mean_x = step.transition.c0 * x0_hat + step.transition.c1 * x
        var_x = step.variance(step.tau**2)

        if self.noise == "predicted":
            z = (x - source.signal * x0_hat) / source.noise
        else:
            key, noise_key = jax.random.split(key)
            z = jax.random.normal(noise_key, x.shape)
        mean_y = target.signal * evidence.mean + target.noise * z
        # s_y² = ᾱ_ℓ (σ² + ᾱ_{ℓ+1}(1-ᾱ_ℓ) / (ᾱ_ℓ(1-ᾱ_{ℓ+1})) τ²), with ᾱ_ℓ multiplied out.
        var_y = (
            target.signal**2 * evidence.std**2
            + (source.signal * target.noise / source.noise) ** 2 * step.tau**2
        )

        # Both variances vanish only for an exact observation of an uncalibrated last step:
        # there the observation wins.
        total = var_x + var_y
        gain = jnp.where(var_y > 0, var_x / jnp.where(total > 0, total, 1.0), 1.0)
        gain = jnp.where(evidence.mask, gain, 0.0)

        mean = mean_x + gain * (mean_y - mean_x)
        std = jnp.sqrt((1.0 - gain) * var_x)
        return mean + std * jax.random.normal(key, x.shape)
