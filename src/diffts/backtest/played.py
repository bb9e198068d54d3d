"""A policy beside a log: its chances after the logged rounds, and a replay on rounds of its own.

What a policy would do after a history is a function of that history alone, so the chances of all
rounds are counted side by side. In a replay the history depends on what was accepted before: tasks
are mapped, rounds are scanned.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import NDArray

from diffts.backtest.histories import Histories, before
from diffts.backtest.rounds import LoggedRounds
from diffts.bandits.actions import BestOffered
from diffts.bandits.beliefs import Belief
from diffts.bandits.history import History
from diffts.bandits.policy import Policy
from diffts.chunks import padded_size
from diffts.errors import InvalidInputError
from diffts.seeding import KeyArray

#: Bytes that are worked on at once inside a compiled program.
WORKING_BYTES = 2**26
#: Tasks that are replayed together.
TASKS_AT_ONCE = 256
#: Rounds of a compiled piece of a replay: one program for tasks of any length.
SEGMENT = 32


def chances(
    policy: Policy, rounds: LoggedRounds, start: int, stop: int, key: KeyArray, draws: int
) -> NDArray[np.float64]:
    """The chance of each arm in some of the rounds, ``(rounds, K)``, after the logged ones before.

    Shares of ``draws`` choices, each by a key of its own. A rule without a coin makes one choice,
    whose chance is exactly 1 (``vmap`` does not repeat what does not depend on the key).
    """
    size = stop - start
    padded = padded_size(size)
    cost = _state_bytes(policy) + 8 * draws * rounds.n_arms
    at_once = max(1, min(padded, WORKING_BYTES // cost))
    histories, offered, rows = _padded(
        (before(rounds, start, stop), rounds.on_offer(start, stop), rounds.row[start:stop]), padded
    )
    counted = _chances(policy, histories, offered, rows, key, draws, at_once)
    return np.asarray(counted, np.float64)[:size]


@eqx.filter_jit
def _chances(
    policy: Policy,
    histories: Histories,
    offered: Bool[Array, "R K"],
    rows: Int[Array, " R"],
    key: KeyArray,
    draws: int,
    at_once: int,
) -> Float[Array, "R K"]:
    def of_round(given: Any) -> Float[Array, " K"]:
        history, mask, row = given
        state = policy.resume(History(*history))
        actions = BestOffered(mask)
        keys = jax.random.split(jax.random.fold_in(key, row), draws)
        chosen = jax.vmap(lambda one: policy.select(one, state, actions))(keys)
        return jnp.mean(chosen, axis=0)

    return jax.lax.map(of_round, (tuple(histories), offered, rows), batch_size=at_once)


def expected(belief: Belief, rounds: LoggedRounds, start: int, stop: int) -> NDArray[np.float64]:
    """The belief's mean of each arm before some of the rounds, ``(rounds, K)``."""
    size = stop - start
    padded = padded_size(size)
    at_once = max(1, min(padded, WORKING_BYTES // (_state_bytes(belief) + 512 * rounds.n_arms)))
    means = _expected(belief, _padded(before(rounds, start, stop), padded), at_once)
    return np.asarray(means, np.float64)[:size]


@eqx.filter_jit
def _expected(belief: Belief, histories: Histories, at_once: int) -> Float[Array, "R K"]:
    def of_round(history: Any) -> Float[Array, " K"]:
        return belief.mean(belief.resume(History(*history)))

    return jax.lax.map(of_round, tuple(histories), batch_size=at_once)


def replay(
    policy: Policy, rounds: LoggedRounds, key: KeyArray, bound: float, draws: int
) -> NDArray[np.bool_]:
    """Which rounds the policy accepts, ``(R,)``, if it learns from those alone.

    A round with arm ``a`` is accepted with the chance ``min(1, π(a)/(c p(a)))``: then all accepted
    rounds look as if the policy itself had played them, if ``c`` is at least the largest ``π/p``.
    ``π`` is the share of ``draws`` choices. Where nothing is cut off at 1, one choice has the same
    law as many: the average acceptance is what counts.
    """
    lengths = np.bincount(rounds.task, minlength=rounds.n_tasks)
    begins = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    accepted = np.zeros(len(rounds), bool)
    fitting = max(1, WORKING_BYTES // (_state_bytes(policy) + 8 * draws * rounds.n_arms))
    batch = min(TASKS_AT_ONCE, fitting, padded_size(rounds.n_tasks))
    # Tasks of like length together: a batch is as long as its longest task.
    in_order = np.argsort(lengths, kind="stable")
    for first in range(0, rounds.n_tasks, batch):
        tasks = in_order[first : first + batch]
        states = _initial_states(policy, batch)
        for start in range(0, int(lengths[tasks].max()), SEGMENT):
            steps = start + np.arange(SEGMENT)
            there = steps < lengths[tasks][:, None]
            place = np.where(there, begins[tasks][:, None] + steps, 0)
            columns = {
                "arm": rounds.arm[place],
                "reward": rounds.reward[place].astype(np.float32),
                "scaled": (bound * rounds.propensity[place]).astype(np.float32),
                "row": rounds.row[place],
                "there": there,
            }
            if rounds.offered is not None:
                columns["offered"] = rounds.offered[place]
            columns = _padded(columns, batch)
            states, taken = _replay(policy, states, columns, jnp.asarray(rounds.played), key, draws)
            accepted[place[there]] = np.asarray(taken)[: len(tasks)][there]
    return accepted


@eqx.filter_jit
def _initial_states(policy: Policy, count: int) -> Any:
    return jax.vmap(lambda _: policy.init())(jnp.arange(count))


@eqx.filter_jit
def _replay(
    policy: Policy,
    states: Any,
    columns: dict[str, Array],
    played: Bool[Array, " K"],
    key: KeyArray,
    draws: int,
) -> tuple[Any, Bool[Array, "N T"]]:
    """Some rounds of some tasks; with the states after them."""
    arms = jnp.arange(policy.n_arms)

    def one_round(state: Any, given: dict[str, Array]) -> tuple[Any, Array]:
        actions = BestOffered(given.get("offered", played))
        choice, coin = jax.random.split(jax.random.fold_in(key, given["row"]))
        keys = jax.random.split(choice, draws)
        chosen = jax.vmap(lambda one: policy.select(one, state, actions))(keys)
        chance = jnp.mean(chosen[:, given["arm"]])
        accept = given["there"] & (jax.random.uniform(coin) * given["scaled"] < chance)
        action = arms == given["arm"]
        after = policy.update(state, action, jnp.where(action, given["reward"], 0.0))
        return jax.tree.map(lambda new, old: jnp.where(accept, new, old), after, state), accept

    def one_task(given: tuple[Any, dict[str, Array]]) -> tuple[Any, Bool[Array, " T"]]:
        return jax.lax.scan(one_round, *given)

    # On a CPU one after the other. Side by side, programs of this kind never came back: two cores,
    # jaxlib 0.10, a Gaussian belief of 34 arms with noise that is no number, 240 tasks. (They did
    # with XLA_FLAGS=--xla_cpu_enable_concurrency_optimized_scheduler=false.)
    at_once = 1 if jax.default_backend() == "cpu" else len(columns["arm"])
    return jax.lax.map(one_task, (states, columns), batch_size=at_once)


def check(policy: Policy, rounds: LoggedRounds) -> None:
    """Refuse a log that a policy cannot be played beside."""
    if policy.n_arms != rounds.n_arms:
        raise InvalidInputError(
            f"policy: of {policy.n_arms} arms, the log has {rounds.n_arms} (see with_arms)"
        )
    policy.check(BestOffered(rounds.played))
    policy.belief.noise.check(rounds.reward)


def _state_bytes(of: Policy | Belief) -> int:
    leaves = jax.tree.leaves(eqx.filter_eval_shape(of.init))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)


def _padded(tree: Any, size: int) -> Any:
    """Arrays with more rows, copies of the last one."""

    def pad(leaf: Any) -> Any:
        widths = [(0, size - len(leaf))] + [(0, 0)] * (np.ndim(leaf) - 1)
        return jnp.asarray(np.pad(leaf, widths, mode="edge"))

    return jax.tree.map(pad, tree)
