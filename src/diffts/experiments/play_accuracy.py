"""How far posterior draws are from the exact posterior of a hard law, after real play.

The law is that of Popular and Niche, which is far from Gaussian, and whose posterior and denoiser
are known. With the exact denoiser, all that is wrong is the sampler's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike, NDArray

from diffts.bandits.actions import BestArm
from diffts.bandits.beliefs.belief import HistoryState
from diffts.bandits.history import History
from diffts.bandits.policy import Policy
from diffts.bandits.rules import ThompsonRule
from diffts.diffusion.posterior import SAMPLERS
from diffts.diffusion.prior import DiffusionPrior
from diffts.diffusion.schedule import Schedule
from diffts.evidence import Evidence
from diffts.experiments.limits import check_memory
from diffts.problems.popular_niche import N_GROUPS, PopularNiche
from diffts.problems.popular_niche_exact import ExactPopularNicheBelief
from diffts.problems.popular_niche_prior import exact_prior
from diffts.seeding import KeyArray, as_key
from diffts.validation import one_of, whole_number

ROUNDS = (5, 50, 300)
TASKS = 4
DEFAULT_SAMPLERS = ("paper", "moment-diagonal", "moment-damped", "covariance", "merged")
#: In the place of a sampler: the exact posterior's own draws, which err by chance alone.
EXACT = "exact"
#: A group counts as chosen if its best arm exceeds this: half of what its good arms are.
GOOD = 0.5
#: Exact standard deviations count as at least this, a tenth of one reward's: some are nearly 0.
LEAST_SD = 0.01


@dataclasses.dataclass(frozen=True)
class Beliefs:
    """What draws say of each of N tasks.

    Attributes:
        mean, sd: of each arm, ``(N, K)``.
        groups: the chance that a group's best arm exceeds ``GOOD``, ``(N, 40)``.
        best: the chance of each arm to be the best; equals share it, ``(N, K)``.
    """

    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    groups: NDArray[np.float64]
    best: NDArray[np.float64]

    @staticmethod
    def of(draws: Sequence[ArrayLike]) -> Beliefs:
        """Of draws ``(n, K)`` of each task."""
        each = [_summary(np.asarray(of_task)) for of_task in draws]
        return Beliefs(*(np.stack(column) for column in zip(*each, strict=True)))


def measure_after_play(
    samplers: Sequence[str] = DEFAULT_SAMPLERS,
    steps: int = 100,
    samples: int = 4000,
    seed: int = 0,
    tasks: int = TASKS,
) -> Iterator[dict[str, Any]]:
    """One row for each sampler and number of rounds, as it is measured; draws of the law first.

    A row has the root mean square error of means and standard deviations over arms and tasks, in
    exact standard deviations; the largest error of a group's chance; and how much of the chance to
    be the best arm lies with wrong arms (total variation, mean over tasks). The row of the sampler
    'exact' has fresh draws of the exact posterior: errors as large are chance.
    """
    check_memory("samples", whole_number("samples", samples, 2), 64 * PopularNiche.n_arms)
    for sampler in samplers:
        one_of("sampler", sampler, SAMPLERS)
    whole_number("tasks", tasks, 1)
    schedule = Schedule.linear()
    steps = whole_number("steps", steps, 1, schedule.n_steps)
    belief, key = ExactPopularNicheBelief(), as_key(seed)
    prior = exact_prior(schedule)
    for rounds, states in histories(tasks, ROUNDS, seed).items():
        of_task = [jax.tree.map(lambda leaf, i=i: leaf[i], states) for i in range(tasks)]
        moments = [exact_moments(belief, state) for state in of_task]
        mean, sd = (np.asarray(column, np.float64) for column in zip(*moments, strict=True))
        draw_keys = [jax.random.fold_in(jax.random.fold_in(key, rounds), i) for i in range(tasks)]
        # Four times as many, so that most of the chance in a row is that of its own draws.
        known = [
            exact_draws(belief, s, k, 4 * samples) for s, k in zip(of_task, draw_keys, strict=True)
        ]
        exact = dataclasses.replace(Beliefs.of(known), mean=mean, sd=sd)
        for sampler in (EXACT, *samplers):
            keys = [jax.random.fold_in(k, 1) for k in draw_keys]
            if sampler == EXACT:
                drawn = [
                    exact_draws(belief, s, k, samples) for s, k in zip(of_task, keys, strict=True)
                ]
            else:
                noise_std = jnp.full(belief.n_arms, PopularNiche.noise_std)
                drawn = [
                    draw_many(prior, state.history.evidence(noise_std), k, samples, sampler, steps)
                    for state, k in zip(of_task, keys, strict=True)
                ]
            labels = {"prior": PopularNiche.name, "sampler": sampler, "steps": steps}
            yield labels | {"rounds": rounds, "tasks": tasks} | errors(Beliefs.of(drawn), exact)


def errors(drawn: Beliefs, exact: Beliefs) -> dict[str, float]:
    """How far draws are from what is exact."""
    scale = np.maximum(exact.sd, LEAST_SD)
    return {
        "mean_error": _root_mean_square((drawn.mean - exact.mean) / scale),
        "sd_error": _root_mean_square((drawn.sd - exact.sd) / scale),
        "group_error": float(np.abs(drawn.groups - exact.groups).max()),
        "best_error": float(0.5 * np.abs(drawn.best - exact.best).sum(1).mean()),
    }


def histories(tasks: int, rounds: Sequence[int], seed: int) -> dict[int, HistoryState]:
    """Histories of development tasks after some rounds of exact Thompson sampling.

    Leaves have a leading axis of the tasks.
    """
    policy = Policy(ExactPopularNicheBelief(), ThompsonRule())
    means = jnp.asarray(PopularNiche().development(tasks, seed=seed))
    keys = jax.random.split(jax.random.fold_in(as_key(seed), 2**20), tasks)
    played = _play(policy, means, keys, max(rounds))
    return {after: jax.tree.map(lambda leaf, r=after: leaf[:, r - 1], played) for after in rounds}


@eqx.filter_jit
def _play(policy: Policy, means: Float[Array, "N K"], keys: KeyArray, rounds: int) -> HistoryState:
    """States after each round; leaves of shape ``(N, rounds, …)``."""
    actions = BestArm(policy.n_arms)

    def one_task(mean: Float[Array, " K"], key: KeyArray) -> HistoryState:
        def one_round(state: HistoryState, number: Any) -> tuple[HistoryState, HistoryState]:
            rule_key, reward_key = jax.random.split(jax.random.fold_in(key, number))
            action = policy.select(rule_key, state, actions)
            noise = PopularNiche.noise_std * jax.random.normal(reward_key, mean.shape)
            after = HistoryState(state.history.add(action, mean + noise))
            return after, after

        start = HistoryState(History.empty(policy.n_arms))
        states: HistoryState = jax.lax.scan(one_round, start, jnp.arange(rounds))[1]
        return states

    return jax.vmap(one_task)(means, keys)


@eqx.filter_jit
def draw_many(
    prior: DiffusionPrior, evidence: Evidence, key: KeyArray, n: int, sampler: str, steps: int
) -> Float[Array, "n K"]:
    """Draws for one task, ``(n, K)``.

    Mapped over keys alone: what depends on evidence and step only, as a solve of 'covariance'
    does, is then worked out once for all draws.
    """

    def one(draw_key: KeyArray) -> Float[Array, " K"]:
        return prior.draw(draw_key, evidence, sampler=sampler, steps=steps)

    return jax.vmap(one)(jax.random.split(key, n))


@eqx.filter_jit
def exact_draws(
    belief: ExactPopularNicheBelief, state: HistoryState, key: KeyArray, n: int
) -> Float[Array, "n K"]:
    """Draws from the exact posterior of one task, ``(n, K)``."""
    return belief.draw(key, state, n)


@eqx.filter_jit
def exact_moments(
    belief: ExactPopularNicheBelief, state: HistoryState
) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
    """Its mean and standard deviation of each arm, in closed form."""
    return belief.moments(state, jnp.zeros((0, belief.n_arms)))


def _summary(draws: NDArray[np.floating[Any]]) -> tuple[NDArray[np.float64], ...]:
    """Mean, standard deviation, chance of each group and of each arm to be the best."""
    groups = np.stack(
        [draws[:, PopularNiche.group_of_arm == group].max(1) for group in range(N_GROUPS)], axis=1
    )
    best = draws == draws.max(1, keepdims=True)
    share = best / best.sum(1, keepdims=True)
    wide = draws.astype(np.float64)
    return wide.mean(0), wide.std(0), (groups > GOOD).mean(0), share.mean(0)


def _root_mean_square(values: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(values**2)))
