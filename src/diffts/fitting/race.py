"""A simulated race of beliefs: the same new tasks, the same rule, regret and reward.

Nobody knows the true means of a past task: only some arms were tried, and rewards are noisy. So
held-out tasks are completed by draws from their posterior. Each law that explains the data well
completes as many of them as any other, and every belief plays all of them: none is judged on its
own dreams alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diffts.bandits.policies import UCB1
from diffts.bandits.policy import Policy
from diffts.bandits.rewards import BernoulliRewards, GaussianRewards, RewardModel
from diffts.bandits.simulate import simulate
from diffts.evidence import Evidence
from diffts.fitting.candidates import posterior_draws, rows_of
from diffts.fitting.fitted import Law

#: Decisions after which a race is looked at.
HORIZONS = (10, 30, 100)


@dataclass(frozen=True)
class Outcome:
    """What a way to play had, task by task.

    Attributes:
        reward: mean reward of a decision over the first 10, 30 and 100 ``(N,)`` each.
        regret: cumulative regret after so many ``(N,)`` each.
    """

    reward: dict[str, NDArray[np.float64]]
    regret: dict[str, NDArray[np.float64]]


def complete(evidence: Evidence, laws: Sequence[Law], seed: int) -> NDArray[np.float64]:
    """Mean rewards of N tasks, each drawn given what is known of it; laws take turns."""
    tasks = np.empty(evidence.mean.shape)
    for number, law in enumerate(laws):
        rows = np.arange(number, len(tasks), len(laws))
        if len(rows):
            tasks[rows] = posterior_draws(law, rows_of(evidence, rows), 1, seed + number)[0]
    return tasks


def rewards_like(binary: bool, noise_std: float) -> RewardModel:
    """The law of rewards as the log has them."""
    return BernoulliRewards() if binary else GaussianRewards(std=noise_std)


def play(policy: Policy, tasks: NDArray[np.float64], rewards: RewardModel, seed: int) -> Outcome:
    """A policy on all tasks."""
    run = simulate(
        policy, tasks, rewards, horizon=max(HORIZONS), record_every=min(HORIZONS), seed=seed
    )
    best = tasks.max(1)
    regret = {str(t): run.regret[list(run.rounds).index(t)] for t in HORIZONS}
    return Outcome({t: best - total / int(t) for t, total in regret.items()}, regret)


def always(chances: NDArray[np.float64], tasks: NDArray[np.float64]) -> Outcome:
    """Arms by fixed chances ``(K,)``, whatever happens: known without playing."""
    reward, best = tasks @ chances, tasks.max(1)
    return Outcome(
        {str(t): reward for t in HORIZONS}, {str(t): t * (best - reward) for t in HORIZONS}
    )


def baselines(
    counts: NDArray[np.float64], overall: NDArray[np.float64], noise_std: float
) -> Mapping[str, Callable[[NDArray[np.float64], RewardModel, int], Outcome]]:
    """What a new user gets without a prior.

    Args:
        counts: pulls of each arm in the log ``(K,)``.
        overall: each arm's mean over past tasks ``(K,)``.
        noise_std: that of a reward.
    """
    favourite = np.eye(len(counts))[np.argmax(overall)]
    return {
        "as logged": lambda tasks, *_: always(counts / counts.sum(), tasks),
        "best arm for all": lambda tasks, *_: always(favourite, tasks),
        "ucb1": lambda tasks, rewards, seed: play(
            UCB1(len(counts), noise_std), tasks, rewards, seed
        ),
    }
