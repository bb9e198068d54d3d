"""Gaussians and mixtures from incomplete, noisy data: EM whose steps have closed forms.

The data of task ``i`` are ``y_i = x_i + ε_i`` on its observed arms ``o``, with known noise
``D_i = diag(σ_i²)``; the tasks ``x_i`` come from ``Σ_k w_k N(μ_k, Σ_k)``. With the precision
``A_ik = (Σ_k[o, o] + D_i)⁻¹`` of the observed arms, put back into a K × K matrix of zeros, and
``u_ik = A_ik (y_i - μ_k)``:

- E-step: ``r_ik ∝ w_k N(y_i; μ_k[o], Σ_k[o, o] + D_i)``, ``E[x_i | y_i, k] = μ_k + Σ_k u_ik``;
- M-step: ``μ_k ← μ_k + Σ_k ū_k`` and ``Σ_k ← Σ_k + Σ_k (Cov_k[u] - Ā_k) Σ_k``, where bars and
  the covariance are averages over tasks with weights ``r_ik``.

So one small inverse for each task and each component that may have made it is all the work: no
K × K matrix is made for a task.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array, Bool, Float, Int

from diffts.diffusion.exact import Gaussian, GaussianMixture
from diffts.diffusion.posterior.batched import padded_size
from diffts.errors import InvalidInputError
from diffts.evidence import Evidence
from diffts.learning.factor import fit_factor_gaussian
from diffts.learning.gaussian import fit_mixture
from diffts.learning.on_cpu import on_cpu
from diffts.seeding import KeyArray, Seed, as_generator, as_key
from diffts.validation import whole_number

#: Entries of the small matrices that are worked on together: bounds the memory.
CHUNK_ENTRIES = 2**23
#: A task weighs nothing in components that made it with a smaller probability.
SMALLEST_SHARE = 1e-4


class Observed(NamedTuple):
    """The observed arms of each task, in front, padded to the largest number ``P`` of them."""

    arm: Int[Any, "N P"]
    value: Float[Any, "N P"]
    variance: Float[Any, "N P"]
    present: Bool[Any, "N P"]


class Parameters(NamedTuple):
    """A mixture: weights ``(C,)``, means ``(C, K)``, covariances ``(C, K, K)``."""

    log_weights: Float[Array, " C"]
    means: Float[Array, "C K"]
    covariances: Float[Array, "C K K"]


def fit_mixture_imperfect(
    evidence: Evidence, components: int, seed: Seed = 0, *, iterations: int = 4
) -> GaussianMixture:
    """A full-covariance mixture from incomplete, noisy tasks, by EM on what was observed.

    It starts from a mixture fitted to posterior draws under a factor Gaussian. Each covariance is
    drawn towards that Gaussian's by a conjugate prior worth K tasks: half-missing data of a tenth
    of the tasks cannot tell K(K+1)/2 numbers.
    """
    generator = as_generator(seed)
    order = generator.permutation(len(evidence.mean))
    cut = max(1, len(order) // 6)
    parts = [
        Evidence(*(np.asarray(leaf)[rows] for leaf in (evidence.mean, evidence.std, evidence.mask)))
        for rows in (order[cut:] if len(order) > 1 else order, order[:cut])
    ]
    gaussian, _ = fit_factor_gaussian(*parts)
    draws = draw_posterior(gaussian, evidence, 1, seed=generator)[0]
    start = fit_mixture(draws, components, seed=generator)
    return fit_by_em(evidence, start, towards=gaussian, iterations=iterations)


def fit_by_em(
    evidence: Evidence,
    start: GaussianMixture,
    *,
    towards: Gaussian | None = None,
    strength: float | None = None,
    iterations: int = 50,
    tolerance: float = 1e-4,
    floor: float = 1e-6,
    on_iteration: Callable[[int, float], None] | None = None,
) -> GaussianMixture:
    """The likeliest mixture near ``start``, given incomplete and noisy tasks.

    Args:
        evidence: the tasks, ``(N, K)``.
        start: where EM starts from; its number of components is kept.
        towards: a Gaussian whose covariance each component's is drawn to, by a conjugate
            (inverse Wishart) prior; None for the plain maximum of the likelihood.
        strength: how many tasks that prior is worth; by default K.
        iterations: at most so many.
        tolerance: stop when the log likelihood an observation changes by less than this.
        floor: smallest eigenvalue of a covariance, relative to the mean variance of the start.
        on_iteration: called with the iteration and the mean log likelihood of an observation.
    """
    whole_number("iterations", iterations, 1)
    with on_cpu():
        return _fit_by_em(
            evidence, start, towards, strength, iterations, tolerance, floor, on_iteration
        )


def _fit_by_em(
    evidence: Evidence,
    start: GaussianMixture,
    towards: Gaussian | None,
    strength: float | None,
    iterations: int,
    tolerance: float,
    floor: float,
    on_iteration: Callable[[int, float], None] | None,
) -> GaussianMixture:
    observed = pack(evidence)
    scale = float(np.mean(start.std**2)) ** 0.5 or 1.0
    shift = float(start.mean.mean())
    data = _standardised(observed, shift, scale)
    now = _parameters(start, shift, scale)
    pull = jnp.float32(
        0.0 if towards is None else evidence.n_arms if strength is None else strength
    )
    centre = np.eye(evidence.n_arms) if towards is None else towards.covariance / scale**2
    target = jnp.asarray(centre, jnp.float32)
    count = int(np.asarray(observed.present).sum())
    last = -np.inf
    for iteration in range(iterations):
        proposed, log_likelihood = _em_iteration(now, data, jnp.float32(floor), target, pull)
        score = log_likelihood / count
        if not np.isfinite(score):
            raise InvalidInputError("evidence: EM for the mixture broke down; are units extreme?")
        if on_iteration is not None:
            on_iteration(iteration, score - math.log(scale))
        if abs(score - last) < tolerance:  # with a prior the likelihood may fall, too
            break
        last, now = score, proposed
    weights = np.exp(np.asarray(now.log_weights, np.float64))
    return GaussianMixture(
        weights / weights.sum(),
        shift + scale * np.asarray(now.means, np.float64),
        scale**2 * np.asarray(now.covariances, np.float64),
    )


def draw_posterior(
    prior: Gaussian | GaussianMixture, evidence: Evidence, draws: int = 1, seed: Seed = 0
) -> np.ndarray:
    """``draws`` exact posterior draws for each task, ``(draws, N, K)``.

    By Matheron's rule: take ``x`` from the prior and a pretended observation ``ỹ`` of it; then
    ``x + Σ_k A_ik (y_i - ỹ)`` is a draw from component ``k``'s posterior.
    """
    mixture = (
        prior
        if isinstance(prior, GaussianMixture)
        else GaussianMixture([1.0], prior.mean[None], prior.covariance[None])
    )
    scale = float(np.mean(mixture.std**2)) ** 0.5 or 1.0
    shift = float(mixture.mean.mean())
    roots = []
    for component in mixture.components:
        eigenvalues, basis = np.linalg.eigh(component.covariance / scale**2)
        roots.append(basis * np.sqrt(np.maximum(eigenvalues, 0.0)))
    key_data = np.asarray(jax.random.key_data(as_key(seed)))
    with on_cpu():
        parameters = _parameters(mixture, shift, scale)
        data = _standardised(pack(evidence), shift, scale)
        key = jax.random.wrap_key_data(jnp.asarray(key_data))
        root = jnp.asarray(np.stack(roots), jnp.float32)
        values = _draw(parameters, root, data, key, draws)
    return shift + scale * np.asarray(values, np.float64)


def pack(evidence: Evidence) -> Observed:
    """The observed entries alone."""
    mask = np.asarray(evidence.mask)
    width = max(1, int(mask.sum(1).max(initial=0)))
    arm = np.argsort(~mask, axis=1, kind="stable")[:, :width]
    rows = np.arange(len(mask))[:, None]
    present = mask[rows, arm]
    return Observed(
        arm,
        np.asarray(evidence.mean)[rows, arm],
        np.asarray(evidence.std)[rows, arm] ** 2,
        present,
    )


def _parameters(mixture: GaussianMixture, shift: float, scale: float) -> Parameters:
    """A mixture in standardised units."""
    return Parameters(
        jnp.asarray(np.log(np.maximum(mixture.weights, 1e-30)), jnp.float32),
        jnp.asarray((mixture.means - shift) / scale, jnp.float32),
        jnp.asarray(mixture.covariances / scale**2, jnp.float32),
    )


def _standardised(observed: Observed, shift: float, scale: float) -> Observed:
    present = observed.present
    # Noiseless arms get a millionth of the variance as noise: float32 cannot invert more.
    variance = np.maximum(observed.variance / scale**2, 1e-6)
    return Observed(
        jnp.asarray(observed.arm, jnp.int32),
        jnp.asarray(np.where(present, (observed.value - shift) / scale, 0.0), jnp.float32),
        jnp.asarray(np.where(present, variance, 0.0), jnp.float32),
        jnp.asarray(present),
    )


def _chunks(data: Observed, components: int) -> tuple[Observed, int]:
    """The tasks cut into equal chunks ``(chunks, rows, P)``; added rows observe nothing."""
    tasks, width = data.arm.shape
    most = max(1, CHUNK_ENTRIES // (components * width**2))
    chunks = -(-tasks // most)
    rows = -(-tasks // chunks)
    padded = jax.tree.map(
        lambda leaf: jnp.pad(leaf, ((0, chunks * rows - tasks), (0, 0))).reshape(
            chunks, rows, width
        ),
        data,
    )
    return padded, tasks


def _factor(
    mean: Float[Array, " K"], covariance: Float[Array, "K K"], task: Observed
) -> tuple[Float[Array, "P P"], Float[Array, " P"]]:
    """Cholesky factor of ``Σ[o, o] + D`` (the identity where padded), and ``y - μ[o]``."""
    both = task.present[:, None] & task.present[None, :]
    spread = jnp.where(both, covariance[task.arm[:, None], task.arm[None, :]], 0.0)
    spread = spread + jnp.diag(jnp.where(task.present, task.variance, 1.0))
    residual = jnp.where(task.present, task.value - mean[task.arm], 0.0)
    return jnp.linalg.cholesky(spread), residual


def _log_density(factor: Float[Array, "P P"], residual: Float[Array, " P"]) -> Float[Array, ""]:
    """Log density of ``N(0, LL')`` at the residual, without the constant."""
    whitened = jax.scipy.linalg.solve_triangular(factor, residual, lower=True)
    return -0.5 * jnp.sum(whitened**2) - jnp.sum(jnp.log(jnp.diag(factor)))


def _em_iteration(
    now: Parameters,
    data: Observed,
    floor: Float[Array, ""],
    target: Float[Array, "K K"],
    pull: Float[Array, ""],
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
            floor,
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
    chunked, n_tasks = _chunks(data, 1)

    def of_task(task: Observed, mean: Any, covariance: Any) -> Float[Array, ""]:
        constant = 0.5 * math.log(2 * math.pi) * jnp.sum(task.present)
        return _log_density(*_factor(mean, covariance, task)) - constant

    def of_component(component: tuple[Any, Any]) -> Float[Array, " N"]:
        values = jax.lax.map(
            lambda tasks: jax.vmap(of_task, in_axes=(0, None, None))(tasks, *component), chunked
        )
        return values.reshape(-1)[:n_tasks]

    return now.log_weights + jax.lax.map(of_component, (now.means, now.covariances)).T


@eqx.filter_jit
def _component_step(
    mean: Float[Array, " K"],
    covariance: Float[Array, "K K"],
    data: Observed,
    r: Float[Array, " N"],
    floor: Float[Array, ""],
    target: Float[Array, "K K"],
    pull: Float[Array, ""],
) -> tuple[Float[Array, " K"], Float[Array, "K K"]]:
    """The M-step of one component, from the tasks that it may have made."""
    n_arms = len(mean)
    chunked, n_tasks = _chunks(data, 1)
    rows = chunked.arm.shape[1]
    share = jnp.pad(r, (0, len(chunked.arm) * rows - n_tasks)).reshape(-1, rows)

    def of_task(task: Observed) -> tuple[Array, Array]:
        factor, residual = _factor(mean, covariance, task)
        precision = jax.scipy.linalg.cho_solve((factor, True), jnp.eye(len(residual)))
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
        (first, second, precisions), _ = jax.lax.scan(of_chunk, zeros, (chunked, share))
        weight = jnp.sum(r)
        u_bar = first / weight
        bend = (second - precisions) / weight - jnp.outer(u_bar, u_bar)
        updated = covariance + covariance @ bend @ covariance
        updated = (weight * updated + pull * target) / (weight + pull)
        return mean + covariance @ u_bar, _floored(updated, floor)


def _floored(matrix: Float[Array, "K K"], floor: Float[Array, ""]) -> Float[Array, "K K"]:
    """The symmetric part, with eigenvalues of at least ``floor``."""
    eigenvalues, basis = jnp.linalg.eigh(0.5 * (matrix + matrix.T))
    return (basis * jnp.maximum(eigenvalues, floor)) @ basis.T


@eqx.filter_jit
def _draw(
    prior: Parameters, roots: Float[Array, "C K K"], data: Observed, key: KeyArray, draws: int
) -> Float[Array, "draws N K"]:
    n_components, n_arms = prior.means.shape
    chunked, n_tasks = _chunks(data, n_components)
    rows = chunked.arm.shape[1]
    numbers = jnp.arange(len(chunked.arm) * rows).reshape(-1, rows)

    def of_task(task: Observed, number: Int[Array, ""]) -> Float[Array, "draws K"]:
        factors, residuals = jax.vmap(lambda m, c: _factor(m, c, task))(
            prior.means, prior.covariances
        )
        joint = prior.log_weights + jax.vmap(_log_density)(factors, residuals)

        def one(draw_key: KeyArray) -> Float[Array, " K"]:
            which_key, prior_key, noise_key = jax.random.split(draw_key, 3)
            k = jax.random.categorical(which_key, joint)
            x = prior.means[k] + roots[k] @ jax.random.normal(prior_key, (n_arms,))
            noise = jnp.sqrt(task.variance) * jax.random.normal(noise_key, task.arm.shape)
            missed = jnp.where(task.present, task.value - x[task.arm] - noise, 0.0)
            u = jax.scipy.linalg.cho_solve((factors[k], True), missed)
            return x + prior.covariances[k][:, task.arm] @ u

        task_key = jax.random.fold_in(key, number)
        return jax.vmap(one)(jax.random.split(task_key, draws))

    with jax.default_matmul_precision("highest"):
        values = jax.lax.map(lambda inputs: jax.vmap(of_task)(*inputs), (chunked, numbers))
    return jnp.swapaxes(values.reshape(-1, draws, n_arms)[:n_tasks], 0, 1)
