"""The latents on which the paper's EM is trained: some steps of a posterior chain of each task.

A chain has L latents; of all chains of a training set that would be L × tasks × arms numbers. So
the steps that will be trained on are drawn first, and only their latents are kept.
"""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from diffts.diffusion.denoiser import Denoiser
from diffts.diffusion.posterior import (
    Limits,
    PosteriorSampler,
    ReverseStep,
    limited_step,
    reverse_steps,
)
from diffts.diffusion.posterior.batched import CHUNK_ENTRIES, padded_size
from diffts.diffusion.schedule import Schedule
from diffts.evidence import Evidence
from diffts.seeding import KeyArray

#: Bytes of latents that are kept at most.
MOST_BYTES = 2**30


def steps_to_keep(n_tasks: int, n_arms: int, n_steps: int, examples: int) -> int:
    """Latents to keep of each task: as many as training will look at, within the memory.

    >>> steps_to_keep(5000, 200, 100, examples=3000 * 128)
    77
    >>> steps_to_keep(59_000, 784, 100, examples=3000 * 128)
    5
    """
    wanted = math.ceil(examples / n_tasks)
    affordable = MOST_BYTES // (4 * n_tasks * n_arms)
    return max(1, min(n_steps, wanted, affordable))


def draw_latents(
    sampler: PosteriorSampler,
    latent_sampler: PosteriorSampler,
    key: KeyArray,
    denoiser: Denoiser,
    schedule: Schedule,
    tau: Float[Array, "L K"],
    evidence: Evidence,
    limits: Limits,
    kept: int,
) -> tuple[Int[np.ndarray, "N kept"], Float[np.ndarray, "N kept K"]]:
    """Random steps (1 to L) of each task, and latents ``x̃_ℓ`` of a posterior chain there.

    The chain goes on with ``sampler``; each kept latent is drawn from the same ``x_{ℓ+1}`` with
    ``latent_sampler``. (The paper: predicted noise for the chain, fresh noise for the latents;
    otherwise the model is only confirmed in what it predicts.)

    Args:
        sampler: how the chain goes on.
        latent_sampler: how the latents to keep are drawn.
        key: JAX key.
        denoiser: the current denoiser.
        schedule: the noise schedule.
        tau: its calibrated errors.
        evidence: standardised tasks ``(N, K)``.
        limits: what the chain stays within, standardised.
        kept: latents to keep of each task, at most L.
    """
    n_tasks, n_arms = evidence.mean.shape
    host = jax.tree.map(np.asarray, evidence)
    most = max(1, CHUNK_ENTRIES.get(jax.default_backend(), 2**18) // (n_arms * max(1, kept // 8)))
    rows = padded_size(math.ceil(n_tasks / math.ceil(n_tasks / most)))
    steps = np.empty((n_tasks, kept), np.int32)
    latents = np.empty((n_tasks, kept, n_arms), np.float32)
    reverse = reverse_steps(schedule, tau)
    for start in range(0, n_tasks, rows):
        index = np.arange(start, start + rows)
        chunk: Evidence = jax.tree.map(lambda leaf, i=index: leaf[i % n_tasks], host)
        here = slice(start, min(start + rows, n_tasks))
        which, values = _latents(
            sampler, latent_sampler, key, index, denoiser, reverse, chunk, limits, kept
        )
        steps[here] = np.asarray(which)[: here.stop - start]
        latents[here] = np.asarray(values)[: here.stop - start]
    return steps, latents


@eqx.filter_jit
def _latents(
    sampler: PosteriorSampler,
    latent_sampler: PosteriorSampler,
    key: KeyArray,
    index: Int[Any, " rows"],
    denoiser: Denoiser,
    reverse: ReverseStep,
    evidence: Evidence,
    limits: Limits,
    kept: int,
) -> tuple[Int[Array, "rows kept"], Float[Array, "rows kept K"]]:
    n_steps = len(reverse.inflation)

    def one(number: Int[Array, ""], task: Evidence) -> tuple[Array, Array]:
        start_key, step_key, which_key = jax.random.split(jax.random.fold_in(key, number), 3)
        which = 1 + jax.random.choice(which_key, n_steps, (kept,), replace=False).astype(jnp.int32)
        x_L = jax.random.normal(start_key, (denoiser.n_arms,))

        def body(carry: Any, inputs: Any) -> tuple[Any, None]:
            x, buffer = carry
            step, position = inputs
            chain_key, latent_key = jax.random.split(jax.random.fold_in(step_key, position))
            latent = limited_step(latent_sampler, latent_key, x, step, denoiser, task, limits)
            x = limited_step(sampler, chain_key, x, step, denoiser, task, limits)
            here = which == step.transition.target.step
            return (x, jnp.where(here[:, None], latent, buffer)), None

        buffer = jnp.where((which == n_steps)[:, None], x_L, 0.0)
        (_, buffer), _ = jax.lax.scan(body, (x_L, buffer), (reverse, jnp.arange(n_steps)))
        return which, buffer

    which, values = jax.vmap(one)(jnp.asarray(index), evidence)
    return which, values
