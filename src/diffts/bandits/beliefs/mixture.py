"""A Gaussian or a Gaussian-mixture prior, with its exact posterior: GTS-full and GMMTS.

A draw needs no factorisation of the posterior covariance ``S``. With ``x'`` a draw from the
prior, ``z ~ N(0, I)``, counts ``n`` and empirical means ``ȳ``,

``x = x' + S ( n/σ² (ȳ - x') + √n/σ z )``

is a draw from the posterior (Matheron's rule, with ``S n/σ²`` the Kalman gain): two matrix-vector
products. ``S`` itself follows from one pull of arm ``a`` by a rank-one update.

Where actions are sets of arms, the posterior is solved anew. With ``D = diag(√n/σ)``, the factor
``L`` of ``LL' = I + DΣD`` (no eigenvalue below 1, but for rounding) and ``V = L⁻¹DΣ``, it is
``S = Σ - V'V`` and ``x = x' + V' L⁻¹ ( D(ȳ - x') + z )``. It never multiplies a small covariance
by a large count, so that float32 is enough. Where the noise is no number, it is solved anew in
every round, too; then only ``L`` is kept, a tenth of that work, and a draw solves with it.

All products here are taken in full precision: posterior variances are small differences of large
numbers, and a GPU would by default round the operands to TF32, three decimal digits. (Regrets on
Maze came out up to six times too large that way.)
"""

from __future__ import annotations

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import NDArray

from diffts.bandits.beliefs.belief import Belief, gaussian_quantile, quantile_of
from diffts.bandits.history import History
from diffts.bandits.noise import Noise, NoiseLike, as_noise
from diffts.diffusion.exact import Gaussian, GaussianMixture
from diffts.seeding import KeyArray


class MixtureState(eqx.Module):
    """History and posterior of a mixture of C components.

    Attributes:
        history: the pulls.
        log_weights: of the components, ``(C,)``.
        covariance: of each component, ``S``, where actions are single arms; else None.
        explained: ``V`` of each component, where actions are sets of arms; else None.
        whitening: ``L⁻¹`` of each component, likewise.
        factor: ``L`` of each component, where the noise is no number; else None.
    """

    history: History
    log_weights: Float[Array, " C"]
    covariance: Float[Array, "C K K"] | None = None
    explained: Float[Array, "C K K"] | None = None
    whitening: Float[Array, "C K K"] | None = None
    factor: Float[Array, "C K K"] | None = None


@final
class MixtureBelief(Belief):
    """The exact posterior of a Gaussian mixture (of one component: a Gaussian), round by round.

    Attributes:
        single_arm: whether an action is one arm (rank-one updates, if the noise is one number)
            or a set (solve anew).
        noise: the assumed noise; at least ``finest`` counts, 1e-4 of the largest prior standard
            deviation, since float32 resolves no less.
    """

    n_arms: int = eqx.field(static=True)
    single_arm: bool = eqx.field(static=True)
    prior_log_weights: Float[Array, " C"]
    prior_means: Float[Array, "C K"]
    prior_covariances: Float[Array, "C K K"]
    prior_roots: Float[Array, "C K K"]  # root @ root.T is the prior covariance
    noise: Noise
    finest: Float[Array, ""]

    def __init__(
        self, prior: Gaussian | GaussianMixture, noise: NoiseLike, *, single_arm: bool = True
    ) -> None:
        if isinstance(prior, Gaussian):
            prior = GaussianMixture([1.0], prior.mean[None], prior.covariance[None])
        eigenvalues, basis = np.linalg.eigh(prior.covariances)
        roots = basis * np.sqrt(np.maximum(eigenvalues, 0.0))[:, None, :]
        self.n_arms = prior.means.shape[1]
        self.single_arm = single_arm
        self.prior_log_weights = jnp.log(jnp.asarray(np.maximum(prior.weights, 1e-30), jnp.float32))
        self.prior_means = jnp.asarray(prior.means, jnp.float32)
        self.prior_covariances = jnp.asarray(prior.covariances, jnp.float32)
        self.prior_roots = jnp.asarray(roots, jnp.float32)
        finest = 1e-4 * np.sqrt(np.diagonal(prior.covariances, axis1=1, axis2=2).max())
        mean, std = _moments(prior)
        self.noise, self.finest = as_noise(noise).under(mean, std), jnp.float32(finest)

    def init(self) -> MixtureState:
        """The prior."""
        empty = History.empty(self.n_arms)
        if self._follows_pulls:  # nothing to solve
            return MixtureState(empty, self.prior_log_weights, self.prior_covariances)
        return self._solve(empty)

    def resume(self, history: History) -> MixtureState:
        """The posterior after a history, however it came about."""
        solved = self._solve(history)
        if not self._follows_pulls:
            return solved
        return MixtureState(history, solved.log_weights, self.component_covariances(solved))

    def update(
        self, state: MixtureState, action: Bool[Array, " K"], rewards: Float[Array, " K"]
    ) -> MixtureState:
        """The exact posterior after the rewards of an action."""
        history = state.history.add(action, rewards)
        if not self._follows_pulls:
            return self._solve(history)
        assert state.covariance is not None
        arm = jnp.argmax(action)
        noise = self._std(history)[0] ** 2  # one number for all arms, which compiles to faster code
        column = state.covariance[:, :, arm]  # (C, K)
        total = noise + column[:, arm]
        innovation = (state.history.sums - state.history.counts * self.prior_means) / noise
        predicted = self.prior_means[:, arm] + jnp.sum(column * innovation, axis=1)
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
        return MixtureState(history, jax.nn.log_softmax(log_weights), covariance)

    def draw_one(self, key: KeyArray, state: MixtureState) -> Float[Array, " K"]:
        """One draw: a component by its posterior weight, then that component's Gaussian."""
        component_key, prior_key, noise_key = jax.random.split(key, 3)
        component: Int[Array, ""] | int = 0
        if len(self.prior_means) > 1:  # a traced number would copy a matrix for every draw
            component = jax.random.categorical(component_key, state.log_weights)
        z = jax.random.normal(prior_key, (self.n_arms,))
        x = self.prior_means[component] + _product(self.prior_roots[component], z)
        noise = jax.random.normal(noise_key, (self.n_arms,))
        return self._conditioned(state, component, x, noise)

    def moments(
        self, state: MixtureState, draws: Float[Array, "n K"]
    ) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        """``m = Σ w_k m_k`` and the root of ``Σ w_k (v_k + (m_k - m)²)``."""
        del draws
        mean, std = self._overall(state)
        return self.within(mean), std

    def quantile(
        self, state: MixtureState, level: Float[Array, ""], draws: Float[Array, "n K"]
    ) -> Float[Array, " K"]:
        """Of a Gaussian in closed form; of a mixture, that of draws."""
        if len(self.prior_means) == 1:
            return self.within(gaussian_quantile(self._overall(state), level))
        return quantile_of(draws, level)

    def estimate(self, state: MixtureState, draws: Float[Array, "n K"]) -> Float[Array, " K"]:
        """Posterior mean."""
        return self.moments(state, draws)[0]

    @property
    def resolution(self) -> Float[Array, ""]:
        """Any difference tells."""
        return jnp.float32(0.0)

    @property
    def _follows_pulls(self) -> bool:
        """Whether a pull is a rank-one update."""
        return self.single_arm and self.noise.constant

    def _std(self, history: History) -> Float[Array, " K"]:
        """The noise of one reward, as far as float32 resolves it."""
        return jnp.maximum(self.noise.std(history), self.finest)

    def _scaled(self, history: History) -> Float[Array, " K"]:
        """``√n/σ``, the diagonal of ``D``."""
        return jnp.sqrt(history.counts) / self._std(history)

    def _overall(self, state: MixtureState) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        """Mean and standard deviation of each arm over all components."""
        means = self._component_means(state)
        weights = jnp.exp(state.log_weights)
        mean = _product(weights, means)
        variance = _product(weights, self._variances(state) + (means - mean) ** 2)
        return mean, jnp.sqrt(jnp.maximum(variance, 0.0))

    def _component_means(self, state: MixtureState) -> Float[Array, "C K"]:
        """Posterior mean of each component: the rule above, from ``μ`` and without noise."""
        components = jnp.arange(len(self.prior_means))
        return jax.vmap(lambda k, mean: self._conditioned(state, k, mean, jnp.zeros_like(mean)))(
            components, self.prior_means
        )

    def component_covariances(self, state: MixtureState) -> Float[Array, "C K K"]:
        """Posterior covariance of each component."""
        if state.covariance is not None:
            return state.covariance
        explained = self._explained(state)
        return self.prior_covariances - jax.vmap(lambda V: _product(V.T, V))(explained)

    def _variances(self, state: MixtureState) -> Float[Array, "C K"]:
        """Posterior variances of each component."""
        if state.covariance is not None:
            return jnp.diagonal(state.covariance, axis1=1, axis2=2)
        prior = jnp.diagonal(self.prior_covariances, axis1=1, axis2=2)
        return prior - jnp.sum(self._explained(state) ** 2, axis=1)

    def _explained(self, state: MixtureState) -> Float[Array, "C K K"]:
        """``V`` of each component; the dearer part of the solution, where it was not kept."""
        if state.explained is not None:
            return state.explained
        assert state.factor is not None
        scaled = self._scaled(state.history)
        return jax.vmap(lambda L, covariance: _solved(L, scaled[:, None] * covariance))(
            state.factor, self.prior_covariances
        )

    def _conditioned(
        self,
        state: MixtureState,
        component: Int[Array, ""] | int,
        x: Float[Array, " K"],
        noise: Float[Array, " K"],
    ) -> Float[Array, " K"]:
        """Matheron's rule: ``x`` of a component's prior, moved to its posterior."""
        history, noise_std = state.history, self._std(state.history)
        if state.covariance is not None:
            pull = (history.sums - history.counts * x) / noise_std**2
            pull += jnp.sqrt(history.counts) * noise / noise_std
            return x + _product(state.covariance[component], pull)
        seen = (history.means - x) * jnp.sqrt(history.counts) / noise_std + noise
        if state.factor is not None:
            solved = jax.scipy.linalg.cho_solve((state.factor[component], True), seen)
            scaled = self._scaled(history)
            return x + _product(self.prior_covariances[component], scaled * solved)
        assert state.explained is not None
        assert state.whitening is not None
        whitened = _product(state.whitening[component], seen)
        return x + _product(whitened, state.explained[component])

    def _solve(self, history: History) -> MixtureState:
        """The posterior from the counts and means alone."""
        scaled = self._scaled(history)
        residual = (history.means - self.prior_means) * scaled

        def of_component(
            covariance: Float[Array, "K K"], q: Float[Array, " K"]
        ) -> tuple[dict[str, Float[Array, "K K"]], Float[Array, ""]]:
            B = jnp.eye(self.n_arms) + scaled[:, None] * covariance * scaled
            # Where evidence is so strong that rounding could make B indefinite, the noise counts
            # as larger than it is, by as much as float32 needs.
            B = B + jnp.maximum(2e-7 * jnp.trace(B) - 0.5, 0.0) * jnp.eye(self.n_arms)
            L = jnp.linalg.cholesky(B)
            half_log_determinant = jnp.sum(jnp.log(jnp.diag(L)))
            if not self.noise.constant:
                w = _solved(L, q)
                return {"factor": L}, -0.5 * jnp.sum(w**2) - half_log_determinant
            whitening = _solved(L, jnp.eye(self.n_arms))
            V = _solved(L, scaled[:, None] * covariance)
            w = _product(whitening, q)
            kept = {"explained": V, "whitening": whitening}
            return kept, -0.5 * jnp.sum(w**2) - half_log_determinant

        kept, log_likelihood = jax.vmap(of_component)(self.prior_covariances, residual)
        log_weights = jax.nn.log_softmax(self.prior_log_weights + log_likelihood)
        return MixtureState(history, log_weights, **kept)


def _moments(prior: GaussianMixture) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of each arm under a mixture."""
    mean = prior.weights @ prior.means
    variances = np.diagonal(prior.covariances, axis1=1, axis2=2)
    return mean, np.sqrt(prior.weights @ (variances + (prior.means - mean) ** 2))


def _solved(L: Array, right: Array) -> Array:
    """``L⁻¹ right`` of a lower factor."""
    return jax.scipy.linalg.solve_triangular(L, right, lower=True)


def _product(left: Array, right: Array) -> Array:
    """``left @ right`` in full float32, on a GPU too."""
    return jnp.matmul(left, right, precision=jax.lax.Precision.HIGHEST)
