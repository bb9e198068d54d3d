"""Policies with a Gaussian or Gaussian-mixture prior, and their exact posteriors.

A draw needs no factorisation of the posterior covariance ``S``. With ``x'`` a draw from the
prior, ``z ~ N(0, I)``, counts ``n`` and empirical means ``ȳ``,

``x = x' + S ( n/σ² (ȳ - x') + √n/σ z )``

is a draw from the posterior (Matheron's rule, with ``S n/σ²`` the Kalman gain): two matrix-vector
products. ``S`` itself follows from one pull of arm ``a`` by a rank-one update.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from jaxtyping import Array, Bool, Float

from diffts.bandits.policies.policy import History, HistoryPolicy, HistoryState, Policy
from diffts.diffusion.exact import Gaussian, GaussianMixture
from diffts.seeding import KeyArray


class DiagonalGTS(HistoryPolicy):
    """GTS-diag: Thompson sampling with independent Gaussian priors, one for each arm."""

    n_arms: int = eqx.field(static=True)
    mean: Float[Array, " K"]
    variance: Float[Array, " K"]
    noise_std: Float[Array, ""]

    def __init__(self, prior: Gaussian, noise_std: float) -> None:
        self.n_arms = len(prior.mean)
        self.mean = jnp.asarray(prior.mean, jnp.float32)
        self.variance = jnp.asarray(prior.std**2, jnp.float32)
        self.noise_std = jnp.float32(noise_std)

    def values(self, key: KeyArray, state: HistoryState) -> Float[Array, " K"]:
        """One draw of each arm."""
        mean, variance = self._posterior(state.history)
        return mean + jnp.sqrt(variance) * jax.random.normal(key, mean.shape)

    def estimate(self, state: HistoryState) -> Float[Array, " K"]:
        """Posterior means."""
        return self._posterior(state.history)[0]

    def _posterior(self, history: History) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        """``v' = v σ² / (σ² + n v)`` and ``m' = (σ² m + v Σr) / (σ² + n v)``, safe for v = 0."""
        noise = self.noise_std**2
        total = noise + history.counts * self.variance
        mean = (noise * self.mean + self.variance * history.sums) / total
        return mean, self.variance * noise / total


class MixtureState(eqx.Module):
    """History, the components' posterior covariances ``(C, K, K)`` and log weights ``(C,)``."""

    history: History
    covariance: Float[Array, "C K K"]
    log_weights: Float[Array, " C"]


class MixturePosterior(Policy):
    """The exact posterior of a Gaussian mixture, updated round by round; for the classes below.

    Attributes:
        single_arm: whether an action is one arm (rank-one updates) or a set (solve anew).
    """

    n_arms: int = eqx.field(static=True)
    single_arm: bool = eqx.field(static=True)
    log_weights: Float[Array, " C"]
    mean: Float[Array, "C K"]
    covariance: Float[Array, "C K K"]
    root: Float[Array, "C K K"]  # root @ root.T is the prior covariance
    noise_std: Float[Array, ""]

    def __init__(
        self, prior: Gaussian | GaussianMixture, noise_std: float, *, single_arm: bool = True
    ) -> None:
        if isinstance(prior, Gaussian):
            prior = GaussianMixture([1.0], prior.mean[None], prior.covariance[None])
        eigenvalues, basis = np.linalg.eigh(prior.covariances)
        roots = basis * np.sqrt(np.maximum(eigenvalues, 0.0))[:, None, :]
        self.n_arms = prior.means.shape[1]
        self.single_arm = single_arm
        self.log_weights = jnp.log(jnp.asarray(np.maximum(prior.weights, 1e-30), jnp.float32))
        self.mean = jnp.asarray(prior.means, jnp.float32)
        self.covariance = jnp.asarray(prior.covariances, jnp.float32)
        self.root = jnp.asarray(roots, jnp.float32)
        self.noise_std = jnp.float32(noise_std)

    def init(self) -> MixtureState:
        """The prior."""
        return MixtureState(History.empty(self.n_arms), self.covariance, self.log_weights)

    def update(
        self, state: MixtureState, action: Bool[Array, " K"], rewards: Float[Array, " K"]
    ) -> MixtureState:
        """The exact posterior after the rewards of an action."""
        history = state.history.add(action, rewards)
        if not self.single_arm:
            return self._solve(history)
        arm = jnp.argmax(action)
        noise = self.noise_std**2
        column = state.covariance[:, :, arm]  # (C, K)
        total = noise + column[:, arm]
        innovation = (state.history.sums - state.history.counts * self.mean) / noise
        predicted = self.mean[:, arm] + jnp.sum(column * innovation, axis=1)
        log_weights = state.log_weights - 0.5 * (
            (rewards[arm] - predicted) ** 2 / total + jnp.log(total)
        )
        # S - S_a S_a' / (σ² + S_aa), but row and column of the arm itself by the form that cannot
        # cancel, S_a σ² / (σ² + S_aa). One expression: S is read once and written once.
        shrunk = column * (noise / total)[:, None]
        is_arm = jnp.arange(self.n_arms) == arm
        covariance = jnp.where(
            is_arm[:, None],
            shrunk[:, None, :],
            jnp.where(
                is_arm,
                shrunk[:, :, None],
                state.covariance - column[:, :, None] * (column / total[:, None])[:, None, :],
            ),
        )
        return MixtureState(history, covariance, jax.nn.log_softmax(log_weights))

    def component_mean(self, state: MixtureState) -> Float[Array, "C K"]:
        """Posterior mean of each component: ``μ + S (Σr - nμ)/σ²``."""
        return self._mean_of(state)

    def estimate(self, state: MixtureState) -> Float[Array, " K"]:
        """Posterior mean."""
        return jnp.exp(state.log_weights) @ self._mean_of(state)

    def _mean_of(self, state: MixtureState) -> Float[Array, "C K"]:
        history = state.history
        innovation = (history.sums - history.counts * self.mean) / self.noise_std**2
        return self.mean + jnp.einsum("ckj,cj->ck", state.covariance, innovation)

    def _solve(self, history: History) -> MixtureState:
        """The posterior from the counts alone: ``S = Σ - V'V``, ``V = L⁻¹ N^½ Σ/σ``, ``LL' = B``.

        ``B = I + N^½ Σ N^½ / σ²`` has no eigenvalue below 1, whatever the prior.
        """
        scaled = jnp.sqrt(history.counts) / self.noise_std
        residual = (history.means - self.mean) * scaled

        def of_component(
            covariance: Float[Array, "K K"], q: Float[Array, " K"]
        ) -> tuple[Float[Array, "K K"], Float[Array, ""]]:
            B = jnp.eye(self.n_arms) + scaled[:, None] * covariance * scaled
            L = jnp.linalg.cholesky(B)
            V = jax.scipy.linalg.solve_triangular(L, scaled[:, None] * covariance, lower=True)
            w = jax.scipy.linalg.solve_triangular(L, q, lower=True)
            log_likelihood = -0.5 * jnp.sum(w**2) - jnp.sum(jnp.log(jnp.diag(L)))
            return covariance - V.T @ V, log_likelihood

        covariance, log_likelihood = jax.vmap(of_component)(self.covariance, residual)
        log_weights = jax.nn.log_softmax(self.log_weights + log_likelihood)
        return MixtureState(history, covariance, log_weights)


class MixtureTS(MixturePosterior):
    """GMMTS, and GTS-full with one component: Thompson sampling with the exact posterior."""

    def values(self, key: KeyArray, state: MixtureState) -> Float[Array, " K"]:
        """One draw: a component by its posterior weight, then that component's Gaussian."""
        component_key, prior_key, noise_key = jax.random.split(key, 3)
        component = jax.random.categorical(component_key, state.log_weights)
        history = state.history
        z = jax.random.normal(prior_key, (self.n_arms,))
        x = self.mean[component] + self.root[component] @ z
        noise = jnp.sqrt(history.counts) * jax.random.normal(noise_key, (self.n_arms,))
        pull = (history.sums - history.counts * x) / self.noise_std**2 + noise / self.noise_std
        return x + state.covariance[component] @ pull


class GaussianGreedy(MixturePosterior):
    """Greedy play on the exact posterior mean: what a good prior does without exploration."""

    def values(self, key: KeyArray, state: MixtureState) -> Float[Array, " K"]:
        """Posterior means."""
        del key
        return self.estimate(state)


class BayesUCB(MixturePosterior):
    """The ``1 - 1/t`` quantile of each arm's posterior (Kaufmann et al. 2012), one Gaussian."""

    def values(self, key: KeyArray, state: MixtureState) -> Float[Array, " K"]:
        """Posterior mean plus the quantile's share of the standard deviation."""
        del key
        variance = jnp.diagonal(state.covariance[0])
        quantile = ndtri(1.0 - 1.0 / (state.history.rounds + 2.0))
        return self._mean_of(state)[0] + quantile * jnp.sqrt(jnp.maximum(variance, 0.0))
