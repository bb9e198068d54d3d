"""Decisions for many tasks at once, as one compiled function of plain arrays.

Sizes are padded to a few, so that programs are few: they take longer to compile than to run.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy.typing import NDArray

from diffts.bandits.actions import Actions, BestOffered
from diffts.bandits.beliefs import Belief, NewArmsBelief, State
from diffts.bandits.history import History
from diffts.bandits.policy import Advice, Policy
from diffts.bandits.rules import Rule
from diffts.chunks import CHUNK_ENTRIES
from diffts.seeding import KeyArray

#: Sizes of batches: powers of four, and one more from 16 on, as ``chunks.padded_size`` says why.
_SIZES = (1, 4, 17, 65, 257, 1025, 4097)


class Tasks(NamedTuple):
    """What is known of B tasks; K arms that the fit knows, and J new ones.

    Attributes:
        words: two numbers for each task, which its randomness comes from, ``(B, 2)``.
        counts, sums, squares: of each task and arm, ``(B, K + J)``.
        rounds: decisions of each task, ``(B,)``.
        offered: which arms there are to choose from, ``(B, K + J)``.
        new_mean, new_std: the law of each new arm, ``(B, J)``.
    """

    words: NDArray[np.uint32]
    counts: NDArray[np.float32]
    sums: NDArray[np.float32]
    squares: NDArray[np.float32]
    rounds: NDArray[np.int32]
    offered: NDArray[np.bool_]
    new_mean: NDArray[np.float32]
    new_std: NDArray[np.float32]

    @staticmethod
    def empty(tasks: int, arms: int, new: int) -> Tasks:
        """Nothing happened yet; only the first arm is on offer."""
        of_arms = (tasks, arms + new)
        offered = np.zeros(of_arms, bool)
        offered[:, 0] = True
        zeros = np.zeros(of_arms, np.float32)
        return Tasks(
            np.zeros((tasks, 2), np.uint32),
            zeros,
            zeros.copy(),
            zeros.copy(),
            np.zeros(tasks, np.int32),
            offered,
            np.zeros((tasks, new), np.float32),
            np.ones((tasks, new), np.float32),
        )

    def rows(self, start: int, size: int) -> Tasks:
        """So many tasks from one on; what is beyond the last is empty."""
        arms, new = self.counts.shape[1], self.new_mean.shape[1]
        part = Tasks.empty(size, arms - new, new)
        for leaf, whole in zip(part, self, strict=True):
            some = whole[start : start + size]
            leaf[: len(some)] = some
        return part


def padded_new(arms: int) -> int:
    """How many places for new arms are compiled.

    >>> [padded_new(arms) for arms in (0, 1, 4, 5, 100)]
    [0, 4, 4, 16, 256]
    """
    return 0 if not arms else next(4**n for n in itertools.count(1) if 4**n >= arms)


def batch_sizes(rows: int, most: int) -> list[int]:
    """Sizes of compiled batches that make up at least so many rows.

    >>> batch_sizes(1, 100), batch_sizes(30, 100), batch_sizes(70, 20)
    ([1], [65], [17, 17, 17, 17, 4])
    """
    fitting = [size for size in _SIZES if size <= most]
    sizes: list[int] = []
    while (left := rows - sum(sizes)) > 0:
        sizes.append(next((size for size in fitting if size >= left), fitting[-1]))
    return sizes


def choose(
    policy: Policy, base: KeyArray, tasks: Tasks, draws: int
) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
    """The arm for each task, and its chance, if it is counted in ``draws`` choices of the rule.

    Of so many choices the first is played, but for the floor. Given them all, an arm was played
    with the chance ``f + (1 - nf) w``, ``w`` its share of them: nothing is left to estimate. A rule
    without a coin is asked once, whatever ``draws``.
    """
    counted = max(draws, 1)
    arms, times = _in_batches(
        lambda part: _choose(policy, base, part, counted), tasks, policy.n_arms * counted
    )
    if not draws:
        return arms, None
    chance = times / counted
    if policy.floor is not None:
        offered = tasks.offered.sum(1)
        by_floor = np.minimum(float(policy.floor) * offered, 1.0)
        chance = by_floor / offered + (1.0 - by_floor) * chance
    return arms, np.array([float(f"{one:.6g}") for one in chance])  # the floor is a float32


def advise(policy: Policy, tasks: Tasks) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The arm to settle for in each task, and how likely it is the best."""
    arms, chances = _in_batches(lambda part: _advise(policy, part), tasks, policy.n_arms)
    return arms, chances.astype(np.float64)


def _in_batches(compiled: Any, tasks: Tasks, entries: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """``compiled`` on batches of bounded memory; arms and chances of all rows."""
    rows, arms = tasks.counts.shape
    room = CHUNK_ENTRIES.get(jax.default_backend(), 2**18)
    parts, start = [], 0
    for size in batch_sizes(rows, max(1, room // max(entries, arms * arms))):
        parts.append([np.asarray(leaf) for leaf in compiled(tasks.rows(start, size))])
        start += size
    together = [np.concatenate(leaves)[:rows] for leaves in zip(*parts, strict=True)]
    return together[0], together[1]


@eqx.filter_jit
def _choose(policy: Policy, base: KeyArray, tasks: Tasks, draws: int) -> Any:
    def one(task: Tasks) -> Any:
        words = task.words.astype(jnp.uint32)
        key = jax.random.fold_in(jax.random.fold_in(base, words[0]), words[1])
        rule_key, more_key, floor_key = jax.random.split(key, 3)
        belief, state, actions = _situation(policy.belief, task)

        def rules_choice(key: KeyArray) -> Bool[Array, " K"]:
            return policy.rule.select(key, belief, state, actions)

        # Once for all draws: what takes time here is to trace it.
        keys = jnp.concatenate([rule_key[None], jax.random.split(more_key, draws - 1)])
        choices = jax.vmap(rules_choice)(keys)
        settled = Policy(belief, _Settled(choices[0]), policy.floor)
        played = settled.select(floor_key, state, actions)
        return jnp.argmax(played), jnp.sum(jnp.all(choices == played, axis=1))

    return jax.vmap(one)(tasks)


@eqx.filter_jit
def _advise(policy: Policy, tasks: Tasks) -> Any:
    def one(task: Tasks) -> tuple[Any, Float[Array, ""]]:
        belief, state, actions = _situation(policy.belief, task)
        advice: Advice = Policy(belief, policy.rule).advise(state, actions)
        return jnp.argmax(advice.action), advice.chance

    return jax.vmap(one)(tasks)


class _Settled(Rule):
    """What is settled already; the floor is the policy's."""

    action: Bool[Array, " K"]

    def select(
        self, key: KeyArray, belief: Belief, state: State, actions: Actions
    ) -> Bool[Array, " K"]:
        """It."""
        del key, belief, state, actions
        return self.action


def _situation(known: Belief, task: Tasks) -> tuple[Belief, State, Actions]:
    """What is thought of one task, and what can be played there."""
    belief = known
    if task.new_mean.shape[0]:
        belief = NewArmsBelief(known, task.new_mean, task.new_std)
    rounds = jnp.asarray(task.rounds, jnp.int32)
    history = History(
        jnp.asarray(task.counts), jnp.asarray(task.sums), jnp.asarray(task.squares), rounds
    )
    return belief, belief.resume(history), BestOffered(task.offered)
