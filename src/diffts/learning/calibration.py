"""Variance calibration: how far the denoiser is off, step by step and arm by arm."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike, NDArray

from diffts.chunks import cut
from diffts.diffusion.denoiser import Denoiser
from diffts.diffusion.schedule import NoiseLevel, Schedule
from diffts.errors import InvalidInputError
from diffts.evidence import Evidence
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
    x_0 = jnp.asarray(tasks, jnp.float32)
    return _calibrate(denoiser, x_0, schedule.levels(), as_key(seed), repeats)


@eqx.filter_jit
def _calibrate(
    denoiser: Denoiser, x_0: Float[Array, "N K"], levels: NoiseLevel, key: KeyArray, repeats: int
) -> Float[Array, "L K"]:
    def at_level(level: NoiseLevel) -> Float[Array, " K"]:
        def squared_error(row: tuple[Int[Array, ""], Float[Array, " K"]]) -> Float[Array, " K"]:
            index, clean = row
            row_key = jax.random.fold_in(jax.random.fold_in(key, level.step), index)
            noise = jax.random.normal(row_key, (repeats, *clean.shape))
            latents = level.signal * clean + level.noise * noise
            estimates = jax.vmap(lambda x: denoiser(x, level))(latents)
            return jnp.mean((clean - estimates) ** 2, axis=0)

        # One batch of rows at a time: the memory does not grow with the calibration set.
        numbered = jnp.arange(len(x_0)), x_0
        errors = jax.lax.map(squared_error, numbered, batch_size=min(256, len(x_0)))
        return jnp.sqrt(jnp.mean(errors, axis=0))

    return jax.lax.map(at_level, levels)


#: An arm observed in fewer calibration tasks than this has no error of its own.
LEAST_OBSERVATIONS = 10


class ImperfectCalibration(NamedTuple):
    """Calibrated errors from imperfect data, and how far to trust them."""

    tau: Float[Array, "L K"]  # ``τ_1 … τ_L``, standardised
    observations: NDArray[np.int64]  # how many tasks observed each arm, ``(K,)``
    seldom: NDArray[np.int64]  # arms with too few of them, which got the others' mean error


def calibrate_imperfect(
    denoiser: Denoiser,
    evidence: Evidence,
    draws: ArrayLike,
    *,
    schedule: Schedule | None = None,
    anchor: float = 1.0,
    floor: float = 1e-3,
    seed: Seed = 0,
) -> ImperfectCalibration:
    """τ from incomplete and noisy tasks (Algorithm 'Variance Calibration from Imperfect Data').

    Diffuse each task's posterior draws ``x̃_0`` to ``x̃_ℓ``; then, arm by arm, over the tasks in
    which that arm was observed, ``mean((y - h(x̃_ℓ, ℓ))²) - mean(σ²)``. (The paper divides by
    the number of all tasks and compares with ``x_0``; both are slips.)

    If the draws are exact posterior draws, ``mean((x̃_0 - h(x̃_ℓ, ℓ))²)`` over all tasks has the
    same expectation and a smaller variance; ``anchor`` is the weight of the first of the two.

    Args:
        denoiser: the denoiser.
        evidence: standardised calibration tasks, ``(N, K)``.
        draws: standardised posterior draws of them, ``(D, N, K)`` or ``(N, K)``.
        schedule: the noise schedule; the paper's by default.
        anchor: weight of the observations (1: the paper's) against the draws.
        floor: smallest τ, standardised.
        seed: seed of the diffused latents.
    """
    schedule = Schedule.linear() if schedule is None else schedule
    x_0 = finite_array("draws", draws)
    x_0 = x_0[None] if x_0.ndim == 2 else x_0
    if x_0.shape[1:] != evidence.mean.shape or evidence.n_arms != denoiser.n_arms:
        raise InvalidInputError(
            f"draws: expected shape (draws, *{evidence.mean.shape}), got {x_0.shape}"
        )
    fit, drawn = _imperfect_errors(
        denoiser, jnp.asarray(x_0, jnp.float32), evidence, schedule.levels(), as_key(seed)
    )
    mask = np.asarray(evidence.mask)
    observations = mask.sum(0)
    noise = np.where(mask, np.asarray(evidence.std, np.float64) ** 2, 0.0).sum(0)
    count = np.maximum(observations, 1)
    variance = anchor * np.maximum((np.asarray(fit, np.float64) - noise) / count, 0.0)
    variance += (1 - anchor) * np.asarray(drawn, np.float64)
    if not observations.any():
        raise InvalidInputError("calibration: no task has any observation")
    rare = observations < LEAST_OBSERVATIONS
    # Each of the others counts once; where all are rare, each observation does.
    others = observations.astype(float) if rare.all() else (~rare).astype(float)
    variance[:, rare] = np.average(variance, axis=1, weights=others)[:, None]
    tau = jnp.asarray(np.sqrt(np.maximum(variance, floor**2)), jnp.float32)
    return ImperfectCalibration(tau, observations, np.flatnonzero(rare))


@eqx.filter_jit
def _imperfect_errors(
    denoiser: Denoiser,
    draws: Float[Array, "D N K"],
    evidence: Evidence,
    levels: NoiseLevel,
    key: KeyArray,
) -> tuple[Float[Array, "L K"], Float[Array, "L K"]]:
    """Sums over tasks of ``m (y - h)²``, and means of ``(x̃_0 - h)²``."""
    _, n_tasks, n_arms = draws.shape
    tasks = (evidence.mean, evidence.mask.astype(jnp.float32), jnp.moveaxis(draws, 0, 1))
    chunked = cut((*tasks, jnp.ones((n_tasks, 1), bool)), 256)
    pieces = (*chunked, jnp.arange(len(chunked[0])))

    def at_level(level: NoiseLevel) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        def of_chunk(sums: Any, piece: Any) -> tuple[Any, None]:
            y, m, x_0, real, index = piece
            x_0 = jnp.moveaxis(x_0, 1, 0)
            chunk_key = jax.random.fold_in(jax.random.fold_in(key, level.step), index)
            x = level.signal * x_0 + level.noise * jax.random.normal(chunk_key, x_0.shape)
            estimate = jax.vmap(jax.vmap(lambda latent: denoiser(latent, level)))(x)
            fit = jnp.sum(m * jnp.mean((y - estimate) ** 2, 0), 0)
            drawn = jnp.sum(jnp.where(real, jnp.mean((x_0 - estimate) ** 2, 0), 0.0), 0)
            return (sums[0] + fit, sums[1] + drawn), None

        zeros = (jnp.zeros(n_arms), jnp.zeros(n_arms))
        (fit, drawn), _ = jax.lax.scan(of_chunk, zeros, pieces)
        return fit, drawn / n_tasks

    return jax.lax.map(at_level, levels)
