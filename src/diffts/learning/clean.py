"""Training a denoiser on exact mean rewards (the paper's recipe for perfect data)."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from diffts.diffusion.networks import NetworkDenoiser
from diffts.diffusion.schedule import NoiseLevel, Schedule
from diffts.errors import InvalidInputError
from diffts.learning.losses import denoising_loss
from diffts.learning.training import (
    Objective,
    TrainingConfig,
    TrainingState,
    initial_state,
    random_batch,
    train,
)
from diffts.seeding import KeyArray, Seed
from diffts.validation import finite_array


class Clean(Objective):
    """The denoising loss on standardised tasks ``x_0`` that are known exactly, ``(N, K)``."""

    tasks: Float[Array, "N K"]

    def __call__(
        self, denoiser: NetworkDenoiser, levels: NoiseLevel, key: KeyArray, batch_size: int
    ) -> Float[Array, ""]:
        """Mean denoising loss of random tasks at random noise levels."""
        rows, which, noise_key = random_batch(
            key, self.tasks.shape[0], levels.step.shape[0], batch_size
        )
        x_0 = self.tasks[rows]
        noise = jax.random.normal(noise_key, x_0.shape)
        level = jax.tree.map(lambda leaf: leaf[which], levels)
        losses = jax.vmap(denoising_loss, in_axes=(None, 0, 0, 0))(denoiser, x_0, noise, level)
        return jnp.mean(losses)


def train_clean(
    denoiser: NetworkDenoiser,
    data: ArrayLike,
    config: TrainingConfig | None = None,
    *,
    schedule: Schedule | None = None,
    seed: Seed = 0,
    state: TrainingState | None = None,
) -> Iterator[TrainingState]:
    """Train on standardised data, yielding a state after every block of steps.

    Args:
        denoiser: a denoiser with initial weights (ignored when ``state`` is given).
        data: standardised mean rewards of the training tasks, ``(N, K)``.
        config: the recipe.
        schedule: the noise schedule; the paper's by default.
        seed: seed of batches, steps and noise; the same to go on from ``state``.
        state: where to go on from.

    Yields:
        The state after each block; the last one has ``step == config.steps``.
    """
    config = TrainingConfig() if config is None else config
    schedule = Schedule.linear() if schedule is None else schedule
    tasks = finite_array("data", data, ndim=2)
    if tasks.shape[0] == 0 or tasks.shape[1] != denoiser.n_arms:
        raise InvalidInputError(
            f"data: expected shape (tasks, {denoiser.n_arms}), got {tasks.shape}"
        )
    state = initial_state(denoiser, config) if state is None else state
    objective = Clean(jnp.asarray(tasks, jnp.float32))
    return train(state, objective, config, schedule, seed, config.steps)
