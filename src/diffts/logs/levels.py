"""The noise of a log: how far one reward lies from the mean of its task and arm.

With ``Q = Σ_i n_i (r_i - r̄)²`` and ``m`` rows in each cell, ``f = Σ (m - 1)^+`` repeats in all
cells, and a start ``σ_0²`` that fades as repeats come in (``ν = 1/(1+f)``),

``σ² = (ν σ_0² + Σ Q) / (ν + f)``.

A row that is the mean of ``n_i`` pulls varies by ``σ²/n_i``, so that each row adds one degree of
freedom, however many pulls it stands for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from diffts.logs.log import Log

#: The noise is at least this share of the spread of all rewards: nothing is known exactly.
LEAST_SHARE = 1e-6


def repeats(log: Log) -> float:
    """Degrees of freedom within cells, ``Σ (m - 1)^+``; of rewards 0 and 1 each pull is one."""
    m = log.counts if log.is_binary else log.rows
    return float(np.maximum(m - 1.0, 0.0).sum())


def pooled_variance(log: Log) -> float:
    """The variance ``σ²`` of one reward, pooled within tasks and arms.

    Where nothing repeats, only the start is left. Then it is assumed that half of the
    variance of an arm's rewards over tasks is noise, and half is what tasks differ by (of rewards 0
    and 1: that all tasks have the same chance, ``p(1-p)``). Pull arms twice to know better.
    """
    spread, freedom = _spread(log), repeats(log)
    fading = 1.0 / (1.0 + freedom)
    variance = (fading * _start(log, spread) + float(log.squares.sum())) / (fading + freedom)
    return max(variance, LEAST_SHARE**2 * spread, 1e-30)


def cell_variances(log: Log) -> NDArray[np.float64]:
    """The variance of one reward of each cell, ``(N, K)``, above 0.

    One level for all; of rewards 0 and 1, one for each arm: see :func:`arm_variances`.
    """
    if log.is_binary:
        return np.broadcast_to(arm_variances(log), log.counts.shape)
    return np.full(log.counts.shape, pooled_variance(log))


def arm_variances(log: Log) -> NDArray[np.float64]:
    """The variance of a reward 0 or 1 within a task, for each arm ``(K,)``, above 0.

    With ``x^a`` ones in ``n^a`` pulls of an arm, and the rate ``p`` of all pulls, worth one
    one (or zero, if these are rarer) to each arm,

    ``p^a = (x^a + s p) / (n^a + s)``, ``s = 1/(p(1-p))``, ``v^a = ρ p^a (1-p^a)``,
    ``ρ = (1 + Σ Q) / (1 + Σ_a f^a p^a (1-p^a))``, ``f^a = Σ_tasks (n - 1)^+``.

    ``p(1-p)`` is the variance within tasks *and* between them; ``ρ`` is the share within, as
    repeats show it. Where nothing repeats it is 1: all is noise.

    No cell's own outcome is asked. If it were, cells of zeros would seem surer than cells with a
    one, weigh more, and draw every mean down.
    """
    counts, pulls = log.counts, log.counts.sum(0)
    ones, total = (counts * log.means).sum(0), max(pulls.sum(), 1.0)
    rate = (ones.sum() + 0.5) / (total + 1.0)  # neither 0 nor 1
    worth = 1.0 / (rate * (1.0 - rate))
    rates = (ones + worth * rate) / (pulls + worth)
    variances = rates * (1.0 - rates)
    expected = (np.maximum(counts - 1.0, 0.0).sum(0) * variances).sum()
    return np.asarray(variances * (1.0 + log.squares.sum()) / (1.0 + expected))


def _start(log: Log, spread: float) -> float:
    """``σ_0²``: half of the variance of an arm's rewards over tasks, pooled over arms.

    Where each arm has a single reward, half of the variance of all rewards.
    """
    counts, means = log.counts, log.means
    pulls = counts.sum(0)
    arm_means = (counts * means).sum(0) / np.maximum(pulls, 1.0)
    if log.is_binary:
        return float((pulls * arm_means * (1.0 - arm_means)).sum() / max(pulls.sum(), 1.0))
    between = (counts * (means - arm_means) ** 2).sum() + log.squares.sum()
    freedom = np.maximum(log.rows.sum(0) - 1.0, 0.0).sum()
    return float(0.5 * between / freedom) if freedom else 0.5 * spread


def _spread(log: Log) -> float:
    """The variance of all rewards; 1 if they are all the same."""
    pulls = max(log.counts.sum(), 1.0)
    mean = (log.counts * log.means).sum() / pulls
    total = (log.counts * (log.means - mean) ** 2).sum() + log.squares.sum()
    return float(total / pulls) or 1.0
