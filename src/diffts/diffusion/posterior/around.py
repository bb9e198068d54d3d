"""A reverse step around what is thought of ``x_0`` given a latent and the evidence."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from diffts.diffusion.denoiser import Vector
from diffts.diffusion.observation import Marginals
from diffts.diffusion.posterior.sampler import ReverseStep
from diffts.evidence import Evidence
from diffts.seeding import KeyArray


def step_around(
    x_0: Marginals, key: KeyArray, x: Vector, step: ReverseStep, evidence: Evidence
) -> Vector:
    """A draw of ``c0 x_0 + c1 x + √v z``; at the end of the chain, of ``x_0``.

    Where it is not known how the arms go together, ``x_0``'s noise and ``z`` are one draw.
    """
    transition = step.transition
    mean = transition.c0 * x_0.mean + transition.c1 * x
    if x_0.joint is None:
        deviate = jax.random.normal(key, x.shape)
        moved = mean + jnp.sqrt(step.variance(x_0.std**2)) * deviate
    else:
        step_key, joint_key = jax.random.split(key)
        deviate = x_0.joint.deviate(joint_key)
        moved = mean + jnp.sqrt(transition.variance) * jax.random.normal(step_key, x.shape)
        moved = moved + step.inflation * transition.c0 * x_0.std * deviate
    last = x_0.at(step.inflation * deviate)
    # The most precise observation that a denoiser is given is still not an exact one.
    last = jnp.where(evidence.mask & (evidence.std == 0), evidence.mean, last)
    return jnp.where(transition.is_last > 0, last, moved)
