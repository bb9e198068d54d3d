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

from diffts.chunks import in_host_chunks
from diffts.diffusion.posterior import PaperSampler, PosteriorSampler, limited_step, reverse_steps
from diffts.diffusion.prior import DiffusionPrior
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
    prior: DiffusionPrior, key: KeyArray, evidence: Evidence, kept: int, sampler: PosteriorSampler
) -> tuple[Int[np.ndarray, "N kept"], Float[np.ndarray, "N kept K"]]:
    """Random steps (1 to L) of each task, and latents ``x̃_ℓ`` of a posterior chain there.

    The chain goes on with ``sampler``; each kept latent is drawn from the same ``x_{ℓ+1}`` with
    fresh noise. (The paper: predicted noise for the chain, fresh noise for the latents; otherwise
    the model is only confirmed in what it predicts.) Prior and evidence are standardised.
    """
    n_tasks, n_arms = evidence.mean.shape
    host: Evidence = jax.tree.map(np.asarray, evidence)

    def latents_of(row: Any) -> tuple[Array, Array]:
        tasks: Evidence = jax.tree.map(lambda leaf: leaf[row % n_tasks], host)
        return _latents(prior, key, row, tasks, kept, sampler)

    # A row's chain is in memory as a whole, beside the activations of one step.
    steps, latents = in_host_chunks(
        latents_of, n_tasks, n_arms * max(1, prior.schedule.n_steps // 8)
    )
    return steps, latents


@eqx.filter_jit
def _latents(
    prior: DiffusionPrior,
    key: KeyArray,
    row: Int[Any, " rows"],
    evidence: Evidence,
    kept: int,
    sampler: PosteriorSampler,
) -> tuple[Int[Array, "rows kept"], Float[Array, "rows kept K"]]:
    n_steps, fresh = prior.schedule.n_steps, PaperSampler(noise="sampled")
    reverse = reverse_steps(prior.schedule, prior.tau)  # noisiest step first
    limits = prior.units.limits

    def of_task(number: Int[Array, ""], task: Evidence) -> tuple[Array, Array]:
        chain_key, which_key, latent_key = jax.random.split(jax.random.fold_in(key, number), 3)
        which = 1 + jax.random.choice(which_key, n_steps, (kept,), replace=False)
        chain = prior.draw(chain_key, task, sampler=sampler, chain=True)  # x_0 first

        def latent(step: Int[Array, ""]) -> Float[Array, " K"]:
            here = jax.tree.map(lambda leaf: leaf[jnp.maximum(n_steps - 1 - step, 0)], reverse)
            above = chain[jnp.minimum(step + 1, n_steps)]
            step_key = jax.random.fold_in(latent_key, step)
            drawn = limited_step(fresh, step_key, above, here, prior.denoiser, task, limits)
            return jnp.where(step == n_steps, chain[n_steps], drawn)

        return which.astype(jnp.int32), jax.lax.map(latent, which, batch_size=8)

    return jax.vmap(of_task)(jnp.asarray(row), evidence)
