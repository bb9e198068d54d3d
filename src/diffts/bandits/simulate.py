"""The simulator: tasks × rounds × whatever a policy does, in compiled scans.

Common random numbers: the reward of arm ``a`` of task ``i`` in round ``t`` depends on the seed,
``i``, ``t`` and ``a`` alone. So two policies that play the same arm in the same round of the same
task get the same reward.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike, NDArray

from diffts.bandits.actions import Actions, BestArm
from diffts.bandits.policy import Policy
from diffts.bandits.rewards import RewardModel
from diffts.bandits.rules import Rule
from diffts.bandits.simulation import Simulation
from diffts.errors import InvalidInputError
from diffts.seeding import KeyArray, Seed, as_key
from diffts.stacking import layout, stack
from diffts.validation import finite_array, whole_number

__all__ = ["STATE_BYTES", "Simulation", "simulate", "simulate_side_by_side"]

#: Bytes of policy state that are simulated together: larger batches fall out of the CPU's cache.
STATE_BYTES = {"cpu": 2**23, "gpu": 2**35, "tpu": 2**33}

#: How often advice is asked for after the start, evenly over the rounds: it takes many draws.
ADVICES = 2


def simulate(
    policy: Policy,
    tasks: ArrayLike,
    rewards: RewardModel,
    *,
    horizon: int,
    actions: Actions | None = None,
    record_every: int | None = None,
    seed: Seed = 0,
    rule: str | Rule | None = None,
    advice: bool = True,
    on_block: Callable[[int, int], None] | None = None,
) -> Simulation:
    """Play a policy against a set of tasks.

    Args:
        policy: the policy.
        tasks: mean rewards of the tasks, ``(N, K)``.
        rewards: the law of rewards (``problem.rewards``).
        horizon: rounds T.
        actions: what may be played; single arms by default.
        record_every: rounds between two records; by default such that there are at most 250.
            What is kept does not grow with the horizon beyond that.
        seed: seed of rewards and policy; the same seed gives every policy the same rewards.
        rule: play the policy's belief by another rule: a name in ``diffts.bandits.RULES``, which is
            told the horizon, or a rule.
        advice: whether to ask for advice, which takes many draws; without, ``simple_regret`` and
            ``chance_right`` are NaN.
        on_block: called with the decisions made so far and their total; for progress bars.

    Tasks are spread over all local devices, and simulated in batches that bound the memory.
    """
    return simulate_side_by_side(
        [policy if rule is None else policy.playing(rule, horizon=horizon)],
        tasks,
        rewards,
        horizon=horizon,
        actions=actions,
        record_every=record_every,
        seeds=[seed],
        advice=advice,
        on_block=on_block,
    )[0]


def simulate_side_by_side(
    policies: Sequence[Policy],
    tasks: ArrayLike,
    rewards: RewardModel,
    *,
    horizon: int,
    actions: Actions | None = None,
    record_every: int | None = None,
    seeds: Sequence[Seed] | None = None,
    advice: bool = True,
    on_block: Callable[[int, int], None] | None = None,
) -> list[Simulation]:
    """Several policies of one kind in one compiled run, each against all of the tasks.

    The policies differ in their numbers alone: weights, assumed noise, calibrated errors. A GPU
    takes little longer for twelve of them than for one. Arguments as in :func:`simulate`, which
    gives the same results one by one; ``seeds`` has one for each policy (by default 0 for all, so
    that all meet the same rewards). ``seconds`` is an equal share of the time of all.
    """
    if not policies:
        raise InvalidInputError("policies: none given")
    policy, count, several = policies[0], len(policies), len(policies) > 1
    if any(layout(other) != layout(policy) for other in policies[1:]):
        raise InvalidInputError("policies: not of one kind; simulate them one by one")
    seeds = [0] * count if seeds is None else seeds
    if len(seeds) != count:
        raise InvalidInputError(f"seeds: {len(seeds)} for {count} policies")
    means = finite_array("tasks", tasks, ndim=2)
    if means.shape[1] != policy.n_arms or not len(means):
        raise InvalidInputError(
            f"tasks: expected shape (tasks, {policy.n_arms}), got {means.shape}"
        )
    horizon = whole_number("horizon", horizon, 1)
    actions = BestArm(policy.n_arms) if actions is None else actions
    policy.check(actions)
    policy.belief.noise.check_law(rewards.bounds)
    every = -(-horizon // 250) if record_every is None else record_every
    every = whole_number("record_every", every, 1, horizon)

    # One policy is played without an axis of policies, which would cost it time.
    player = stack(policies) if several else policy
    keys = [as_key(seed) for seed in seeds]
    key = jnp.stack(keys) if several else keys[0]
    devices = jax.local_devices()
    batch = _batch_size(policy, len(means), len(devices), count)
    started = time.perf_counter()
    measured: list[Any] = []
    speeds: list[float] = []
    done = 0
    for first in range(0, len(means), batch):
        index = np.arange(first, first + batch)
        here = jnp.asarray(means[np.minimum(index, len(means) - 1)], jnp.float32)
        here, numbers = jax.device_put((here, index), _over_devices(devices, axis=0))
        game = _Game(actions, rewards, here, numbers)
        # Placed like what comes back, or the second block would be compiled anew.
        states = _initial_states(player, numbers, several)
        states = jax.device_put(states, _over_devices(devices, axis=int(several)))
        parts = []
        nothing = np.full((count, batch) if several else (batch,), np.nan, np.float32)
        advices = _advise(player, states, several, game) if advice else [nothing, nothing]
        blocks = _blocks(horizon, every)
        for number, (start, gap, length) in enumerate(blocks):
            before = time.perf_counter()
            first_round = jnp.int32(start)  # an array: a Python number would be compiled in
            states, part = _play(player, key, states, several, game, first_round, gap, length)
            regret, chosen = (np.asarray(leaf) for leaf in part)
            # Records within a block have the advice from before it, and the last one its own.
            advised = [np.broadcast_to(leaf[..., None, :], regret.shape).copy() for leaf in advices]
            due = (number + 1) * ADVICES // len(blocks) > number * ADVICES // len(blocks)
            if advice and due:
                advices = _advise(player, states, several, game)
                for column, leaf in zip(advised, advices, strict=True):
                    column[..., -1, :] = leaf
            parts.append([regret, *advised, chosen])
            decisions = count * min(batch, len(means) - first) * length * gap
            done += decisions
            speeds.append(decisions / (time.perf_counter() - before))
            if on_block is not None:
                on_block(done, count * len(means) * horizon)
        measured.append([np.concatenate(leaves, axis=-2) for leaves in zip(*parts, strict=True)])
    regret, simple, chance, chosen = (
        np.concatenate(leaves, axis=-1)[..., : len(means)].reshape(count, -1, len(means))
        for leaves in zip(*measured, strict=True)
    )
    seconds = time.perf_counter() - started
    return [
        Simulation(
            rounds=np.minimum(every * np.arange(1, -(-horizon // every) + 1), horizon),
            regret=regret[i].astype(np.float64),
            simple_regret=simple[i].astype(np.float64),
            chance_right=chance[i].astype(np.float64),
            chosen=chosen[i].astype(np.int64),
            seconds=seconds / count,
            # The median block: compilation falls on a few of the twenty or more.
            decisions_per_second=float(np.median(speeds)),
        )
        for i in range(count)
    ]


def _blocks(horizon: int, every: int) -> list[tuple[int, int, int]]:
    """First round, rounds between records, and records of each compiled call.

    About twenty calls, so that a progress bar moves; a last, shorter gap ends at the horizon.

    >>> _blocks(7, 3)
    [(0, 3, 1), (3, 3, 1), (6, 1, 1)]
    """
    records = horizon // every
    # Blocks of one size, where some size near a twentieth divides: each size is compiled.
    wanted = max(1, -(-records // 20))
    size = next((s for s in range(wanted, 4 * wanted) if records % s == 0), wanted)
    blocks = [
        (start * every, every, min(size, records - start)) for start in range(0, records, size)
    ]
    if rest := horizon % every:
        blocks.append((records * every, rest, 1))
    return blocks


def _batch_size(policy: Policy, tasks: int, devices: int, policies: int) -> int:
    """Tasks to simulate together: as many as fit, evenly, and a multiple of the devices."""
    state = eqx.filter_eval_shape(policy.init)
    size = policies * sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
    most = max(devices, STATE_BYTES.get(jax.default_backend(), 2**23) // size)
    batches = -(-tasks // most)
    even = -(-tasks // batches)
    return -(-even // devices) * devices


def _over_devices(devices: list[Any], axis: int) -> jax.sharding.Sharding:
    """Tasks, which are on this axis, spread over the devices."""
    mesh = jax.sharding.Mesh(np.asarray(devices), ("tasks",))
    place = jax.sharding.PartitionSpec(*[None] * axis, "tasks")
    return jax.sharding.NamedSharding(mesh, place)


class _Game(NamedTuple):
    """What a batch of N tasks is played by, and the tasks' own numbers."""

    actions: Actions
    rewards: RewardModel
    means: Float[Array, "N K"]
    numbers: Int[Array, " N"]


def _of_each(function: Callable[..., Any], several: bool) -> Callable[..., Any]:
    """A function of one policy's arguments, or of those of several, stacked."""
    return eqx.filter_vmap(function) if several else function


@eqx.filter_jit
def _initial_states(player: Policy, numbers: Int[Array, " N"], several: bool) -> Any:
    """State and regret of each task, before the first round."""

    def of_one(policy: Policy) -> Any:
        return jax.vmap(lambda _: (policy.init(), jnp.float32(0.0)))(numbers)

    return _of_each(of_one, several)(player)


@eqx.filter_jit
def _advise_all(player: Policy, states: Any, several: bool, game: _Game) -> Any:
    """Of each task: the regret of the advised action, and its chance to be the best."""
    actions = game.actions

    def of_task(policy: Policy, mean: Float[Array, " K"], state: Any) -> tuple[Array, Array]:
        best = jnp.sum(jnp.where(actions.best(mean), mean, 0.0))
        advice = policy.advise(state[0], actions)
        return best - jnp.sum(jnp.where(advice.action, mean, 0.0)), advice.chance

    def of_one(policy: Policy, states: Any) -> Any:
        return jax.vmap(lambda mean, state: of_task(policy, mean, state))(game.means, states)

    return _of_each(of_one, several)(player, states)


def _advise(player: Policy, states: Any, several: bool, game: _Game) -> list[NDArray[np.float32]]:
    return [np.asarray(leaf) for leaf in _advise_all(player, states, several, game)]


@eqx.filter_jit
def _play(player: Policy, key: KeyArray, states: Any, several: bool, *rest: Any) -> Any:
    """``_play_rounds`` of one policy, or of several at once: what is theirs is stacked."""
    return _of_each(lambda *own: _play_rounds(*own, *rest), several)(player, key, states)


def _play_rounds(
    policy: Policy,
    key: KeyArray,
    states: Any,
    game: _Game,
    first_round: Int[Array, ""],
    every: int,
    records: int,
) -> tuple[Any, tuple[Array, ...]]:
    """``records × every`` rounds of a batch of tasks; the records have shape ``(records, N)``."""
    actions, rewards = game.actions, game.rewards
    reward_key, policy_key = jax.random.split(key)
    arms = jnp.arange(policy.n_arms)

    def play_round(carry: Any, t: Int[Array, ""], task: Any) -> tuple[Any, None]:
        state, regret, _ = carry
        mean, number, best = task
        noise_key = jax.random.fold_in(jax.random.fold_in(reward_key, number), t)
        choice_key = jax.random.fold_in(jax.random.fold_in(policy_key, number), t)
        action = policy.select(choice_key, state, actions)
        if actions.single_arm:  # the one reward that is seen; all K would cost more than UCB
            arm = jnp.argmax(action)
            received = jnp.where(action, rewards(jax.random.fold_in(noise_key, arm), mean, arm), 0)
        else:
            received = rewards(noise_key, mean, arms)
        state = policy.update(state, action, received)
        regret = regret + best - jnp.sum(jnp.where(action, mean, 0.0))
        return (state, regret, action), None

    def task_records(mean: Float[Array, " K"], number: Int[Array, ""], state: Any) -> Any:
        best = jnp.sum(jnp.where(actions.best(mean), mean, 0.0))

        def record(carry: Any, r: Int[Array, ""]) -> tuple[Any, tuple[Array, Array]]:
            rounds = first_round + r * every + jnp.arange(every)
            carry, _ = jax.lax.scan(
                lambda inner, t: play_round(inner, t, (mean, number, best)), carry, rounds
            )
            _, regret, action = carry
            chosen = jnp.argmax(action) if actions.single_arm else jnp.int32(-1)
            return carry, (regret, chosen)

        inside, regret = state
        start = (inside, regret, jnp.zeros(policy.n_arms, bool))
        (inside, regret, _), rows = jax.lax.scan(record, start, jnp.arange(records))
        return (inside, regret), rows

    states, rows = jax.vmap(task_records)(game.means, game.numbers, states)
    return states, tuple(jnp.swapaxes(leaf, 0, 1) for leaf in rows)
