"""Histories of play, for a network that is to be asked about them; and how well it plays.

A denoiser that takes evidence as noise plays tasks that are known: in each turn the action that is
best by a quantile of each arm, as the default rule does. The more rounds a task has had, the more
often the action of a turn is played: a hundred turns are a thousand rounds. What is chosen follows
from past rewards alone, never from the means themselves, so such a history tells no more of them
than its rewards do.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from diffts.diffusion.observation import ConditionalDenoiser, Observation
from diffts.optimism import slow_level
from diffts.seeding import KeyArray

#: After t rounds, an arm is pulled t/20 times at once, at least once.
PATIENCE = 20


class Playable(Protocol):
    """Sets of arms that may be played: an action is a mask of arms, and worth their sum."""

    def best(self, values: Float[Array, " K"]) -> Bool[Array, " K"]:
        """The action of the largest total value."""
        ...


class Played(NamedTuple):
    """Histories of N tasks after each of some turns, and their regret.

    Attributes:
        mean: means of the rewards so far, ``(turns, N, K)``; 0 where an arm was not pulled.
        precision: of these means, standardised, ``(turns, N, K)``.
        regret: mean regret of a round, ``(N,)``, standardised.
    """

    mean: Float[Array, "T N K"]
    precision: Float[Array, "T N K"]
    regret: Float[Array, " N"]


def turns_until(rounds: int) -> tuple[int, ...]:
    """Pulls of each turn, until so many rounds are played.

    >>> turns_until(5), len(turns_until(1000))
    ((1, 1, 1, 1, 1), 111)
    """
    pulls: list[int] = []
    while (done := sum(pulls)) < rounds:
        pulls.append(min(max(1, done // PATIENCE), rounds - done))
    return tuple(pulls)


def play(
    denoiser: ConditionalDenoiser,
    tasks: Float[Array, "N K"],
    noise_std: Float[Array, " N"],
    key: KeyArray,
    rounds: int,
    actions: Playable | None = None,
    among: Bool[Array, "N K"] | None = None,
    every: int = 1,
    batch: int = 500,
) -> Played:
    """Play standardised tasks, each with a noise level of its own.

    Args:
        denoiser: what is thought of a task.
        tasks: their means.
        noise_std: standard deviation of one reward of each task.
        key: of the rewards.
        rounds: rounds of a task.
        actions: sets of arms that are played, each arm with a reward of its own; else one arm.
        among: arms that may be pulled; all by default. Regret is that to the best of them. Of a
            set, only these give rewards.
        every: of so many turns one is kept, the last one always.
        batch: tasks played at once.
    """
    pulls = jnp.asarray(turns_until(rounds), jnp.float32)
    among = jnp.ones(tasks.shape, bool) if among is None else among
    parts = []
    for first in range(0, len(tasks), batch):
        rows = np.minimum(np.arange(first, first + min(batch, len(tasks))), len(tasks) - 1)
        keys = jax.random.split(jax.random.fold_in(key, first), len(rows))
        part = _play(denoiser, tasks[rows], noise_std[rows], among[rows], keys, pulls, actions)
        kept = slice((len(pulls) - 1) % every, None, every)
        parts.append(Played(part.mean[kept], part.precision[kept], part.regret))
    mean, precision, regret = (
        jnp.concatenate(leaves, axis=axis)
        for leaves, axis in zip(zip(*parts, strict=True), (1, 1, 0), strict=True)
    )
    count = len(tasks)
    return Played(mean[:, :count], precision[:, :count], regret[:count])


@eqx.filter_jit
def _play(
    denoiser: ConditionalDenoiser,
    tasks: Float[Array, "N K"],
    noise_std: Float[Array, " N"],
    among: Bool[Array, "N K"],
    keys: KeyArray,
    pulls: Float[Array, " T"],
    actions: Playable | None,
) -> Played:
    def of_task(
        task: Float[Array, " K"], noise: Float[Array, ""], may: Bool[Array, " K"], key: KeyArray
    ) -> Any:
        def played(values: Float[Array, " K"]) -> Bool[Array, " K"]:
            if actions is not None:
                return actions.best(values)
            return jnp.arange(len(values)) == jnp.argmax(jnp.where(may, values, -jnp.inf))

        best = jnp.sum(jnp.where(played(task), task, 0.0))

        def turn(carry: Any, inputs: Any) -> tuple[Any, Any]:
            counts, mean = carry
            times, before, number = inputs
            observation = Observation(mean, counts / noise**2)
            level = slow_level(before, single_arm=actions is None)
            thought = denoiser.given(observation)
            reach = thought.quantile if actions is None else thought.normal_quantile
            chosen = played(reach(level))
            drawn = jax.random.normal(jax.random.fold_in(key, number), task.shape)
            seen = task + noise / jnp.sqrt(times) * drawn
            known = chosen & may
            total = counts + jnp.where(known, times, 0.0)
            mean = jnp.where(known, (counts * mean + times * seen) / jnp.maximum(total, 1.0), mean)
            regret = times * (best - jnp.sum(jnp.where(chosen, task, 0.0)))
            return (total, mean), (mean, total / noise**2, regret)

        start = (jnp.zeros_like(task), jnp.zeros_like(task))
        turns = (pulls, jnp.cumsum(pulls) - pulls, jnp.arange(len(pulls)))
        _, (mean, precision, regret) = jax.lax.scan(turn, start, turns)
        return mean, precision, jnp.sum(regret) / jnp.sum(pulls)

    mean, precision, regret = jax.vmap(of_task)(tasks, noise_std, among, keys)
    return Played(jnp.swapaxes(mean, 0, 1), jnp.swapaxes(precision, 0, 1), regret)
