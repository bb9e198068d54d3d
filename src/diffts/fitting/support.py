"""What a log can support: enough of the rarer outcome, a promise, a gain that matters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffts.logs import Log

#: Rewards of the rarer kind (clicks, say) that an arm should have, on average over arms. In 70
#: simulated click logs (``python -m benchmarks.clicks``, results/clicks.json) a fit promised more
#: than 1.5 times what it then earned in 14 of 21 where an arm had fewer than 5, in 3 of 6 from 5
#: to 10, and in 2 of 43 beyond.
EVENTS_OF_AN_ARM = 10
#: A best arm may be better than a click that comes again would say, but hardly so many times.
BEST_OVER_AGAIN = 2.0
#: More of a log that supports no promise: so many times as much.
MORE = 4.0
#: A gain is worth having from this share of the reward's own scale on.
WORTH = 0.01


class Doubt(NamedTuple):
    """Why a race should not be believed, and how many times as much data would do."""

    reason: str
    times: float


def doubt(log: Log, promised: float) -> Doubt | None:
    """Whether the log has too little for this reward of a decision; None if there is no doubt."""
    if log.is_binary:
        ones, pulls, n_arms = int(_ones(log).sum()), log.counts.sum(), len(log.arms)
        rarer, what = min((ones, 1), (round(pulls) - ones, 0))
        if rarer < EVENTS_OF_AN_ARM * n_arms:
            times = EVENTS_OF_AN_ARM * n_arms / max(rarer, 1)
            return Doubt(
                f"The log has {rarer:,} rewards of {what} for {n_arms:,} arms. That is too few to "
                f"believe any race: {EVENTS_OF_AN_ARM} an arm are wanted.",
                times,
            )
    most = supported(log)
    if most is None or promised <= most:
        return None
    return Doubt(
        f"The race promises {promised:.3g} a decision. The log supports no more than {most:.3g}.",
        MORE,
    )


def supported(log: Log) -> float | None:
    """The largest mean reward of a decision that the log can speak for; None if it cannot tell.

    Of rewards 0 and 1: twice the share of ones where the same arm had one before in the same task,
    ``Σ x(x-1) / Σ x(n-1)``, with two standard errors; of others, the largest reward.
    """
    if not log.is_binary:
        return log.facts.largest_reward
    ones = _ones(log)
    again, tries = float((ones * (ones - 1)).sum()), float((ones * (log.counts - 1)).sum())
    if tries < 1:
        return None
    # Ones of a cell are counted in pairs, both ways: half of them are news.
    upper = (again + 2 * np.sqrt(2 * again + 4) + 4) / tries
    return float(min(BEST_OVER_AGAIN * max(upper, _best_arm(log)), 1.0))


def worthwhile(log: Log, tasks: NDArray[np.float64], decisions: int) -> float:
    """The least gain of a decision that matters, whatever its standard error.

    A hundredth of what arms of a task ``(N, K)`` differ by. If that is more, a hundredth of the
    rate of the rarer outcome (rewards 0 and 1), or of what chance does to the mean of a whole task
    (others).
    """
    spread = float(tasks.std(axis=1).mean())
    if log.is_binary:
        rate = float(_ones(log).sum() / log.counts.sum())
        return WORTH * max(spread, min(rate, 1.0 - rate))
    return WORTH * max(spread, log.noise_std / float(np.sqrt(decisions)))


def _ones(log: Log) -> NDArray[np.float64]:
    return np.asarray(np.round(log.counts * log.means))


def _best_arm(log: Log) -> float:
    """The largest rate of an arm, two standard errors included."""
    ones, pulls = _ones(log).sum(0), np.maximum(log.counts.sum(0), 1.0)
    return float(((ones + 2 * np.sqrt(ones + 1)) / pulls).max())
