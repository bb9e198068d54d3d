"""Exact denoisers ``E[x_0 | x_ℓ]`` of Gaussians and mixtures, and their errors τ.

What a network would be if it had learned perfectly. They take evidence as noise, too:
``E[x_0 | x_ℓ, y]``.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffts.diffusion.conditioning import Conditioned, ConditionedMixture
from diffts.diffusion.denoiser import Vector
from diffts.diffusion.exact import Gaussian, GaussianMixture
from diffts.diffusion.observation import ConditionalDenoiser, Marginals, Observation
from diffts.diffusion.schedule import NoiseLevel, Schedule
from diffts.seeding import Seed, as_generator
from diffts.stacking import stack


class GaussianDenoiser(ConditionalDenoiser):
    """Exact denoiser of ``N(μ, QΛQᵀ)`` (in standardised units).

    ``h(x, ℓ) = μ + Q diag(√ᾱ λ / (ᾱλ + 1-ᾱ)) Qᵀ (x - √ᾱ μ)``.
    """

    mean: Float[Array, " K"]
    eigenvalues: Float[Array, " K"]
    eigenvectors: Float[Array, "K K"]
    n_arms: int = eqx.field(static=True)

    def __init__(self, distribution: Gaussian) -> None:
        eigenvalues, eigenvectors = np.linalg.eigh(distribution.covariance)
        self.mean = jnp.asarray(distribution.mean, jnp.float32)
        self.eigenvalues = jnp.asarray(np.maximum(eigenvalues, 0.0), jnp.float32)
        self.eigenvectors = jnp.asarray(eigenvectors, jnp.float32)
        self.n_arms = len(eigenvalues)

    def __call__(self, x: Float[Array, " K"], level: NoiseLevel) -> Float[Array, " K"]:
        """``E[x_0 | x_ℓ]``."""
        gain = level.signal * self.eigenvalues / self._latent_variance(level)
        with jax.default_matmul_precision("highest"):  # a GPU would round to TF32
            return self.mean + self.eigenvectors @ (
                gain * (self.eigenvectors.T @ (x - level.signal * self.mean))
            )

    def given(self, observation: Observation) -> Marginals:
        """``E[x_0 | m]`` of means m with a precision of each arm, and the error's covariance."""
        return self.posterior(observation).marginals

    def posterior(self, observation: Observation) -> Conditioned:
        """The exact posterior; K³ operations."""
        return Conditioned.of(self.mean, self.root(), observation)

    def of_gaussian(self, push: Vector, precision: Vector) -> Marginals:
        """The Gaussian itself, centred."""
        return Conditioned.centred(self.root(), push, precision).marginals

    def root(self) -> Float[Array, "K K"]:
        """``Σ^½``, the symmetric one: eigenvectors of equal eigenvalues are rounding's choice."""
        with jax.default_matmul_precision("highest"):
            return (self.eigenvectors * jnp.sqrt(self.eigenvalues)) @ self.eigenvectors.T

    def error_std(self, level: NoiseLevel) -> Float[Array, " K"]:
        """``τ_ℓ``, closed form: root of ``diag Q diag(λ(1-ᾱ)/(ᾱλ + 1-ᾱ)) Qᵀ``."""
        shrunk = self.eigenvalues * level.noise**2 / self._latent_variance(level)
        with jax.default_matmul_precision("highest"):
            return jnp.sqrt(self.eigenvectors**2 @ shrunk)

    def _latent_variance(self, level: NoiseLevel) -> Float[Array, " K"]:
        return level.signal**2 * self.eigenvalues + level.noise**2

    def recipe(self) -> dict[str, object]:
        """Kind and size; the arrays hold the rest."""
        return {"kind": "gaussian", "n_arms": self.n_arms}


class MixtureDenoiser(ConditionalDenoiser):
    """Exact denoiser of a Gaussian mixture: the components' estimates, averaged.

    ``h(x, ℓ) = Σ_k r_k(x) h_k(x, ℓ)`` with responsibilities ``r_k ∝ w_k N(x; √ᾱ μ_k,
    ᾱΣ_k + (1-ᾱ)I)``.
    """

    log_weights: Float[Array, " C"]
    components: GaussianDenoiser  # leaves stacked over the C components
    n_arms: int = eqx.field(static=True)

    def __init__(self, distribution: GaussianMixture) -> None:
        self.log_weights = jnp.asarray(np.log(np.maximum(distribution.weights, 1e-30)), jnp.float32)
        self.components = stack([GaussianDenoiser(part) for part in distribution.components])
        self.n_arms = self.components.n_arms

    def __call__(self, x: Float[Array, " K"], level: NoiseLevel) -> Float[Array, " K"]:
        """``E[x_0 | x_ℓ]``."""
        estimates = jax.vmap(lambda component: component(x, level))(self.components)
        with jax.default_matmul_precision("highest"):
            return self._responsibilities(x, level) @ estimates

    def given(self, observation: Observation) -> Marginals:
        """The components' answers, averaged; the covariance is within plus between them."""
        parts = jax.vmap(lambda component: component.posterior(observation))(self.components)
        mixture = ConditionedMixture.of(parts, self.log_weights)
        return Marginals(mixture.mean, mixture.std, joint=mixture)

    def of_gaussian(self, push: Vector, precision: Vector) -> Marginals:
        """Of the Gaussian with the mixture's covariance: within plus between components."""
        weights = jnp.exp(self.log_weights)
        roots = jax.vmap(GaussianDenoiser.root)(self.components)
        with jax.default_matmul_precision("highest"):
            apart = self.components.mean - weights @ self.components.mean
        parts = jnp.concatenate([roots, apart[:, :, None]], axis=2)  # (C, K, K + 1)
        weighted = jnp.sqrt(weights)[:, None, None] * parts
        root = jnp.moveaxis(weighted, 0, 1).reshape(self.n_arms, -1)
        return Conditioned.centred(root, push, precision).marginals

    def conditional_variance(self, x: Float[Array, " K"], level: NoiseLevel) -> Float[Array, " K"]:
        """``Var[x_0^a | x_ℓ]`` of each arm: within components plus between them."""
        estimates = jax.vmap(lambda component: component(x, level))(self.components)
        within = jax.vmap(lambda component: component.error_std(level) ** 2)(self.components)
        r = self._responsibilities(x, level)
        with jax.default_matmul_precision("highest"):
            return r @ within + r @ (estimates - r @ estimates) ** 2

    def _responsibilities(self, x: Float[Array, " K"], level: NoiseLevel) -> Float[Array, " C"]:
        def log_density(component: GaussianDenoiser) -> Float[Array, ""]:
            variance = component._latent_variance(level)
            with jax.default_matmul_precision("highest"):
                residual = component.eigenvectors.T @ (x - level.signal * component.mean)
            return -0.5 * jnp.sum(residual**2 / variance + jnp.log(variance))

        return jax.nn.softmax(self.log_weights + jax.vmap(log_density)(self.components))

    def recipe(self) -> dict[str, object]:
        """Kind and sizes; the arrays hold the rest."""
        return {"kind": "mixture", "n_arms": self.n_arms, "components": len(self.log_weights)}


def gaussian_tau(denoiser: GaussianDenoiser, schedule: Schedule) -> Float[Array, "L K"]:
    """``τ_1 … τ_L`` of the exact Gaussian denoiser, in closed form, shape ``(L, K)``."""
    tau: Float[Array, "L K"] = jax.vmap(denoiser.error_std)(schedule.levels())
    return tau


def mixture_tau(
    denoiser: MixtureDenoiser,
    distribution: GaussianMixture,
    schedule: Schedule,
    draws: int = 8192,
    seed: Seed = 0,
) -> Float[Array, "L K"]:
    """``τ_1 … τ_L`` of the exact mixture denoiser, ``(L, K)``.

    ``τ_ℓ² = E[Var(x_0 | x_ℓ)]`` has no closed form. The expectation over ``x_ℓ`` is taken over
    ``draws`` exact draws; the conditional variance inside it is closed form, so that the Monte-
    Carlo error is far below that of averaging squared errors.
    """
    generator = as_generator(seed)
    x_0 = jnp.asarray(distribution.sample(draws, generator), jnp.float32)
    noise = jnp.asarray(generator.standard_normal(x_0.shape), jnp.float32)
    return mean_error_std(denoiser.conditional_variance, x_0, noise, schedule)


def mean_error_std(
    conditional_variance: Callable[[Vector, NoiseLevel], Vector],
    x_0: Float[Array, "N K"],
    noise: Float[Array, "N K"],
    schedule: Schedule,
) -> Float[Array, "L K"]:
    """``τ_ℓ``: the root of the mean of ``Var[x_0 | x_ℓ]`` over tasks ``x_0`` and their latents."""

    def at_level(level: NoiseLevel) -> Float[Array, " K"]:
        x = level.signal * x_0 + level.noise * noise
        variances = jax.lax.map(lambda row: conditional_variance(row, level), x, batch_size=256)
        return jnp.sqrt(variances.mean(0))

    tau: Float[Array, "L K"] = jax.jit(lambda lv: jax.lax.map(at_level, lv))(schedule.levels())
    return tau
