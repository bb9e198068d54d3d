"""Training losses of a denoiser, for one example; batches are averaged by the caller."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from diffts.diffusion.networks import NetworkDenoiser
from diffts.diffusion.schedule import NoiseLevel


def denoising_loss(
    denoiser: NetworkDenoiser,
    x_0: Float[Array, " K"],
    noise: Float[Array, " K"],
    level: NoiseLevel,
) -> Float[Array, ""]:
    """``‖target - f(x_ℓ, ℓ)‖² / K`` at ``x_ℓ = √ᾱ x_0 + √(1-ᾱ) noise`` (Eq. denoising-loss).

    For a network that predicts the clean sample this is the paper's objective; the other two
    predictions are compared with their own targets, as is usual for them.
    """
    x = level.signal * x_0 + level.noise * noise
    error = denoiser.target(x_0, noise, level) - denoiser.network(x, level.step)
    return jnp.mean(error**2)
