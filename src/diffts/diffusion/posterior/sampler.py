"""What a posterior sampler is, and the reverse chain that all samplers share.

A sampler is one file with one class: it says how to go from ``x_{ℓ+1}`` to ``x_ℓ`` given the
evidence. This file runs that step from ``x_L ~ N(0, I)`` down to ``x_0`` in one compiled scan, and
keeps it within what the prior can explain: a badly trained network says anything, and a chain that
follows it would end anywhere.
"""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffts.diffusion.denoiser import Denoiser
from diffts.diffusion.observation import ConditionalDenoiser, Marginals, Observation
from diffts.diffusion.schedule import NoiseLevel, Schedule, Transition
from diffts.diffusion.units import Limits
from diffts.errors import InvalidInputError
from diffts.evidence import Evidence
from diffts.seeding import KeyArray
from diffts.validation import one_of

#: Steps of the chain in one turn of the compiled loop: a GPU then waits less for the host.
UNROLL = {"gpu": 5}

VARIANCE_MODES = ("calibrated", "plain", "partial")


class ReverseStep(NamedTuple):
    """One reverse step ``ℓ+1 → ℓ``: its coefficients and the calibrated error it starts from.

    ``inflation`` is 1 where the reverse variance is calibrated and 0 where it is not.
    """

    transition: Transition
    tau: Float[Array, "*S K"]
    inflation: Float[Array, "*S"]

    def variance(self, error_variance: Float[Array, " K"]) -> Float[Array, " K"]:
        """``v + c0² · error_variance`` (Eq. DDPM-reverse-uncertain), or ``v`` alone."""
        return self.transition.variance + self.inflation * self.transition.c0**2 * error_variance


def reverse_steps(
    schedule: Schedule,
    tau: Float[Array, "L K"],
    steps: int | None = None,
    variance: str = "calibrated",
    lateness: float = 1.0,
) -> ReverseStep:
    """The whole reverse chain, noisiest step first, leaves with a leading axis of length S.

    Args:
        schedule: the full schedule of L steps.
        tau: calibrated errors ``τ_1 … τ_L``.
        steps: length S of the strided sub-schedule; all L steps by default.
        variance: 'calibrated'; 'plain' (never add ``c0² τ²``); or 'partial' (add it only in the
            last step, ``ℓ = 0``), as in the paper's ablation.
        lateness: above 1, more of the steps are at the end of the chain.
    """
    one_of("variance", variance, VARIANCE_MODES)
    transition = schedule.transitions(steps, lateness)
    calibrated: dict[str, Any] = {
        "calibrated": np.ones_like(transition.is_last),
        "plain": np.zeros_like(transition.is_last),
        "partial": transition.is_last,
    }
    return jax.tree.map(
        jnp.asarray,
        ReverseStep(transition, tau[np.asarray(transition.source.step) - 1], calibrated[variance]),
    )


class LimitedDenoiser(Denoiser):
    """A denoiser whose estimates stay within limits; beyond them its Jacobian is 0."""

    denoiser: Denoiser
    limits: Limits
    n_arms: int = eqx.field(static=True)

    def __init__(self, denoiser: Denoiser, limits: Limits) -> None:
        self.denoiser, self.limits, self.n_arms = denoiser, limits, denoiser.n_arms

    def __call__(self, x: Float[Array, " K"], level: NoiseLevel) -> Float[Array, " K"]:
        """The denoiser's estimate, clipped."""
        return self.limits.of_estimate(self.denoiser(x, level))

    def given(self, observation: Observation, evidence: Evidence) -> Marginals:
        """What a denoiser that takes a noise level of each arm thinks, clipped.

        An arm that was observed beyond the limits, up to what was seen.
        """
        if not isinstance(self.denoiser, ConditionalDenoiser):
            raise InvalidInputError(
                f"sampler: 'merged' needs a denoiser that takes evidence as noise (network 'arms', "
                f"or an exact one); this prior has a {type(self.denoiser).__name__}"
            )
        return self.denoiser.given(observation).clipped(*self.limits.around(evidence))

    def of_gaussian(self, push: Float[Array, " K"], precision: Float[Array, " K"]) -> Marginals:
        """What a Gaussian with the prior's covariance thinks. It is a difference: not clipped."""
        known = None
        if isinstance(self.denoiser, ConditionalDenoiser):
            known = self.denoiser.of_gaussian(push, precision)
        if known is None:
            raise InvalidInputError(
                f"sampler: 'covariance' needs a denoiser that knows the covariance of its prior "
                f"(network 'arms', or an exact one); this prior has a "
                f"{type(self.denoiser).__name__}"
            )
        return known

    def recipe(self) -> dict[str, object]:
        """That of the denoiser: limits are kept with the prior."""
        return self.denoiser.recipe()


class PosteriorSampler(eqx.Module):
    """How to draw ``x_ℓ`` given ``x_{ℓ+1}`` and the evidence of one task."""

    @property
    def version(self) -> int:
        """To be raised, by hand, when the sampler's law or its random numbers change."""
        return 1

    @property
    def lateness(self) -> float:
        """How its chains are spaced: :meth:`Schedule.strided`."""
        return 1.0

    @abc.abstractmethod
    def step(
        self,
        key: KeyArray,
        x: Float[Array, " K"],
        step: ReverseStep,
        denoiser: Denoiser,
        evidence: Evidence,
    ) -> Float[Array, " K"]:
        """One conditional reverse step from ``x = x_{ℓ+1}``; everything is standardised."""


def limited_step(
    sampler: PosteriorSampler,
    key: KeyArray,
    x: Float[Array, " K"],
    step: ReverseStep,
    denoiser: Denoiser,
    evidence: Evidence,
    limits: Limits,
) -> Float[Array, " K"]:
    """A sampler's step, with everything it reads and returns within the limits.

    What was observed beyond them counts as their edge until the last step, where each arm's own
    observation is all that is left to count.
    """
    is_last = step.transition.is_last > 0
    seen = jnp.where(is_last, evidence.mean, limits.of_estimate(evidence.mean))
    explained = Evidence(seen, evidence.std, evidence.mask)
    x = sampler.step(key, x, step, LimitedDenoiser(denoiser, limits), explained)
    latent = limits.of_latent(x, step.transition.target)
    return jnp.where(is_last, limits.of_draw(x, evidence), latent)


def draw(
    sampler: PosteriorSampler,
    key: KeyArray,
    denoiser: Denoiser,
    steps: ReverseStep,
    evidence: Evidence,
    limits: Limits,
    chain: bool = False,
) -> Float[Array, "*chain K"]:
    """One posterior draw for one task (Algorithm 'Posterior Sampling with Diffusion Prior').

    Everything is standardised. With ``chain``, all latents, ``x_0`` first: shape ``(S+1, K)``
    instead of ``(K,)``.
    """
    start_key, step_key = jax.random.split(key)
    x_L = jax.random.normal(start_key, (denoiser.n_arms,))

    def body(x: Float[Array, " K"], inputs: Any) -> tuple[Float[Array, " K"], Any]:
        step, index = inputs
        here = jax.random.fold_in(step_key, index)
        x = limited_step(sampler, here, x, step, denoiser, evidence, limits)
        return x, (x if chain else None)

    length = len(steps.inflation)
    unroll = UNROLL.get(jax.default_backend(), 1)
    x_0, latents = jax.lax.scan(body, x_L, (steps, jnp.arange(length)), unroll=unroll)
    if not chain:
        return x_0
    return jnp.concatenate([x_L[None], latents])[::-1]
