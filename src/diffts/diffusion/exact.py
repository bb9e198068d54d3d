"""Priors whose denoiser and posterior are known in closed form: the oracles of this library.

:class:`Gaussian` and :class:`GaussianMixture` are distributions on the host, in float64, with
exact posteriors. :class:`GaussianDenoiser` and :class:`MixtureDenoiser` are the exact denoisers
``E[x_0 | x_ℓ]`` of such distributions, as a network would be if it had learned perfectly.
"""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.special
from jaxtyping import Array, Float
from numpy.typing import ArrayLike, NDArray

from diffts.diffusion.denoiser import Denoiser
from diffts.diffusion.schedule import NoiseLevel, Schedule
from diffts.errors import InvalidInputError
from diffts.evidence import Evidence
from diffts.seeding import Seed, as_generator
from diffts.validation import covariance_matrix, finite_array


@dataclass(frozen=True)
class Gaussian:
    """``N(mean, covariance)`` over the mean rewards of a task, in float64.

    >>> prior = Gaussian(mean=[0.0], covariance=[[1.0]])
    >>> posterior = prior.posterior(Evidence([1.0], std=1.0))
    >>> posterior.mean.tolist(), posterior.covariance.tolist()
    ([0.5], [[0.5]])
    """

    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]

    def __init__(self, mean: ArrayLike, covariance: ArrayLike) -> None:
        centre = finite_array("mean", mean, ndim=1)
        object.__setattr__(self, "mean", centre)
        object.__setattr__(
            self, "covariance", covariance_matrix("covariance", covariance, len(centre))
        )

    @property
    def std(self) -> NDArray[np.float64]:
        """Standard deviation of each arm."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    def posterior(self, evidence: Evidence) -> Gaussian:
        """Exact posterior given the evidence of one task.

        An exact observation is a fact: where it contradicts an arm without any variance, it wins.
        (The samplers do the same.)
        """
        gain, innovation, _ = self._condition(evidence)
        observed = np.flatnonzero(evidence.mask)
        covariance = self.covariance - gain @ self.covariance[observed]
        # What is left after exact observations is 0 up to rounding, of either sign.
        eigenvalues, basis = np.linalg.eigh(0.5 * (covariance + covariance.T))
        covariance = (basis * np.maximum(eigenvalues, 0.0)) @ basis.T
        mean = self.mean + gain @ innovation
        exact = observed[np.asarray(evidence.std)[observed] == 0]
        mean[exact] = np.asarray(evidence.mean, np.float64)[exact]
        return Gaussian(mean, covariance)

    def log_evidence(self, evidence: Evidence) -> float:
        """``log p(y)``: the marginal log likelihood of the observed arms of one task.

        ``-inf`` where exact observations contradict what is known for certain.
        """
        return self._condition(evidence)[2]

    def _condition(
        self, evidence: Evidence
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Gain ``(K, observed)``, innovation ``(observed,)`` and log marginal likelihood."""
        if evidence.mean.shape != self.mean.shape:
            raise InvalidInputError(
                f"evidence: expected shape {self.mean.shape}, got {evidence.mean.shape}"
            )
        observed = np.flatnonzero(evidence.mask)
        noise = np.asarray(evidence.std, np.float64)[observed] ** 2
        spread = self.covariance[np.ix_(observed, observed)] + np.diag(noise)
        innovation = np.asarray(evidence.mean, np.float64)[observed] - self.mean[observed]
        precision, rank = scipy.linalg.pinvh(spread, return_rank=True)
        gain = self.covariance[:, observed] @ precision
        eigenvalues, basis = np.linalg.eigh(spread)
        # Evidence is float32: what differs by its rounding does not contradict.
        impossible = np.abs(basis[:, : len(observed) - rank].T @ innovation)
        size = np.abs([self.mean[observed], self.mean[observed] + innovation]).max(initial=0.0)
        if (impossible > 1e-5 * size).any():
            return gain, innovation, -np.inf
        log_likelihood = -0.5 * (
            innovation @ precision @ innovation
            + np.log(eigenvalues[len(observed) - rank :]).sum()
            + rank * np.log(2 * np.pi)
        )
        return gain, innovation, float(log_likelihood)


@dataclass(frozen=True)
class GaussianMixture:
    """``Σ_k w_k N(mean_k, covariance_k)`` over the mean rewards of a task, in float64."""

    weights: NDArray[np.float64]
    components: tuple[Gaussian, ...]

    def __init__(self, weights: ArrayLike, means: ArrayLike, covariances: ArrayLike) -> None:
        w = finite_array("weights", weights, ndim=1)
        centres = finite_array("means", means, ndim=2)
        spreads = finite_array("covariances", covariances, ndim=3)
        if (w < 0).any() or not np.isclose(w.sum(), 1.0, atol=1e-6):
            raise InvalidInputError(
                f"weights: must be at least 0 and sum to 1, got a sum of {w.sum():.6g}"
            )
        if not len(w) == len(centres) == len(spreads):
            raise InvalidInputError(
                f"weights, means, covariances: {len(w)}, {len(centres)} and {len(spreads)} "
                "components; they must agree"
            )
        object.__setattr__(self, "weights", w / w.sum())
        components = []
        for k, (centre, spread) in enumerate(zip(centres, spreads, strict=True)):
            try:
                components.append(Gaussian(centre, spread))
            except InvalidInputError as error:
                raise InvalidInputError(f"component {k}: {error}") from None
        object.__setattr__(self, "components", tuple(components))

    @property
    def means(self) -> NDArray[np.float64]:
        """Component means, ``(C, K)``."""
        return np.stack([component.mean for component in self.components])

    @property
    def covariances(self) -> NDArray[np.float64]:
        """Component covariances, ``(C, K, K)``."""
        return np.stack([component.covariance for component in self.components])

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean of the whole mixture, ``(K,)``."""
        return self.weights @ self.means

    @property
    def std(self) -> NDArray[np.float64]:
        """Standard deviation of each arm under the whole mixture, ``(K,)``."""
        second = self.weights @ (
            np.diagonal(self.covariances, axis1=1, axis2=2) + (self.means - self.mean) ** 2
        )
        return np.sqrt(np.maximum(second, 0.0))

    def posterior(self, evidence: Evidence) -> GaussianMixture:
        """Exact posterior: weights by marginal likelihood, then each component's Gaussian."""
        likelihoods = np.array([component.log_evidence(evidence) for component in self.components])
        if not np.isfinite(likelihoods).any():  # none can have made it: none is favoured
            likelihoods = np.zeros_like(likelihoods)
        log_weights = np.log(np.maximum(self.weights, 1e-300)) + likelihoods
        posteriors = [component.posterior(evidence) for component in self.components]
        return GaussianMixture(
            scipy.special.softmax(log_weights),
            np.stack([posterior.mean for posterior in posteriors]),
            np.stack([posterior.covariance for posterior in posteriors]),
        )

    def sample(self, n: int, seed: Seed = 0) -> NDArray[np.float64]:
        """``n`` exact draws, ``(n, K)``."""
        generator = as_generator(seed)
        which = generator.choice(len(self.weights), size=n, p=self.weights)
        draws = np.empty((n, self.means.shape[1]))
        for k, component in enumerate(self.components):
            rows = np.flatnonzero(which == k)
            eigenvalues, basis = np.linalg.eigh(component.covariance)
            noise = generator.standard_normal((len(rows), len(eigenvalues)))
            root = basis * np.sqrt(np.maximum(eigenvalues, 0.0))
            draws[rows] = component.mean + noise @ root.T
        return draws


class GaussianDenoiser(Denoiser):
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


class MixtureDenoiser(Denoiser):
    """Exact denoiser of a Gaussian mixture: the components' estimates, averaged.

    ``h(x, ℓ) = Σ_k r_k(x) h_k(x, ℓ)`` with responsibilities ``r_k ∝ w_k N(x; √ᾱ μ_k,
    ᾱΣ_k + (1-ᾱ)I)``.
    """

    log_weights: Float[Array, " C"]
    components: GaussianDenoiser  # leaves stacked over the C components
    n_arms: int = eqx.field(static=True)

    def __init__(self, distribution: GaussianMixture) -> None:
        self.log_weights = jnp.asarray(np.log(np.maximum(distribution.weights, 1e-30)), jnp.float32)
        exact = [GaussianDenoiser(component) for component in distribution.components]
        self.components = jax.tree.map(lambda *leaves: jnp.stack(leaves), *exact)
        self.n_arms = self.components.n_arms

    def __call__(self, x: Float[Array, " K"], level: NoiseLevel) -> Float[Array, " K"]:
        """``E[x_0 | x_ℓ]``."""
        estimates = jax.vmap(lambda component: component(x, level))(self.components)
        with jax.default_matmul_precision("highest"):
            return self._responsibilities(x, level) @ estimates

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
    levels = schedule.level(np.arange(1, schedule.n_steps + 1))
    tau: Float[Array, "L K"] = jax.vmap(denoiser.error_std)(levels)
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

    def at_level(level: NoiseLevel) -> Float[Array, " K"]:
        x = level.signal * x_0 + level.noise * noise
        variances = jax.lax.map(
            lambda row: denoiser.conditional_variance(row, level), x, batch_size=256
        )
        return jnp.sqrt(variances.mean(0))

    levels = jax.tree.map(jnp.asarray, schedule.level(np.arange(1, schedule.n_steps + 1)))
    tau: Float[Array, "L K"] = jax.jit(lambda lv: jax.lax.map(at_level, lv))(levels)
    return tau
