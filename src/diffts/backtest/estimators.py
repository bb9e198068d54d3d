"""What a policy would have earned a round, from a log of another one.

With the weight ``w = π(a)/p`` of each of R rounds, its reward r, and a model's expected rewards q:

| name         | value                                              |
|--------------|----------------------------------------------------|
| replay       | mean of r over accepted rounds                     |
| ips          | ``mean(w r)``                                      |
| clipped-ips  | ``mean(min(w, M) r)``                              |
| snips        | ``Σ w r / Σ w``                                    |
| direct       | ``mean(d)``, with ``d = Σ_a π(a) q(a)``            |
| dr           | ``mean(d + w (r - q(a)))``                         |
| sndr         | ``mean(d) + Σ w (r - q(a)) / Σ w``                 |

Rounds of one task depend on each other; tasks do not. So the variance is that of tasks
(cluster-robust, by linearisation): with the influence ``ψ_t`` of each round on the value, ``N/(N-1)
Σ_tasks (Σ_t ψ_t)²``. The interval is Student's t, with as many degrees of freedom
as the variance is worth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from diffts.backtest.rounds import Floats, Integers


class Weighed(NamedTuple):
    """All that estimators need of a policy and a log, ``(R,)`` each.

    Attributes:
        weight: ``w = π(a)/p``.
        reward: r.
        model: ``q(a)`` of the arm played.
        direct: ``d = Σ_a π(a) q(a)``.
        accepted: which rounds a replay accepts.
        cluster: the number of each round's task, ascending.
        clip: the largest weight ``M`` of clipped IPS.
    """

    weight: Floats
    reward: Floats
    model: Floats
    direct: Floats
    accepted: NDArray[np.bool_]
    cluster: Integers
    clip: float


class Estimate(NamedTuple):
    """A policy's mean reward a round, as far as a log tells.

    Attributes:
        value: the estimate.
        stderr: its standard error.
        low: the lower end of the interval.
        high: the upper one.
        freedom: degrees of freedom of that error; few if few tasks make up most of it.
        ess: the effective number of rounds (Kish): ``(Σw)²/Σw²``; of a replay, those accepted.
        gain: what it is above the mean reward of the log.
        gain_stderr: the standard error of that, paired by task.
    """

    value: float
    stderr: float
    low: float
    high: float
    freedom: float
    ess: float
    gain: float
    gain_stderr: float


#: The value, and the influence of each round on it.
Influence = tuple[float, Floats]


def _replay(given: Weighed) -> Influence:
    return _weighted_mean(given.accepted.astype(np.float64), given.reward)


def _ips(given: Weighed) -> Influence:
    return _mean(given.weight * given.reward)


def _clipped(given: Weighed) -> Influence:
    return _mean(np.minimum(given.weight, given.clip) * given.reward)


def _snips(given: Weighed) -> Influence:
    return _weighted_mean(given.weight, given.reward)


def _direct(given: Weighed) -> Influence:
    return _mean(given.direct)


def _dr(given: Weighed) -> Influence:
    return _mean(given.direct + given.weight * (given.reward - given.model))


def _sndr(given: Weighed) -> Influence:
    direct, first = _mean(given.direct)
    correction, second = _weighted_mean(given.weight, given.reward - given.model)
    return direct + correction, first + second


ESTIMATORS: dict[str, Callable[[Weighed], Influence]] = {
    "replay": _replay,
    "ips": _ips,
    "clipped-ips": _clipped,
    "snips": _snips,
    "direct": _direct,
    "dr": _dr,
    "sndr": _sndr,
}


def estimate(name: str, given: Weighed, level: float = 0.95) -> Estimate:
    """One estimate, with its error; NaN where nothing can be said (nothing was accepted)."""
    value, influence = ESTIMATORS[name](given)
    logged, logged_influence = _mean(given.reward)
    error, freedom = clustered_error(influence, given.cluster)
    gain = value - logged
    gain_error, _ = clustered_error(influence - logged_influence, given.cluster)
    if max(abs(gain), np.nan_to_num(gain_error)) <= 1e-12 * abs(logged):  # nothing but rounding
        gain, gain_error = 0.0, 0.0
    reach = float(stats.t.ppf(0.5 + level / 2, freedom)) * error
    weights = {
        "replay": given.accepted.astype(np.float64),
        "clipped-ips": np.minimum(given.weight, given.clip),
        "direct": np.ones(len(given.reward)),
    }.get(name, given.weight)
    return Estimate(
        value=value,
        stderr=error,
        low=value - reach,
        high=value + reach,
        freedom=freedom,
        ess=effective_size(weights),
        gain=gain,
        gain_stderr=gain_error,
    )


def effective_size(weights: Floats) -> float:
    """Kish: so many rounds of equal weight would tell as much, ``(Σw)²/Σw²``.

    >>> effective_size(np.array([1.0, 1.0, 0.0])), effective_size(np.array([3.0, 1.0]))
    (2.0, 1.6)
    """
    squares = float(np.sum(weights**2))
    return float(np.sum(weights)) ** 2 / squares if squares > 0 else 0.0


def clustered_error(influence: Floats, cluster: Integers) -> tuple[float, float]:
    """Standard error of a sum of influences, and its degrees of freedom.

    With ``u_i`` the sum over cluster i, of N: ``s² = N/(N-1) Σ u_i²``. Where few clusters make up
    the variance (one click in a thousand tasks), it is itself not well known: with the kurtosis
    ``κ = N Σu⁴/(Σu²)²`` it has ``2N/(κ - 1)`` degrees of freedom (Satterthwaite), at most N - 1.
    Where nothing varies, nothing is known of the error: NaN.
    """
    sums = np.bincount(cluster, influence)
    # A task of which a replay accepts nothing tells nothing of the error.
    sums = sums[np.bincount(cluster, influence != 0) > 0]
    count, total = len(sums), float(np.sum(sums**2))
    if count < 2 or total <= 0:
        return float("nan"), float("nan")
    kurtosis = count * float(np.sum((sums**2 / total) ** 2))
    freedom = 2 * count / max(kurtosis - 1.0, 1e-9)
    return float(np.sqrt(count / (count - 1) * total)), float(np.clip(freedom, 1.0, count - 1))


def _mean(values: Floats) -> Influence:
    mean = float(values.mean())
    return mean, (values - mean) / len(values)


def _weighted_mean(weights: Floats, values: Floats) -> Influence:
    """``Σ w v / Σ w`` and its linearisation ``w (v - value) / Σ w``."""
    total = float(weights.sum())
    if total <= 0:
        return float("nan"), np.zeros(len(values))
    # About one of them: a large common part does not cancel, and equal values have that very mean.
    centre = float(values[np.argmax(weights > 0)])
    value = centre + float(np.sum(weights * (values - centre))) / total
    return value, weights * (values - value) / total
