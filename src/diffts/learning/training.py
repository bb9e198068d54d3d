"""The training loop: Adam on any objective, with a moving average of the weights.

The loop is a generator of states: progress bars, checkpoints and early stopping belong to the
caller. Every random number of step ``t`` comes from ``fold_in(key, t)``, so a run that goes on
from a saved state ends with the same weights as one that was never interrupted.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from diffts.diffusion.networks import TrainedDenoiser
from diffts.diffusion.schedule import NoiseLevel, Schedule
from diffts.errors import InvalidInputError
from diffts.seeding import KeyArray, Seed, as_key
from diffts.stacking import stack, unstack
from diffts.validation import one_of, whole_number

#: Steps are counted in 32 bits.
MOST_STEPS = 2**31 - 1


@dataclass(frozen=True)
class TrainingConfig:
    """How to train: the defaults are the paper's.

    Attributes:
        steps: gradient steps.
        batch_size: tasks in a step, drawn with replacement.
        learning_rate: peak learning rate of Adam.
        beta1, beta2: Adam's decay rates.
        decay: learning rate after the warm-up: 'constant' (the paper) or 'cosine' to 0.
        warmup_steps: steps of linear increase of the learning rate from 0.
        ema_decay: rate of an exponential moving average of the weights; 0 is none. The average
            is what the trained prior uses.
        ema_every: steps between two updates of that average.
        block: steps compiled into one call, between two states of the generator.
    """

    steps: int = 15_000
    batch_size: int = 128
    learning_rate: float = 5e-4
    beta1: float = 0.9
    beta2: float = 0.99
    decay: str = "constant"
    warmup_steps: int = 0
    ema_decay: float = 0.0
    ema_every: int = 10
    block: int = 100

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "ema_every", "block"):
            whole_number(name, getattr(self, name), 1, MOST_STEPS)
        whole_number("warmup_steps", self.warmup_steps, 0, self.steps)
        one_of("decay", self.decay, ("constant", "cosine"))
        if not (np.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise InvalidInputError(f"learning_rate: must be above 0, got {self.learning_rate}")
        for name in ("beta1", "beta2", "ema_decay"):
            if not 0 <= getattr(self, name) < 1:
                raise InvalidInputError(f"{name}: must be in [0, 1), got {getattr(self, name)}")

    def optimiser(self) -> optax.GradientTransformation:
        """Adam with this learning-rate schedule."""
        after = max(1, self.steps - self.warmup_steps)
        rate = {
            "constant": optax.constant_schedule(self.learning_rate),
            "cosine": optax.cosine_decay_schedule(self.learning_rate, after),
        }[self.decay]
        if self.warmup_steps:
            ramp = optax.linear_schedule(0.0, self.learning_rate, self.warmup_steps)
            rate = optax.join_schedules([ramp, rate], [self.warmup_steps])
        return optax.adam(rate, b1=self.beta1, b2=self.beta2)


class TrainingState(eqx.Module):
    """Everything that training goes on from; ``average`` is the network to use."""

    step: Int[Array, ""]  # gradient steps done
    denoiser: TrainedDenoiser  # the current weights
    average: TrainedDenoiser  # their moving average: the same weights where ``ema_decay`` is 0
    optimiser: Any  # Adam's moments
    loss: Float[Array, ""]  # mean over the last block


def initial_state(denoiser: TrainedDenoiser, config: TrainingConfig) -> TrainingState:
    """The state before the first step."""
    weights = eqx.filter(denoiser, eqx.is_inexact_array)
    moments = config.optimiser().init(weights)
    return TrainingState(jnp.int32(0), denoiser, denoiser, moments, jnp.float32(jnp.nan))


class Objective(eqx.Module):
    """What training minimises: data, and the loss of a random batch of them."""

    @abc.abstractmethod
    def __call__(
        self, denoiser: Any, levels: NoiseLevel, key: KeyArray, batch_size: int
    ) -> Float[Array, ""]:
        """Mean loss of a batch drawn with ``key``; ``levels`` are the noise levels 1 to L."""


def random_batch(
    key: KeyArray, n_rows: int, n_levels: int, batch_size: int
) -> tuple[Int[Array, " B"], Int[Array, " B"], KeyArray]:
    """Rows and noise levels of a batch, uniform with replacement, and a key for the noise."""
    row_key, level_key, noise_key = jax.random.split(key, 3)
    rows = jax.random.randint(row_key, (batch_size,), 0, n_rows)
    which = jax.random.randint(level_key, (batch_size,), 0, n_levels)
    return rows, which, noise_key


def train(
    states: Sequence[TrainingState],
    objectives: Sequence[Objective],
    config: TrainingConfig,
    schedule: Schedule,
    seeds: Sequence[Seed],
    until: int,
) -> Iterator[list[TrainingState]]:
    """Go on to the step ``until``, yielding the states after every block of steps.

    Several networks that are at the same step take their steps in one compiled run: a small one
    leaves a GPU idle most of the time, and three of them, mapped over a new axis, take little
    longer. They have one configuration and one kind of objective; what an objective shares with
    the others (the same array) is kept once. The batch of step ``t`` depends on a training's seed
    and ``t`` alone.
    """
    keys, levels = [as_key(seed) for seed in seeds], schedule.levels()
    now, together = list(states), stack(states)
    differs = jax.tree.map(
        lambda *leaves: any(leaf is not leaves[0] for leaf in leaves), *objectives
    )
    own = stack([eqx.filter(objective, differs) for objective in objectives])
    shared = eqx.filter(objectives[0], differs, inverse=True)
    for length in block_lengths(int(now[0].step), until, config.block):
        if len(now) == 1:
            now = [_train_block(now[0], objectives[0], levels, keys[0], config, length)]
        else:
            every_key = jnp.stack(keys)
            together = _train_blocks(together, own, shared, levels, every_key, config, length)
            now = _apart(together, len(now))
        for state in now:
            refuse_divergence(float(state.loss), int(state.step))
        yield now


def refuse_divergence(loss: float, step: int) -> None:
    """Stop a training whose loss is no longer a number: no later step would bring it back."""
    if not np.isfinite(loss):
        raise InvalidInputError(
            f"training diverged: the loss is {loss} at step {step}; try a lower learning rate"
        )


def block_lengths(done: int, until: int, block: int) -> Iterator[int]:
    """Lengths of the blocks of steps from ``done`` to ``until``.

    Blocks end on a fixed grid, so that a resumed run compiles and runs the same programs.

    >>> list(block_lengths(130, 350, 100))
    [70, 100, 50]
    """
    while done < until:
        length = min(block - done % block, until - done)
        yield length
        done += length


@eqx.filter_jit
def _train_block(
    state: TrainingState,
    objective: Objective,
    levels: NoiseLevel,
    key: KeyArray,
    config: TrainingConfig,
    length: int,
) -> TrainingState:
    """``length`` gradient steps in one scan."""
    optimiser = config.optimiser()
    weights, static = eqx.partition(state.denoiser, eqx.is_inexact_array)
    average = eqx.filter(state.average, eqx.is_inexact_array)

    def batch_loss(weights: Any, step: Int[Array, ""]) -> Float[Array, ""]:
        denoiser = eqx.combine(weights, static)
        return objective(denoiser, levels, jax.random.fold_in(key, step), config.batch_size)

    def body(carry: Any, step: Int[Array, ""]) -> tuple[Any, Float[Array, ""]]:
        weights, average, moments = carry
        loss, gradient = jax.value_and_grad(batch_loss)(weights, step)
        updates, moments = optimiser.update(gradient, moments, weights)
        weights = optax.apply_updates(weights, updates)
        average = _moving_average(average, weights, step + 1, config)
        return (weights, average, moments), loss

    steps = state.step + jnp.arange(length, dtype=jnp.int32)
    (weights, average, moments), losses = jax.lax.scan(
        body, (weights, average, state.optimiser), steps
    )
    return TrainingState(
        state.step + length,
        eqx.combine(weights, static),
        eqx.combine(average, static),
        moments,
        jnp.mean(losses),
    )


@eqx.filter_jit
def _train_blocks(
    states: TrainingState,
    own: Any,
    shared: Any,
    levels: NoiseLevel,
    keys: KeyArray,
    config: TrainingConfig,
    length: int,
) -> TrainingState:
    """The same of several, whose objectives are ``own`` and ``shared`` arrays."""

    def one(state: TrainingState, own: Any, key: KeyArray) -> TrainingState:
        return _train_block(state, eqx.combine(own, shared), levels, key, config, length)

    trained: TrainingState = eqx.filter_vmap(one)(states, own, keys)
    return trained


#: One program for all arrays: hundreds of slices, one by one, are a good part of a block's time.
_apart = eqx.filter_jit(unstack)


def _moving_average(
    average: Any, weights: Any, step: Int[Array, ""], config: TrainingConfig
) -> Any:
    """``average ← decay · average + (1-decay) · weights``, every ``ema_every`` steps.

    The decay is capped at ``(1 + n) / (10 + n)`` after n updates, so that the average forgets
    the random initial weights in a short run, too.
    """
    if config.ema_decay == 0.0:
        return weights
    updates = step / config.ema_every
    decay = jnp.minimum(config.ema_decay, (1.0 + updates) / (10.0 + updates))
    rate = jnp.where(step % config.ema_every == 0, 1.0 - decay, 0.0)
    return optax.incremental_update(weights, average, rate)
