"""A Gaussian ``N(μ, Σ)`` given one observation of each arm, in full covariance and float32.

With precisions ``P = diag(p)``, ``M = I + P^½ Σ P^½`` and ``u = M⁻¹ P^½ (m - μ)``, the posterior is

``mean = μ + Σ P^½ u`` and ``covariance = Σ - Σ P^½ M⁻¹ P^½ Σ``.

Where an arm's own observation says more than its prior (``p^a Σ^aa > 1``), these are small
differences of large numbers. There, the same by ``Σ P^½ = P^-½ (M - I)``:
``mean^a = m^a - u^a/√p^a`` and ``variance^a = (1 - (M⁻¹)^aa)/p^a``. So precisions of 0 and of 1e10
may stand side by side.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from diffts.diffusion.denoiser import Vector
from diffts.diffusion.observation import JointNoise, Marginals, Observation
from diffts.diffusion.sweeping import inverse_and_log_determinant
from diffts.seeding import KeyArray


class Conditioned(JointNoise):
    """The posterior, and what a draw from it needs.

    Attributes:
        mean, std: of each arm, ``(K,)``.
        log_density: of the observation, up to what all priors share, ``½ Σ log p``.
        root: any ``B`` with ``B Bᵀ = Σ``, ``(K, r)``.
        covariance: ``Σ``.
        inverse: ``M⁻¹``.
        root_precision: ``√p``.
        informed: where an arm's own observation says more than its prior.
    """

    mean: Float[Array, " K"]
    std: Float[Array, " K"]
    log_density: Float[Array, ""]
    root: Float[Array, "K r"]
    covariance: Float[Array, "K K"]
    inverse: Float[Array, "K K"]
    root_precision: Float[Array, " K"]
    informed: Bool[Array, " K"]

    @staticmethod
    def of(mean: Vector, root: Float[Array, "K r"], observation: Observation) -> Conditioned:
        """The posterior of ``N(mean, root rootᵀ)``."""
        precision = observation.precision
        seen, root_p = precision > 0, jnp.sqrt(precision)
        safe = jnp.where(seen, precision, 1.0)
        residual = root_p * jnp.where(seen, observation.mean - mean, 0.0)
        with jax.default_matmul_precision("highest"):  # small differences of large numbers
            covariance = root @ root.T
            own = jnp.diagonal(covariance)
            M = jnp.eye(len(mean)) + root_p[:, None] * covariance * root_p
            M_inverse, log_determinant = inverse_and_log_determinant(M)
            u = M_inverse @ residual
            shared = covariance * root_p
            moved = shared @ u
            explained = jnp.sum((shared @ M_inverse) * shared, axis=1)
        informed = precision * own > 1.0
        variance = jnp.where(informed, (1.0 - jnp.diagonal(M_inverse)) / safe, own - explained)
        return Conditioned(
            mean=jnp.where(informed, observation.mean - u / jnp.sqrt(safe), mean + moved),
            std=jnp.sqrt(jnp.maximum(variance, 0.0)),
            log_density=-0.5 * (log_determinant + jnp.sum(residual * u)),
            root=root,
            covariance=covariance,
            inverse=M_inverse,
            root_precision=root_p,
            informed=informed,
        )

    @staticmethod
    def centred(root: Float[Array, "K r"], push: Vector, precision: Vector) -> Conditioned:
        """``N(C push, C)`` with ``C = (Σ⁻¹ + diag(precision))⁻¹``; all precisions above 0."""
        observation = Observation(push / precision, precision)
        return Conditioned.of(jnp.zeros(len(root)), root, observation)

    @property
    def marginals(self) -> Marginals:
        """Of each arm, with this as their joint noise."""
        return Marginals(self.mean, self.std, joint=self)

    def error(self, key: KeyArray) -> Vector:
        """A draw of ``x_0 - mean``, by Matheron's rule.

        ``x = Bz`` from the prior and ``w = P^½ x + z'``, a pretended observation of it, leave
        ``x - Σ P^½ M⁻¹ w``; on informed arms that is ``(M⁻¹ w - z')/√p``.
        """
        prior_key, noise_key = jax.random.split(key)
        z = jax.random.normal(prior_key, self.root.shape[1:])
        noise = jax.random.normal(noise_key, self.mean.shape)
        with jax.default_matmul_precision("highest"):
            x = self.root @ z
            u = self.inverse @ (self.root_precision * x + noise)
            rest = x - self.covariance @ (self.root_precision * u)
        own = (u - noise) / jnp.where(self.informed, self.root_precision, 1.0)
        return jnp.where(self.informed, own, rest)


class ConditionedMixture(JointNoise):
    """The covariance of a mixture of posteriors, as Gaussian noise: within plus between them.

    Attributes:
        parts: the posteriors, leaves stacked over the C components.
        weights: their chances, ``(C,)``.
        mean, std: of the mixture, ``(K,)``.
    """

    parts: Conditioned
    weights: Float[Array, " C"]
    mean: Float[Array, " K"]
    std: Float[Array, " K"]

    @staticmethod
    def of(parts: Conditioned, log_weights: Float[Array, " C"]) -> ConditionedMixture:
        """Weights ``∝ w_k p(m | k)``; moments are those of the mixture."""
        weights = jax.nn.softmax(log_weights + parts.log_density)
        with jax.default_matmul_precision("highest"):
            mean = weights @ parts.mean
            variance = weights @ parts.std**2 + weights @ (parts.mean - mean) ** 2
        return ConditionedMixture(parts=parts, weights=weights, mean=mean, std=jnp.sqrt(variance))

    def error(self, key: KeyArray) -> Vector:
        """``Σ_k √w_k (e_k + (m_k - m) z_k)``: its covariance is that of the mixture."""
        between_key, within_key = jax.random.split(key)
        z = jax.random.normal(between_key, self.weights.shape)
        keys = jax.random.split(within_key, len(self.weights))
        within = jax.vmap(Conditioned.error)(self.parts, keys)
        share = jnp.sqrt(self.weights)[:, None]
        return jnp.sum(share * (within + (self.parts.mean - self.mean) * z[:, None]), axis=0)
