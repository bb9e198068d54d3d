"""A factor Gaussian from incomplete, noisy data: ``x = μ + W z + e``, the start of our EM.

``z ~ N(0, I_r)`` is shared by all arms, ``e^a ~ N(0, ψ^a)`` is each arm's own, so the covariance
is ``WW' + diag(ψ)``. With known noise, ``y = x + ε`` is again a factor model whose own variances
are ``ψ + σ²``: EM with missing entries has closed-form steps in r × r matrices. Of K(K+1)/2
covariances only K(r+1) are fitted. The full covariance of half-missing data is far too noisy: its
small eigenvalues scatter around those of the truth, and so do posterior draws made with it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from diffts.chunks import cut
from diffts.diffusion.exact import Gaussian
from diffts.diffusion.observed import CHUNK_ENTRIES, on_cpu
from diffts.diffusion.units import Past, Units
from diffts.errors import InvalidInputError
from diffts.evidence import Evidence
from diffts.learning.fits.gaussian import pairwise_moments
from diffts.learning.fits.weighted import weighted_covariance, weighted_moments

SMALLEST_OWN_VARIANCE = 1e-4
ITERATIONS = 10


class Factors(NamedTuple):
    """Mean ``(K,)``, loadings ``(K, r)`` and own variances ``(K,)``."""

    mean: Float[Array, " K"]
    loadings: Float[Array, "K r"]
    own: Float[Array, " K"]


class FactorFit(NamedTuple):
    """A factor Gaussian ``N(μ, WW' + diag(ψ))``, and its rank."""

    mean: NDArray[np.float64]  # μ, (K,)
    loadings: NDArray[np.float64]  # W, (K, r)
    own: NDArray[np.float64]  # ψ, (K,)

    @property
    def rank(self) -> int:
        """Number of factors r."""
        return self.loadings.shape[1]

    def standardised(self, units: Units) -> FactorFit:
        """The same law of what ``units`` make of the tasks."""
        return FactorFit(
            units.standard(self.mean), self.loadings / units.scale, self.own / units.scale**2
        )

    @property
    def gaussian(self) -> Gaussian:
        """The same as a Gaussian of any covariance."""
        return Gaussian(self.mean, self.loadings @ self.loadings.T + np.diag(self.own))


def fit_factor_gaussian(
    evidence: Evidence,
    held_out: Evidence,
    most_factors: int | None = None,
    first_rank: int = 1,
) -> FactorFit:
    """The factor Gaussian whose rank, up to ``most_factors``, explains ``held_out`` best.

    From ``first_rank`` on, ranks are doubled until the held-out likelihood falls; then two more,
    between the best one and its neighbours, are tried. EM starts from the leading eigenvectors of
    the covariances of pairs observed together, and makes a third of its iterations in the search.
    """
    mean, covariance = _start(evidence)
    units = Units(float(mean.mean()), float(np.sqrt(max(np.diag(covariance).mean(), 1e-12))))
    centre, spread = units.standard(mean), covariance / units.scale**2
    eigenvalues, basis = np.linalg.eigh(spread)
    leading = (basis * np.sqrt(np.maximum(eigenvalues, 1e-6)))[:, ::-1]
    fits: dict[int, Factors] = {}
    scores: dict[int, float] = {}

    def try_rank(rank: int) -> float:
        loadings = leading[:, :rank]
        own = np.maximum(np.diag(spread) - (loadings**2).sum(1), 1e-2)
        factors = Factors(*(jnp.asarray(leaf, jnp.float32) for leaf in (centre, loadings, own)))
        for _ in range(ITERATIONS // 3):
            factors = _em_iteration(factors, *data)
        score = float(_log_likelihood(factors, *other)) / max(1.0, float(other[1].sum()))
        if not np.isfinite(score):
            raise InvalidInputError("evidence: the factor model broke down; are units extreme?")
        fits[rank], scores[rank] = factors, score
        return score

    with on_cpu():
        data, other = (_standard(sample, units) for sample in (evidence, held_out))
        most = max(1, min(evidence.n_arms, len(evidence.mean)) // 2)
        most = most if most_factors is None else min(most, most_factors)
        rank = min(first_rank, most)
        while try_rank(rank) == max(scores.values()) and 2 * rank <= most:
            rank *= 2
        best = max(scores, key=scores.__getitem__)
        for between in (3 * best // 4, 3 * best // 2):
            if between not in scores and 1 <= between <= most:
                try_rank(between)
        best = max(scores, key=scores.__getitem__)
        factors = fits[best]
        for _ in range(ITERATIONS - ITERATIONS // 3):
            factors = _em_iteration(factors, *data)
        fitted = units.restore(factors.mean), units.scale * factors.loadings
        mean, loadings = (np.asarray(leaf, np.float64) for leaf in fitted)
        own = np.asarray(units.scale**2 * factors.own, np.float64)
    return FactorFit(mean, loadings, own)


def _start(evidence: Evidence) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """First moments; weighted where some entries are known better than others."""
    std = np.asarray(evidence.std)[np.asarray(evidence.mask, bool)]
    if std.size == 0 or (std == std.flat[0]).all():
        return pairwise_moments(evidence)
    moments = weighted_moments(evidence)
    return moments.mean, weighted_covariance(evidence, moments)


def _standard(evidence: Evidence, units: Units) -> tuple[Array, Array, Array]:
    """Values (0 where unobserved), mask and noise variances, standardised."""
    standard = units.standard_past(Past(*(np.asarray(leaf) for leaf in jax.tree.leaves(evidence))))
    return standard.mean, standard.mask.astype(jnp.float32), standard.std**2


def _posterior(factors: Factors, y: Array, mask: Array, variance: Array) -> tuple[Array, ...]:
    """Of some tasks: E[z], Cov[z], log likelihood, and the precisions ``q`` of observed arms."""
    mean, loadings, own = factors
    rank = loadings.shape[1]
    q = mask / (own + variance)
    residual = mask * (y - mean)
    products = (loadings[:, :, None] * loadings[:, None, :]).reshape(len(mean), -1)
    precision = jnp.eye(rank) + (q @ products).reshape(-1, rank, rank)
    b = (q * residual) @ loadings
    factor = jnp.linalg.cholesky(precision)
    identity = jnp.broadcast_to(jnp.eye(rank), precision.shape)
    covariance = jax.scipy.linalg.cho_solve((factor, True), identity)
    z = jnp.einsum("nrs,ns->nr", covariance, b)
    log_likelihood = -0.5 * (
        jnp.sum(q * residual**2)
        - jnp.sum(b * z)
        + 2 * jnp.sum(jnp.log(jnp.diagonal(factor, axis1=1, axis2=2)))
        - jnp.sum(jnp.where(mask > 0, jnp.log(jnp.where(mask > 0, q, 1.0)), 0.0))
        + jnp.sum(mask) * jnp.log(2 * jnp.pi)
    )
    return z, covariance, log_likelihood, q


@eqx.filter_jit
def _log_likelihood(factors: Factors, y: Array, mask: Array, variance: Array) -> Array:
    chunks = cut((y, mask, variance), CHUNK_ENTRIES // (factors.loadings.shape[1] + 1) ** 2)
    with jax.default_matmul_precision("highest"):
        return jnp.sum(jax.lax.map(lambda chunk: _posterior(factors, *chunk)[2], chunks))


@eqx.filter_jit
def _em_iteration(factors: Factors, y: Array, mask: Array, variance: Array) -> Factors:
    """One EM iteration: regress each arm on the factors over the tasks that observed it.

    The regression's weights ``q`` are the precisions at the current ``ψ``, and those of ``ψ`` are
    ``q²``: where the likelihood is largest. They matter only where the noise differs from task to
    task.
    """
    n_arms, rank = factors.loadings.shape
    chunks = cut((y, mask, variance), CHUNK_ENTRIES // (rank + 1) ** 2)

    def sums(carry: Any, chunk: Any) -> tuple[Any, None]:
        z, covariance, _, q = _posterior(factors, *chunk)
        first = jnp.concatenate([z, jnp.ones((len(z), 1))], axis=1)  # E[(z, 1)] of each task
        second = first[:, :, None] * first[:, None, :]
        second = second.at[:, :rank, :rank].add(covariance).reshape(len(z), -1)  # E[(z, 1)(z, 1)']
        return (carry[0] + q.T @ second, carry[1] + (q * chunk[0]).T @ first), None

    def spread(carry: Any, chunk: Any) -> tuple[Any, None]:
        z, covariance, _, q = _posterior(factors, *chunk)
        values, observed, noise = chunk
        residual = observed * (values - mean - z @ loadings.T)
        products = (loadings[:, :, None] * loadings[:, None, :]).reshape(n_arms, -1)
        uncertain = covariance.reshape(len(z), -1) @ products.T
        excess = residual**2 + uncertain - noise
        return (carry[0] + jnp.sum(q**2 * excess, 0), carry[1] + jnp.sum(q**2, 0)), None

    with jax.default_matmul_precision("highest"):
        zeros = (jnp.zeros((n_arms, (rank + 1) ** 2)), jnp.zeros((n_arms, rank + 1)))
        (second, first), _ = jax.lax.scan(sums, zeros, chunks)
        # The ridge keeps an arm that nobody observed at the overall mean, without loadings.
        matrix = second.reshape(n_arms, rank + 1, rank + 1) + 1e-3 * jnp.eye(rank + 1)
        solution = jnp.linalg.solve(matrix, first[:, :, None])[..., 0]
        loadings, mean = solution[:, :rank], solution[:, rank]
        start = (jnp.zeros(n_arms), jnp.zeros(n_arms))
        (excess, total), _ = jax.lax.scan(spread, start, chunks)
    own = jnp.where(total > 0, excess / jnp.where(total > 0, total, 1.0), 1.0)
    return Factors(mean, loadings, jnp.maximum(own, SMALLEST_OWN_VARIANCE))
