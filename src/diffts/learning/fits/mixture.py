"""Fitting a Gaussian mixture to past tasks.

Exact means go to scikit-learn. For incomplete, noisy ones EM has closed-form steps. The data of
task ``i`` are ``y_i = x_i + ε_i`` on its observed arms ``o``, with noise ``D_i = diag(σ_i²)``; the
tasks ``x_i`` come from ``Σ_k w_k N(μ_k, Σ_k)``. With ``A_ik = (Σ_k[o, o] + D_i)⁻¹``, put back into
a K × K matrix of zeros, and ``u_ik = A_ik (y_i - μ_k)``:

- E-step: ``r_ik ∝ w_k N(y_i; μ_k[o], Σ_k[o, o] + D_i)``, ``E[x_i | y_i, k] = μ_k + Σ_k u_ik``;
- M-step: ``μ_k ← μ_k + Σ_k ū_k`` and ``Σ_k ← Σ_k + Σ_k (Cov_k[u] - Ā_k) Σ_k``, where bars and
  the covariance are averages over tasks with weights ``r_ik``.

So one small inverse for each task and each component that may have made it is all the work: no
K × K matrix is made for a task.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from diffts.chunks import cut, padded_size
from diffts.diffusion.exact import Gaussian, GaussianMixture, draw_posterior
from diffts.diffusion.observed import Observed, Parameters, factor, log_density, on_cpu
from diffts.errors import InvalidInputError
from diffts.evidence import Evidence
from diffts.extras import optional
from diffts.learning.fits.factor import fit_factor_gaussian
from diffts.seeding import Seed, as_generator
from diffts.validation import finite_array, number_between, whole_number

#: A task weighs nothing in components that made it with a smaller probability.
SMALLEST_SHARE = 1e-4
#: Smallest eigenvalue of a covariance, relative to the mean variance of the start.
SMALLEST_EIGENVALUE = 1e-6
#: A conjugate prior is worth no more: a float32 counts so far.
MOST_TASKS = 1e7


def fit_mixture(
    past: ArrayLike | Evidence,
    components: int,
    seed: Seed = 0,
    *,
    near: Gaussian | None = None,
    regularisation: float = 1e-6,
    prior_tasks: float | None = None,
) -> GaussianMixture:
    """A full-covariance Gaussian mixture of past tasks ``(N, K)``.

    From exact means by scikit-learn's EM, from k-means' clusters. From evidence by
    :func:`fit_by_em`: it starts from a mixture fitted to posterior draws under a factor Gaussian,
    and each covariance is drawn towards that Gaussian's. Half-missing data of a tenth of the tasks
    cannot tell K(K+1)/2 numbers.

    Args:
        past: exact mean rewards ``(N, K)``, or evidence about them.
        components: how many Gaussians.
        seed: of k-means' start; for evidence also of the draws that it starts from.
        near: the factor Gaussian, from whoever has it; else it is fitted here, from evidence alone.
        regularisation: the share of the data's variance that EM adds to each diagonal, so that any
            units will do. For evidence, of the draws that it starts from alone.
        prior_tasks: the tasks that the conjugate prior is worth which draws each covariance towards
            a Gaussian's; None for K of them from evidence, and none from exact means. For exact
            means that Gaussian is the one of all tasks, and covariances are drawn once, after EM.
    """
    number_between("regularisation", regularisation, 0.0, 1.0)
    if prior_tasks is not None:
        number_between("prior_tasks", prior_tasks, 0.0, MOST_TASKS)
    if isinstance(past, Evidence):
        generator = as_generator(seed)
        gaussian = _factor_gaussian(past, generator) if near is None else near
        draws = draw_posterior(gaussian, past, 1, seed=generator)[0]
        start = fit_mixture(draws, components, seed=generator, regularisation=regularisation)
        return fit_by_em(past, start, towards=gaussian, prior_tasks=prior_tasks, iterations=4)
    ConvergenceWarning = optional("sklearn.exceptions", "fitting a mixture").ConvergenceWarning
    Fit = optional("sklearn.mixture", "fitting a mixture").GaussianMixture
    data = finite_array("past", past, ndim=2)
    components = whole_number("components", components, 1)
    if components > len(data):
        raise InvalidInputError(f"components: {components} of a mixture, from {len(data)} tasks")
    fit = Fit(
        components,
        covariance_type="full",
        reg_covar=regularisation * float(data.var()) + 1e-12,
        max_iter=100,
        random_state=int(as_generator(seed).integers(2**31)),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 100 steps are enough for a prior
        fit.fit(data)
    weights, covariances = fit.weights_ / fit.weights_.sum(), fit.covariances_
    if prior_tasks:
        tasks = (len(data) * weights)[:, None, None]
        target = np.cov(data.T, bias=True).reshape(covariances[0].shape)
        covariances = (tasks * covariances + prior_tasks * target) / (tasks + prior_tasks)
    return GaussianMixture(weights, fit.means_, covariances)


def _factor_gaussian(past: Evidence, generator: np.random.Generator) -> Gaussian:
    """Fitted to five sixths of the tasks; the others tell its rank."""
    order = generator.permutation(len(past.mean))
    kept_back = max(1, len(order) // 6)
    fitted_to, others = (
        jax.tree.map(lambda leaf, rows=rows: np.asarray(leaf)[rows], past)
        for rows in (order[kept_back:] if len(order) > 1 else order, order[:kept_back])
    )
    return fit_factor_gaussian(fitted_to, others).gaussian


def fit_by_em(
    evidence: Evidence,
    start: GaussianMixture,
    *,
    towards: Gaussian | None = None,
    prior_tasks: float | None = None,
    iterations: int = 50,
    tolerance: float = 1e-4,
    on_iteration: Callable[[int, float], None] | None = None,
) -> GaussianMixture:
    """The likeliest mixture near ``start``, given incomplete and noisy tasks ``(N, K)``.

    Each component's covariance is drawn ``towards`` that of a Gaussian, by a conjugate (inverse
    Wishart) prior worth ``prior_tasks`` tasks, by default K; None for the plain maximum of the
    likelihood. EM stops when the log likelihood of an observation changes by less than
    ``tolerance``; ``on_iteration`` is called with the iteration and that likelihood.
    """
    whole_number("iterations", iterations, 1)
    units = start.arm_units
    count = int(np.asarray(evidence.mask).sum())
    if prior_tasks is None:
        prior_tasks = evidence.n_arms
    pull = 0.0 if towards is None else number_between("prior_tasks", prior_tasks, 0.0, MOST_TASKS)
    centre = np.eye(evidence.n_arms) if towards is None else towards.covariance / units.scale**2
    last = -np.inf
    with on_cpu():
        data = Observed.pack(evidence, units)
        now = Parameters.of(start.standardised(units))
        prior = (jnp.asarray(centre, jnp.float32), jnp.float32(pull))
        for iteration in range(iterations):
            proposed, log_likelihood = _em_iteration(now, data, *prior)
            score = log_likelihood / count
            if not np.isfinite(score):
                raise InvalidInputError(
                    "evidence: EM for the mixture broke down; are units extreme?"
                )
            if on_iteration is not None:
                on_iteration(iteration, score - math.log(units.scale))
            if abs(score - last) < tolerance:  # with a prior the likelihood may fall, too
                break
            last, now = score, proposed
    weights = np.exp(np.asarray(now.log_weights, np.float64))
    return GaussianMixture(
        weights / weights.sum(),
        units.restore(np.asarray(now.means, np.float64)),
        units.scale**2 * np.asarray(now.covariances, np.float64),
    )


def _em_iteration(
    now: Parameters, data: Observed, target: Float[Array, "K K"], pull: Float[Array, ""]
) -> tuple[Parameters, float]:
    """One EM iteration, and the log likelihood of the parameters it started from."""
    joint = np.asarray(_joint(now, data), np.float64)
    total = scipy.special.logsumexp(joint, axis=1)
    r = np.exp(joint - total[:, None])
    means, covariances = [], []
    for k in range(len(now.means)):
        rows = np.flatnonzero(r[:, k] > SMALLEST_SHARE)
        if not len(rows):  # a component that lost all its tasks stays where it was
            means.append(now.means[k])
            covariances.append(now.covariances[k])
            continue
        rows = np.resize(rows, padded_size(len(rows)))
        share = np.where(np.arange(len(rows)) < (r[:, k] > SMALLEST_SHARE).sum(), r[rows, k], 0.0)
        mean, covariance = _component_step(
            now.means[k],
            now.covariances[k],
            jax.tree.map(lambda leaf, rows=rows: leaf[rows], data),
            jnp.asarray(share, jnp.float32),
            target,
            pull,
        )
        means.append(mean)
        covariances.append(covariance)
    weights = np.log(np.maximum(r.mean(0), 1e-30))
    proposed = Parameters(
        jnp.asarray(weights, jnp.float32), jnp.stack(means), jnp.stack(covariances)
    )
    return proposed, float(total.sum())


@eqx.filter_jit
def _joint(now: Parameters, data: Observed) -> Float[Array, "N C"]:
    """``log w_k + log N(y_i; μ_k[o], Σ_k[o, o] + D_i)``."""
    chunked = cut(data, data.chunk_rows())

    def of_task(task: Observed, mean: Any, covariance: Any) -> Float[Array, ""]:
        constant = 0.5 * math.log(2 * math.pi) * jnp.sum(task.present)
        return log_density(*factor(mean, covariance, task)) - constant

    def of_component(component: tuple[Any, Any]) -> Float[Array, " N"]:
        values = jax.lax.map(
            lambda tasks: jax.vmap(of_task, in_axes=(0, None, None))(tasks, *component), chunked
        )
        return values.reshape(-1)[: len(data.arm)]

    return now.log_weights + jax.lax.map(of_component, (now.means, now.covariances)).T


@eqx.filter_jit
def _component_step(
    mean: Float[Array, " K"],
    covariance: Float[Array, "K K"],
    data: Observed,
    r: Float[Array, " N"],
    target: Float[Array, "K K"],
    pull: Float[Array, ""],
) -> tuple[Float[Array, " K"], Float[Array, "K K"]]:
    """The M-step of one component, from the tasks that it may have made."""
    n_arms = len(mean)
    chunked = cut((data, r), data.chunk_rows())

    def of_task(task: Observed) -> tuple[Array, Array]:
        root, residual = factor(mean, covariance, task)
        precision = jax.scipy.linalg.cho_solve((root, True), jnp.eye(len(residual)))
        u = jnp.zeros(n_arms).at[task.arm].add(jnp.where(task.present, precision @ residual, 0.0))
        both = task.present[:, None] & task.present[None, :]
        return u, jnp.where(both, precision, 0.0)

    def of_chunk(sums: Any, inputs: Any) -> tuple[Any, None]:
        tasks, r = inputs
        u, precision = jax.vmap(of_task)(tasks)
        first, second, precisions = sums
        into = tasks.arm[:, :, None], tasks.arm[:, None, :]
        return (
            first + r @ u,
            second + jnp.einsum("n,nk,nj->kj", r, u, u),
            precisions.at[into].add(r[:, None, None] * precision),
        ), None

    zeros = (jnp.zeros(n_arms), jnp.zeros((n_arms, n_arms)), jnp.zeros((n_arms, n_arms)))
    with jax.default_matmul_precision("highest"):
        (first, second, precisions), _ = jax.lax.scan(of_chunk, zeros, chunked)
        weight = jnp.sum(r)
        u_bar = first / weight
        bend = (second - precisions) / weight - jnp.outer(u_bar, u_bar)
        updated = covariance + covariance @ bend @ covariance
        updated = (weight * updated + pull * target) / (weight + pull)
        eigenvalues, basis = jnp.linalg.eigh(0.5 * (updated + updated.T))
        updated = (basis * jnp.maximum(eigenvalues, SMALLEST_EIGENVALUE)) @ basis.T
        return mean + covariance @ u_bar, updated
