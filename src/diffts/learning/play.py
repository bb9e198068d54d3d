"""Histories of play, for a network that is to be asked about them; and how well it plays.

A denoiser that takes evidence as noise plays tasks that are known: in each turn the arm with the
highest quantile. The more rounds a task has had, the more often the arm of a turn is pulled: a
hundred turns are a thousand rounds. What is chosen follows from past rewards alone, never from the
means themselves, so such a history tells no more of them than its rewards do.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from diffts.diffusion.observation import ConditionalDenoiser, Observation
from diffts.seeding import KeyArray

#: Level of the quantile: that of the default rule.
LEVEL = 0.95
#: After t rounds, an arm is pulled t/20 times at once, at least once.
PATIENCE = 20


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
    arms_of_a_round: int = 1,
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
        rounds: pulls of a task.
        arms_of_a_round: how many arms a round pulls, each with a reward: the best of them all.
        among: arms that may be pulled; all by default. Regret is that to the best of them.
        every: of so many turns one is kept, the last one always.
        batch: tasks played at once.
    """
    pulls = jnp.asarray(turns_until(rounds), jnp.float32)
    among = jnp.ones(tasks.shape, bool) if among is None else among
    parts = []
    for first in range(0, len(tasks), batch):
        rows = np.minimum(np.arange(first, first + min(batch, len(tasks))), len(tasks) - 1)
        keys = jax.random.split(jax.random.fold_in(key, first), len(rows))
        part = _play(
            denoiser, tasks[rows], noise_std[rows], among[rows], keys, pulls, arms_of_a_round
        )
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
    arms_of_a_round: int,
) -> Played:
    def of_task(
        task: Float[Array, " K"], noise: Float[Array, ""], may: Bool[Array, " K"], key: KeyArray
    ) -> Any:
        top = jax.lax.top_k(jnp.where(may, task, -jnp.inf), arms_of_a_round)[0]
        best = jnp.sum(jnp.where(jnp.isfinite(top), top, 0.0))  # fewer arms may be on offer

        def turn(carry: Any, inputs: Any) -> tuple[Any, Any]:
            counts, mean = carry
            times, number = inputs
            observation = Observation(mean, counts / noise**2)
            index = denoiser.given(observation).quantile(jnp.float32(LEVEL))
            offered = jnp.where(may, index, -jnp.inf)
            chosen = jnp.zeros_like(task).at[jax.lax.top_k(offered, arms_of_a_round)[1]].set(1.0)
            chosen = jnp.where(may, chosen, 0.0)
            drawn = jax.random.normal(jax.random.fold_in(key, number), task.shape)
            seen = task + noise / jnp.sqrt(times) * drawn
            total = counts + times * chosen
            mean = jnp.where(chosen > 0, (counts * mean + times * seen) / total, mean)
            regret = times * (best - jnp.sum(chosen * task))
            return (total, mean), (mean, total / noise**2, regret)

        start = (jnp.zeros_like(task), jnp.zeros_like(task))
        _, (mean, precision, regret) = jax.lax.scan(turn, start, (pulls, jnp.arange(len(pulls))))
        return mean, precision, jnp.sum(regret) / jnp.sum(pulls)

    mean, precision, regret = jax.vmap(of_task)(tasks, noise_std, among, keys)
    return Played(jnp.swapaxes(mean, 0, 1), jnp.swapaxes(precision, 0, 1), regret)
