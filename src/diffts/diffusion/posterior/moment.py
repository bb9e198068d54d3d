"""Moment matching: condition the denoiser's estimate on the evidence, then step back.

The denoiser's Jacobian ``J`` holds the whole conditional covariance of a task given a latent:
``Cov[x_0 | x_ℓ] = C = (1-ᾱ_ℓ)/√ᾱ_ℓ · J`` (Tweedie's second-order formula; exact for the exact
denoiser of any prior). With it the evidence about some arms moves the estimate of all arms, as
in a Gaussian posterior.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diffts.diffusion.denoiser import Denoiser, Vector
from diffts.diffusion.posterior.sampler import PosteriorSampler, ReverseStep
from diffts.errors import InvalidInputError
from diffts.evidence import Evidence
from diffts.seeding import KeyArray


class MomentSampler(PosteriorSampler):
    """Reverse steps around the conditional mean ``E[x_0 | x_ℓ, y]`` of a local Gaussian.

    ``E[x_0 | x_ℓ, y] = x̂_0 + Cᵀu`` where ``u`` solves ``(σ² + C)u = y - x̂_0`` on the observed
    arms. The solve starts from the diagonal answer ``(y - x̂_0)/(σ² + τ²)``, exact for one
    observed arm of a Gaussian, and goes on with ``iterations`` steps of conjugate gradients.
    Each step costs one vector-Jacobian product, about one pass of the denoiser; a step of the
    chain costs ``3 + iterations`` or so. With an exact ``C``, the solution brings the estimate
    nearer to the evidence: ``Σ r²/σ²`` never grows. A network's ``C`` is only roughly a covariance,
    and may do otherwise; then the answer of the iterations is shortened until it does not.

    ``iterations=0`` ('moment-diagonal') is the cheapest. It over-counts correlated observations;
    with a learned denoiser, whose Jacobian is only roughly a covariance, it has the lower regret
    (docs/samplers.md).

    ``residual=True`` ('moment-learned') is for learned denoisers. Of an exact one, ``C`` has the
    diagonal ``τ²`` on average; a network that cannot pass every arm's own value through has a
    smaller one. The missing variance ``δ = τ² (1 - tr C / Σ τ²)``, with the trace from one random
    probe, is put back arm by arm: ``C + diag(δ)`` takes the place of ``C``.

    ``damped=True`` ('moment-damped', with the residual) shortens the diagonal answer ``z`` where
    it over-counts: ``αz`` with the ``α <= 1`` that is best along ``z``, for one more product. Where
    many observed arms say the same thing, chains can diverge without it, short ones even of an
    exact denoiser.
    """

    iterations: int = eqx.field(static=True, default=4)
    residual: bool = eqx.field(static=True, default=False)
    damped: bool = eqx.field(static=True, default=False)

    def __check_init__(self) -> None:
        if self.iterations < 0:
            raise InvalidInputError(f"iterations: must be at least 0, got {self.iterations}")

    @property
    def version(self) -> int:
        """2 with a solve, which only contracts since then."""
        return 2 if self.iterations else 1

    def step(
        self, key: KeyArray, x: Vector, step: ReverseStep, denoiser: Denoiser, evidence: Evidence
    ) -> Vector:
        """Reverse step with the conditional mean, and the conditional variance of each arm."""
        transition, source = step.transition, step.transition.source
        tau2, sigma2 = step.tau**2, evidence.std**2
        x0_hat, pullback = jax.vjp(lambda latent: denoiser(latent, source), x)
        covariance_scale = source.noise**2 / source.signal

        def jacobian_part(u: Vector) -> Vector:
            """``Cᵀ u`` (C is symmetric for an exact denoiser)."""
            return covariance_scale * pullback(u)[0]

        unexplained = jnp.zeros_like(tau2)
        if self.residual:
            key, probe_key = jax.random.split(key)
            probe = jax.random.rademacher(probe_key, x.shape, x.dtype)
            trace = _dot(probe, jacobian_part(probe))
            share = jnp.clip(trace / jnp.maximum(jnp.sum(tau2), 1e-12), 0.0, 1.0)
            unexplained = (1.0 - share) * tau2

        def covariance_times(u: Vector) -> Vector:
            return jacobian_part(u) + unexplained * u

        residual = jnp.where(evidence.mask, evidence.mean - x0_hat, 0.0)
        diagonal = jnp.maximum(sigma2 + tau2, 1e-12)
        # Arms observed without noise, of a denoiser without error, tell nothing of the others.
        telling = evidence.mask & (sigma2 + tau2 > 1e-12)
        u = _solve_observed(
            covariance_times,
            jnp.where(telling, residual, 0.0),
            diagonal,
            sigma2,
            telling,
            self.iterations,
            self.damped,
        )
        moved = covariance_times(u)
        if self.iterations:
            moved = moved * _contraction(residual, moved, sigma2, tau2, telling)
        shared = x0_hat + moved

        # At ℓ = 0 the answer is the exact product of N(x̂_0, τ²) and N(y, σ²), arm by arm; an
        # exact observation wins, even over a prior without any doubt.
        gain = jnp.where(sigma2 > 0, tau2 / diagonal, 1.0)
        gain = jnp.where(evidence.mask, gain, 0.0)
        product = x0_hat + gain * residual
        mean_x0 = jnp.where(transition.is_last > 0, product, shared)

        mean = transition.c0 * mean_x0 + transition.c1 * x
        variance = step.variance((1.0 - gain) * tau2)
        return mean + jnp.sqrt(variance) * jax.random.normal(key, x.shape)


def _dot(a: Vector, b: Vector) -> Float[Array, ""]:
    """``a · b`` as a plain sum: a GPU would take a product of matrices in reduced precision."""
    return jnp.sum(a * b)


def _contraction(
    residual: Vector, moved: Vector, sigma2: Vector, tau2: Vector, mask: Array
) -> Float[Array, ""]:
    """The largest ``s ≤ 1`` for which ``s · moved`` brings the estimate no further from evidence.

    That is ``Σ (r - s m)²/σ² ≤ Σ r²/σ²``: ``s ≤ 2 ⟨r, m⟩ / ⟨m, m⟩``. Arms that are known to more
    than a hundredth of the denoiser's error count like those.
    """
    weight = jnp.where(mask, 1.0 / jnp.maximum(jnp.maximum(sigma2, 1e-4 * tau2), 1e-12), 0.0)
    along = jnp.sum(weight * residual * moved)
    length = jnp.sum(weight * moved * moved)
    return jnp.clip(2.0 * along / jnp.where(length > 0, length, 1.0), 0.0, 1.0)


def _solve_observed(
    covariance_times: Callable[[Vector], Vector],
    residual: Vector,
    diagonal: Vector,
    sigma2: Vector,
    mask: Array,
    iterations: int,
    damped: bool,
) -> Vector:
    """``u`` with ``(σ² + C)u = residual`` on observed arms: preconditioned conjugate gradients.

    A learned denoiser's ``C`` is only nearly symmetric and positive: a direction of negative
    curvature ends the solve where it is, so that the answer is never worse than the last one.
    """

    def apply(p: Vector) -> Vector:
        return jnp.where(mask, sigma2 * p + covariance_times(p), 0.0)

    u = jnp.where(mask, residual / diagonal, 0.0)
    if damped:
        # The minimum of ½u·Au - u·residual along u; longer than u itself it is never needed.
        gain, curvature = _dot(residual, u), _dot(u, apply(u))
        u = u * jnp.where(curvature > gain, gain / jnp.where(curvature > gain, curvature, 1.0), 1.0)
    if iterations == 0:
        return u

    r = residual - apply(u)
    z = jnp.where(mask, r / diagonal, 0.0)
    carry = (u, r, z, _dot(r, z))
    for _ in range(iterations):
        u, r, p, rho = carry
        Ap = apply(p)
        curvature = _dot(p, Ap)
        usable = (curvature > 0) & (rho > 0)
        alpha = jnp.where(usable, rho / jnp.where(usable, curvature, 1.0), 0.0)
        u, r = u + alpha * p, r - alpha * Ap
        z = jnp.where(mask, r / diagonal, 0.0)
        rho_next = _dot(r, z)
        beta = jnp.where(usable, rho_next / jnp.where(usable, rho, 1.0), 0.0)
        carry = (u, r, z + beta * p, jnp.where(usable, rho_next, 0.0))
    return carry[0]
