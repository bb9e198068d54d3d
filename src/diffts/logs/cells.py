"""Rows counted up to cells: one Ibis expression for every engine.

With ``c`` the least reward of a cell (a task and an arm) and ``d_i = r_i - c``,

``n = Σ w_i``, ``r̄ = c + Σ w_i d_i / n``, ``Q = Σ w_i d_i² - (Σ w_i d_i)² / n``.

Two steps, because the textbook formula ``Σ r² - n r̄²`` cancels: of rewards 1,000,000.1 it loses all
digits. The least reward is the same in every engine, whatever the order of rows, and so are the
``d_i``. These lie between 0 and the range ``R`` of the cell, and ``Q ≥ R²/2`` (for weights of
at least 1), so that what is subtracted is at most ``2n`` times what is left.
"""

from __future__ import annotations

from typing import Any

from diffts.logs.rows import used
from diffts.logs.values import ibis

#: A mean of n rewards 0 and 1 is a whole number of ones, to this much.
_WHOLE = 1e-6


def cells(rows: Any) -> Any:
    """Cleaned rows, counted up.

    Returns:
        A table with one row a cell, in the order of task and arm: ``task``, ``arm``, ``rows``,
        ``count``, ``mean``, ``squares``, ``least``, ``largest``, ``other`` (rows that are no
        rewards 0 and 1).
    """
    i = ibis()
    rows = rows.filter(used(rows)).select("task", "arm", "reward", "weight")
    least = rows.group_by(["task", "arm"]).aggregate(least=rows.reward.min())
    least = least.rename(least_task="task", least_arm="arm")
    beside = rows.join(
        least, [rows.task == least.least_task, rows.arm == least.least_arm], how="inner"
    )
    above = beside.reward - beside.least
    ones = beside.reward * beside.weight
    zero_or_one = (
        (beside.reward >= 0) & (beside.reward <= 1) & ((ones - ones.round()).abs() < _WHOLE)
    )
    rewards = beside.select(
        "task", "arm", "reward", "weight", "least", above=above, other=i.ifelse(zero_or_one, 0, 1)
    )
    sums = rewards.group_by(["task", "arm"]).aggregate(
        rows=rewards.count(),
        count=rewards.weight.sum(),
        least=rewards.least.min(),
        largest=rewards.reward.max(),
        first=(rewards.weight * rewards.above).sum(),
        second=(rewards.weight * rewards.above * rewards.above).sum(),
        other=rewards.other.sum(),
    )
    squares = sums.second - sums.first * sums.first / sums["count"]
    return sums.select(
        "task",
        "arm",
        "rows",
        "least",
        "largest",
        "other",
        count=sums["count"],
        mean=sums.least + sums.first / sums["count"],
        squares=i.ifelse(squares > 0, squares, 0.0),
    ).order_by(["task", "arm"])
