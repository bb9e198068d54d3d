"""The posterior of a factor Gaussian ``x = μ + W z + e`` under one observation of each arm.

``z ~ N(0, I_r)``, ``e^a ~ N(0, ψ^a)``. Given means ``m`` with precisions ``p``, and
``d = p / (1 + ψp)``, the factors have the covariance ``S = (I + W' diag(d) W)⁻¹`` and the mean
``ẑ = S W' (d ⊙ (m - μ))``; an arm's mean and variance are

``μ + (Wẑ)^a + g^a (m - μ - Wẑ)^a`` and ``ψ^a (1 - g^a) + (1 - g^a)² (W S W')^{aa}``,
with ``g = ψp / (1 + ψp)``.

An r × r inverse and K r² products: what GTS-full knows, at the price of a small network.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from diffts.diffusion.denoiser import Vector
from diffts.diffusion.observation import JointNoise, Observation
from diffts.diffusion.sweeping import inverse
from diffts.seeding import KeyArray


class FactorNoise(JointNoise):
    """The posterior's noise: ``(1-g)(W e)^a + √(ψ(1-g)) ξ^a``, where ``e ~ N(0, S)``.

    ``e = S(z + W' √d η)`` of standard normal z and η, since ``z + W' √d η ~ N(0, S⁻¹)``: a draw
    without a factorisation.

    Attributes:
        std: of each arm, ``(K,)``.
        loadings, covariance: ``W`` and ``S``.
        unexplained, weight: ``1 - g`` and ``d``, ``(K,)``.
        own_std: ``√(ψ(1-g))``, ``(K,)``.
    """

    std: Float[Array, " K"]
    loadings: Float[Array, "K r"]
    covariance: Float[Array, "r r"]
    unexplained: Float[Array, " K"]
    weight: Float[Array, " K"]
    own_std: Float[Array, " K"]

    def error(self, key: KeyArray) -> Vector:
        """A draw of ``x_0`` around its mean."""
        keys = jax.random.split(key, 3)
        z = jax.random.normal(keys[0], self.covariance.shape[:1])
        eta, xi = (jax.random.normal(k, self.std.shape) for k in keys[1:])
        with jax.default_matmul_precision("highest"):
            factors = self.covariance @ (z + self.loadings.T @ (jnp.sqrt(self.weight) * eta))
            return self.unexplained * (self.loadings @ factors) + self.own_std * xi


class FactorPosterior(NamedTuple):
    """Mean and standard deviation of each arm ``(K,)`` and of each factor ``(r,)``; its noise."""

    mean: Vector
    std: Vector
    factors: Float[Array, " r"]
    factor_std: Float[Array, " r"]
    noise: FactorNoise


class FactorGaussian(eqx.Module):
    """``N(μ, WW' + diag(ψ))``, standardised; it is given, not trained."""

    mean: Float[Array, " K"]
    loadings: Float[Array, "K r"]
    own: Float[Array, " K"]

    def __init__(self, mean: ArrayLike, loadings: ArrayLike, own: ArrayLike) -> None:
        self.mean = jnp.asarray(mean, jnp.float32)
        self.loadings = jnp.asarray(loadings, jnp.float32)
        self.own = jnp.asarray(own, jnp.float32)

    def given(self, observation: Observation) -> FactorPosterior:
        """The posterior; a function of the observation alone, since the Gaussian is not trained."""
        mean, loadings, own = map(jax.lax.stop_gradient, (self.mean, self.loadings, self.own))
        precision = observation.precision
        unexplained = 1.0 / (1.0 + own * precision)  # 1 - g
        weight = precision * unexplained
        residual = jnp.where(precision > 0, observation.mean - mean, 0.0)
        with jax.default_matmul_precision("highest"):  # small differences of large numbers
            information = (loadings * weight[:, None]).T @ loadings
            covariance = inverse(jnp.eye(loadings.shape[1]) + information)
            factors = covariance @ (loadings.T @ (weight * residual))
            shared = loadings @ factors
            uncertain = jnp.sum((loadings @ covariance) * loadings, axis=1)
        own_part = jnp.where(precision > 0, (1.0 - unexplained) * (residual - shared), 0.0)
        own_variance = own * unexplained
        std = jnp.sqrt(jnp.maximum(own_variance + unexplained**2 * uncertain, 1e-12))
        return FactorPosterior(
            mean + shared + own_part,
            std,
            factors,
            jnp.sqrt(jnp.maximum(jnp.diagonal(covariance), 0.0)),
            FactorNoise(
                std=std,
                loadings=loadings,
                covariance=covariance,
                unexplained=unexplained,
                weight=weight,
                own_std=jnp.sqrt(own_variance),
            ),
        )

    def arm_by_arm(self, observation: Observation) -> tuple[Vector, Vector]:
        """Mean and standard deviation of each arm as if no arm told anything of another."""
        variance = self.own + jnp.sum(self.loadings**2, axis=1)
        precision = 1.0 / variance + observation.precision
        weighted = self.mean / variance + observation.precision * observation.mean
        return jax.lax.stop_gradient((weighted / precision, 1.0 / jnp.sqrt(precision)))
