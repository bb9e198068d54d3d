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

#: Decisions after which a race is looked at, if it is that long, beside its end.
SPANS = (10, 30, 100)
LEAST_DECISIONS, MOST_DECISIONS = SPANS[0], 100_000
#: Decisions and tasks that tell how fast a belief plays.
TRIAL = 10


def spans(decisions: int) -> tuple[int, ...]:
    """Decisions after which a race of this length is looked at.

    >>> spans(100), spans(50), spans(1000)
    ((10, 30, 100), (10, 30, 50), (10, 30, 100, 1000))
    """
    return (*(span for span in SPANS if span < decisions), decisions)


@dataclass(frozen=True)
class Outcome:
    """What a way to play had, task by task.

    Attributes:
        reward: mean reward of a decision over the first 10, 30, … ``(N,)`` each.
        regret: cumulative regret after so many ``(N,)`` each.
    """

    reward: dict[str, NDArray[np.float64]]
    regret: dict[str, NDArray[np.float64]]

    @property
    def missed(self) -> NDArray[np.float64]:
        """Regret at the end ``(N,)``."""
        return list(self.regret.values())[-1]

    @property
    def earned(self) -> NDArray[np.float64]:
        """Mean reward of a decision over all of them ``(N,)``."""
        return list(self.reward.values())[-1]


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


def play(
    policy: Policy,
    tasks: NDArray[np.float64],
    rewards: RewardModel,
    seed: int,
    decisions: int = SPANS[-1],
) -> Outcome:
    """A policy on all tasks."""
    run = simulate(
        policy,
        tasks,
        rewards,
        horizon=decisions,
        record_every=SPANS[0],
        seed=seed,
        advice=False,  # nobody reads it, and it takes many draws
    )
    best, rounds = tasks.max(1), list(run.rounds)
    regret = {str(t): run.regret[rounds.index(t)] for t in spans(decisions)}
    return Outcome({t: best - total / int(t) for t, total in regret.items()}, regret)


def seconds_of_a_task(
    policy: Policy, tasks: NDArray[np.float64], rewards: RewardModel, decisions: int
) -> float:
    """How long one more task of a race takes, by the first decisions of a few."""
    run = simulate(policy, tasks[:TRIAL], rewards, horizon=TRIAL, record_every=1, advice=False)
    return decisions / run.decisions_per_second


def always(
    chances: NDArray[np.float64], tasks: NDArray[np.float64], decisions: int = SPANS[-1]
) -> Outcome:
    """Arms by fixed chances ``(K,)``, whatever happens: known without playing."""
    reward, best = tasks @ chances, tasks.max(1)
    looked_at = spans(decisions)
    return Outcome(
        {str(t): reward for t in looked_at}, {str(t): t * (best - reward) for t in looked_at}
    )


def baselines(
    counts: NDArray[np.float64], overall: NDArray[np.float64], noise_std: float, decisions: int
) -> Mapping[str, Callable[[NDArray[np.float64], RewardModel, int], Outcome]]:
    """What a new user gets without a prior.

    Args:
        counts: pulls of each arm in the log ``(K,)``.
        overall: each arm's mean over past tasks ``(K,)``.
        noise_std: that of a reward.
        decisions: length of the race.
    """
    favourite = np.eye(len(counts))[np.argmax(overall)]
    return {
        "as logged": lambda tasks, *_: always(counts / counts.sum(), tasks, decisions),
        "best arm for all": lambda tasks, *_: always(favourite, tasks, decisions),
        "ucb1": lambda tasks, rewards, seed: play(
            UCB1(len(counts), noise_std), tasks, rewards, seed, decisions
        ),
    }
