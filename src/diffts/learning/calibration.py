"""Variance calibration: how far the denoiser is off, step by step and arm by arm."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike

from diffts.diffusion.denoiser import Denoiser
from diffts.diffusion.schedule import NoiseLevel, Schedule
from diffts.errors import InvalidInputError
from diffts.seeding import KeyArray, Seed, as_key
from diffts.validation import finite_array, whole_number


def calibrate(
    denoiser: Denoiser,
    data: ArrayLike,
    *,
    schedule: Schedule | None = None,
    repeats: int = 1,
    seed: Seed = 0,
) -> Float[Array, "L K"]:
    """``τ_ℓ^a = √ mean_i (x_0^a - h^a(x_ℓ, ℓ))²`` (Algorithm 'Variance Calibration').

    Args:
        denoiser: the denoiser to calibrate.
        data: standardised calibration tasks ``(N, K)``, not used for training.
        schedule: the noise schedule; the paper's by default.
        repeats: how often to diffuse each task at each step (the paper: once).
        seed: seed of the diffused latents.

    Returns:
        ``τ_1 … τ_L`` of shape ``(L, K)``, standardised.
    """
    schedule = Schedule.linear() if schedule is None else schedule
    tasks = finite_array("data", data, ndim=2)
    if tasks.shape[0] == 0 or tasks.shape[1] != denoiser.n_arms:
        raise InvalidInputError(
            f"data: expected shape (tasks, {denoiser.n_arms}), got {tasks.shape}"
        )
    repeats = whole_number("repeats", repeats, 1)
    levels = schedule.level(np.arange(1, schedule.n_steps + 1))
    x_0 = jnp.asarray(tasks, jnp.float32)
    return _calibrate(denoiser, x_0, jax.tree.map(jnp.asarray, levels), as_key(seed), repeats)


@eqx.filter_jit
def _calibrate(
    denoiser: Denoiser,
    x_0: Float[Array, "N K"],
    levels: NoiseLevel,
    key: KeyArray,
    repeats: int,
) -> Float[Array, "L K"]:
    rows = min(256, x_0.shape[0])

    def at_level(level: NoiseLevel) -> Float[Array, " K"]:
        def squared_error(
            row: tuple[Int[Array, ""], Float[Array, " K"]],
        ) -> Float[Array, " K"]:
            index, clean = row
            row_key = jax.random.fold_in(jax.random.fold_in(key, level.step), index)
            noise = jax.random.normal(row_key, (repeats, *clean.shape))
            latents = level.signal * clean + level.noise * noise
            estimates = jax.vmap(lambda x: denoiser(x, level))(latents)
            return jnp.mean((clean - estimates) ** 2, axis=0)

        # One batch of rows at a time: the memory does not grow with the calibration set.
        indices = jnp.arange(x_0.shape[0])
        errors = jax.lax.map(squared_error, (indices, x_0), batch_size=rows)
        return jnp.sqrt(jnp.mean(errors, axis=0))

    return jax.lax.map(at_level, levels)
