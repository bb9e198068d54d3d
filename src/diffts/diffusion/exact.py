"""Gaussians and Gaussian mixtures, on the host and in float64: their posteriors are exact.

They are the oracles of this library. Their denoisers are in ``exact_denoisers.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.special
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike, NDArray

from diffts.chunks import cut
from diffts.diffusion.observed import Observed, Parameters, factor, log_density, on_cpu, root
from diffts.diffusion.units import Units
from diffts.errors import InvalidInputError
from diffts.evidence import Evidence
from diffts.seeding import KeyArray, Seed, as_generator, as_key
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

    @staticmethod
    def of(prior: Gaussian | GaussianMixture) -> GaussianMixture:
        """A Gaussian as a mixture of one component; a mixture as it is."""
        if isinstance(prior, GaussianMixture):
            return prior
        return GaussianMixture([1.0], prior.mean[None], prior.covariance[None])

    @property
    def units(self) -> Units:
        """Units in which the mixture has about mean 0 and variance 1.

        One shift and one scale for all arms: overall mean and root mean square deviation. Limits
        are eight standard deviations from the components' means.
        """
        means, stds = self.means, np.stack([component.std for component in self.components])
        shift = float(self.mean.mean())
        scale = float(np.sqrt(np.mean(self.weights @ (stds**2 + (means - shift) ** 2)))) or 1.0
        low, high = float((means - 8 * stds).min()), float((means + 8 * stds).max())
        # All arms may be known exactly.
        return Units(shift, scale, *((low, high) if low < high else (low - 1.0, high + 1.0)))

    @property
    def arm_units(self) -> Units:
        """Units of an arm's own spread, for sums in float32.

        The distance between the arms' means, which may be far larger, must not coarsen them.
        """
        return Units(float(self.mean.mean()), float(np.sqrt(np.mean(self.std**2))) or 1.0)

    def standardised(self, units: Units) -> GaussianMixture:
        """The same distribution in standardised units."""
        covariances = self.covariances / units.scale**2
        return GaussianMixture(self.weights, units.standard(self.means), covariances)

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
        means = np.stack([posterior.mean for posterior in posteriors])
        covariances = np.stack([posterior.covariance for posterior in posteriors])
        return GaussianMixture(scipy.special.softmax(log_weights), means, covariances)

    def sample(self, n: int, seed: Seed = 0) -> NDArray[np.float64]:
        """``n`` exact draws, ``(n, K)``."""
        generator = as_generator(seed)
        which = generator.choice(len(self.weights), size=n, p=self.weights)
        draws = np.empty((n, self.means.shape[1]))
        for k, component in enumerate(self.components):
            rows = np.flatnonzero(which == k)
            noise = generator.standard_normal((len(rows), draws.shape[1]))
            draws[rows] = component.mean + noise @ root(component.covariance).T
        return draws


def draw_posterior(
    prior: Gaussian | GaussianMixture, evidence: Evidence, draws: int = 1, seed: Seed = 0
) -> NDArray[np.float64]:
    """``draws`` exact posterior draws for each of N tasks, ``(draws, N, K)``.

    By Matheron's rule: take ``x`` from the prior and a pretended observation ``ỹ`` of it; then
    ``x + Σ_k (Σ_k[o, o] + D)⁻¹ (y - ỹ)`` is a draw from component ``k``'s posterior.
    """
    mixture = GaussianMixture.of(prior)
    units = mixture.arm_units
    standard = mixture.standardised(units)
    key_data = np.asarray(jax.random.key_data(as_key(seed)))
    with on_cpu():
        values = _draw(
            Parameters.of(standard),
            jnp.asarray(root(standard.covariances), jnp.float32),
            Observed.pack(evidence, units),
            jax.random.wrap_key_data(jnp.asarray(key_data)),
            draws,
        )
    return units.restore(np.asarray(values, np.float64))


@eqx.filter_jit
def _draw(
    prior: Parameters, roots: Float[Array, "C K K"], data: Observed, key: KeyArray, draws: int
) -> Float[Array, "draws N K"]:
    n_components, n_arms = prior.means.shape
    numbered = cut((data, jnp.arange(len(data.arm))), data.chunk_rows(n_components))

    def of_task(task: Observed, number: Int[Array, ""]) -> Float[Array, "draws K"]:
        each_factor = jax.vmap(factor, in_axes=(0, 0, None))
        factors, residuals = each_factor(prior.means, prior.covariances, task)
        joint = prior.log_weights + jax.vmap(log_density)(factors, residuals)

        def one(draw_key: KeyArray) -> Float[Array, " K"]:
            which_key, prior_key, noise_key = jax.random.split(draw_key, 3)
            k = jax.random.categorical(which_key, joint)
            x = prior.means[k] + roots[k] @ jax.random.normal(prior_key, (n_arms,))
            noise = jnp.sqrt(task.variance) * jax.random.normal(noise_key, task.arm.shape)
            missed = jnp.where(task.present, task.value - x[task.arm] - noise, 0.0)
            u = jax.scipy.linalg.cho_solve((factors[k], True), missed)
            return x + prior.covariances[k][:, task.arm] @ u

        return jax.vmap(one)(jax.random.split(jax.random.fold_in(key, number), draws))

    with jax.default_matmul_precision("highest"):
        values = jax.lax.map(lambda inputs: jax.vmap(of_task)(*inputs), numbered)
    return jnp.swapaxes(values.reshape(-1, draws, n_arms)[: len(data.arm)], 0, 1)
