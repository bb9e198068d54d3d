"""How much more than the exact denoiser a learned one errs, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffts.diffusion.denoiser import Denoiser
from diffts.diffusion.prior import DiffusionPrior
from diffts.diffusion.schedule import NoiseLevel
from diffts.errors import InvalidInputError
from diffts.problems.popular_niche import PopularNiche
from diffts.problems.popular_niche_prior import PopularNicheDenoiser
from diffts.seeding import as_key
from diffts.validation import whole_number

STEPS = (1, 2, 5, 10, 20, 40, 70)
TASKS = 400


def excess_by_step(
    learned: DiffusionPrior, steps: Sequence[int] = STEPS, tasks: int = TASKS, seed: int = 0
) -> Iterator[dict[str, Any]]:
    """One row for each step ℓ: ``τ_ℓ`` of the learned and of the exact denoiser.

    Both see the same latents of development tasks of Popular and Niche, in the learned prior's own
    units. ``τ`` is the root mean square error over tasks and arms, in the user's units; ``excess``
    is ``τ²(learned)/τ²(exact) - 1``, and ``excess_stderr`` its standard error.
    """
    problem = PopularNiche()
    if learned.n_arms != problem.n_arms:
        raise InvalidInputError(
            f"prior: has {learned.n_arms} arms, {problem.name} has {problem.n_arms}"
        )
    means = problem.development(whole_number("tasks", tasks, 2), seed=seed)
    x_0 = jnp.asarray(learned.units.standard(means), jnp.float32)
    exact = PopularNicheDenoiser(learned.units)
    for step in steps:
        if step > learned.schedule.n_steps:
            continue
        level = jax.tree.map(jnp.asarray, learned.schedule.level(step))
        noise = jax.random.normal(jax.random.fold_in(as_key(seed), step), x_0.shape)
        of_learned, of_exact = (
            float(learned.scale) ** 2
            * np.asarray(_squared_errors(denoiser, x_0, noise, level), np.float64)
            for denoiser in (learned.denoiser, exact)
        )
        ratio = of_learned.mean() / of_exact.mean()
        spread = (of_learned - ratio * of_exact).std(ddof=1) / of_exact.mean()
        yield {
            "prior": problem.name,
            "step": step,
            "tasks": tasks,
            "exact_tau": float(np.sqrt(of_exact.mean())),
            "learned_tau": float(np.sqrt(of_learned.mean())),
            "excess": float(ratio - 1.0),
            "excess_stderr": float(spread / np.sqrt(tasks)),
        }


@eqx.filter_jit
def _squared_errors(
    denoiser: Denoiser, x_0: Float[Array, "N K"], noise: Float[Array, "N K"], level: NoiseLevel
) -> Float[Array, " N"]:
    """Mean squared error over the arms of each task."""
    latents = level.signal * x_0 + level.noise * noise
    estimates = jax.vmap(lambda x: denoiser(x, level))(latents)
    return jnp.mean((x_0 - estimates) ** 2, axis=1)
