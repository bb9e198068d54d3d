"""What a posterior sampler is, and the reverse chain that all samplers share.

A sampler is one file with one class: it says how to go from ``x_{ℓ+1}`` to ``x_ℓ`` given the
evidence. This file runs that step from ``x_L ~ N(0, I)`` down to ``x_0`` in one compiled scan.
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
from diffts.diffusion.schedule import Schedule, Transition
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
) -> ReverseStep:
    """The whole reverse chain, noisiest step first, leaves with a leading axis of length S.

    Args:
        schedule: the full schedule of L steps.
        tau: calibrated errors ``τ_1 … τ_L``.
        steps: length S of the strided sub-schedule; all L steps by default.
        variance: 'calibrated'; 'plain' (never add ``c0² τ²``); or 'partial' (add it only in the
            last step, ``ℓ = 0``), as in the paper's ablation.
    """
    one_of("variance", variance, VARIANCE_MODES)
    transition = schedule.transitions(steps)
    calibrated: dict[str, Any] = {
        "calibrated": np.ones_like(transition.is_last),
        "plain": np.zeros_like(transition.is_last),
        "partial": transition.is_last,
    }
    return jax.tree.map(
        jnp.asarray,
        ReverseStep(transition, tau[np.asarray(transition.source.step) - 1], calibrated[variance]),
    )


class PosteriorSampler(eqx.Module):
    """How to draw ``x_ℓ`` given ``x_{ℓ+1}`` and the evidence of one task."""

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


def draw(
    sampler: PosteriorSampler,
    key: KeyArray,
    denoiser: Denoiser,
    steps: ReverseStep,
    evidence: Evidence,
    chain: bool = False,
) -> Float[Array, "*chain K"]:
    """One posterior draw for one task (Algorithm 'Posterior Sampling with Diffusion Prior').

    With ``chain``, all latents, ``x_0`` first: shape ``(S+1, K)`` instead of ``(K,)``.
    """
    start_key, step_key = jax.random.split(key)
    x_L = jax.random.normal(start_key, (denoiser.n_arms,))

    def body(x: Float[Array, " K"], inputs: Any) -> tuple[Float[Array, " K"], Any]:
        step, index = inputs
        x = sampler.step(jax.random.fold_in(step_key, index), x, step, denoiser, evidence)
        return x, (x if chain else None)

    length = len(steps.inflation)
    unroll = UNROLL.get(jax.default_backend(), 1)
    x_0, latents = jax.lax.scan(body, x_L, (steps, jnp.arange(length)), unroll=unroll)
    if not chain:
        return x_0
    return jnp.concatenate([x_L[None], latents])[::-1]
