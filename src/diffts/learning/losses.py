"""Training losses of a denoiser, for one example; batches are averaged by the caller."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diffts.diffusion.denoiser import Vector
from diffts.diffusion.networks import NetworkDenoiser
from diffts.diffusion.schedule import NoiseLevel


def denoising_loss(
    denoiser: NetworkDenoiser, x_0: Vector, noise: Vector, level: NoiseLevel
) -> Float[Array, ""]:
    """``‖target - f(x_ℓ, ℓ)‖² / K`` at ``x_ℓ = √ᾱ x_0 + √(1-ᾱ) noise`` (Eq. denoising-loss).

    For a network that predicts the clean sample this is the paper's objective; the other two
    predictions are compared with their own targets, as is usual for them.
    """
    x = level.signal * x_0 + level.noise * noise
    error = denoiser.target(x_0, noise, level) - denoiser.output(x, level)
    return jnp.mean(error**2)


def imperfect_loss(
    denoiser: NetworkDenoiser,
    y: Vector,
    weight: Vector,
    x: Vector,
    level: NoiseLevel,
    divergence: Vector | None = None,
    probe: Vector | None = None,
) -> Float[Array, ""]:
    """``(Σ_a w^a (y^a - h^a(x, ℓ))² + 2√ᾱ Σ_a d^a r^a (J_h(x) r)^a) / K`` (Eq. EM-loss).

    The second term is Stein's unbiased estimate of what the noise of ``y`` adds to the first,
    with one probe ``r`` for the divergence. The paper takes a finite difference with ε = 1e-5,
    which float32 cannot resolve; a Jacobian-vector product is the same derivative, exactly.

    Args:
        denoiser: the denoiser ``h``; its errors are counted in what its network predicts, as in
            :func:`denoising_loss`, so that on exact data both losses are the same.
        y: observations; anything where ``weight`` is 0.
        weight: 1 where observed and 0 elsewhere, or inverse variances.
        x: the latent ``x̃_ℓ``.
        level: its noise level.
        divergence: ``d = λσ²`` for homogeneous noise, ``λ`` with inverse variances; None is λ = 0.
        probe: ``r ~ N(0, I)``, with ``divergence``.
    """
    if divergence is None:
        estimate, penalty = denoiser.trainable(x, level), jnp.float32(0.0)
    else:
        estimate, change = jax.jvp(lambda z: denoiser.trainable(z, level), (x,), (probe,))
        penalty = 2.0 * level.signal * jnp.mean(divergence * probe * change)
    fit = jnp.mean(jnp.where(weight > 0, weight * (y - estimate) ** 2, 0.0))
    return denoiser.error_weight(level) * (fit + penalty)
