"""Several trainings in one compiled run: the same steps of several networks at once.

A small network leaves a GPU idle most of the time; three of them, mapped over a new axis, take
little longer than one. Trainings go side by side when they have the same network, configuration
and kind of objective; they may differ in seeds, data and weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from diffts.diffusion.schedule import NoiseLevel, Schedule
from diffts.learning.training import (
    Objective,
    TrainingConfig,
    TrainingState,
    block_lengths,
    refuse_divergence,
    train,
    train_block,
)
from diffts.seeding import KeyArray, Seed, as_key
from diffts.stacking import stack, unstack


def train_side_by_side(
    states: Sequence[TrainingState],
    objectives: Sequence[Objective],
    config: TrainingConfig,
    schedule: Schedule,
    seeds: Sequence[Seed],
    until: int,
) -> Iterator[list[TrainingState]]:
    """Like :func:`diffts.learning.training.train`, of several; all are at the same step.

    What an objective shares with the others (the same array) is kept once.
    """
    if len(states) == 1:
        for state in train(states[0], objectives[0], config, schedule, seeds[0], until):
            yield [state]
        return
    keys = jnp.stack([as_key(seed) for seed in seeds])
    levels = schedule.levels()
    stacked = stack(states)
    own, shared = _own_and_shared(objectives)
    done = int(states[0].step)
    for length in block_lengths(done, until, config.block):
        stacked = _train_blocks(stacked, own, shared, levels, keys, config, length)
        done += length
        for loss in np.asarray(stacked.loss).tolist():
            refuse_divergence(loss, done)
        yield unstack(stacked, len(states))


def _own_and_shared(objectives: Sequence[Objective]) -> tuple[Any, Any]:
    """The arrays in which objectives differ, stacked; and those that are the same for all."""
    differs = jax.tree.map(
        lambda *leaves: any(leaf is not leaves[0] for leaf in leaves), *objectives
    )
    own = stack([eqx.filter(objective, differs) for objective in objectives])
    return own, eqx.filter(objectives[0], differs, inverse=True)


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
    def one(state: TrainingState, own: Any, key: KeyArray) -> TrainingState:
        return train_block(state, eqx.combine(own, shared), levels, key, config, length)

    trained: TrainingState = eqx.filter_vmap(one)(states, own, keys)
    return trained
