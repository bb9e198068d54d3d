"""Rows of a log, cleaned: one Ibis expression, whatever the engine."""

from __future__ import annotations

from typing import Any

from diffts.logs.columns import Columns
from diffts.logs.times import moment_value
from diffts.logs.values import ibis, name_value, number_value

#: What a row may be refused for, by the thing that is wrong.
REFUSED = {
    "reward": "not a number",
    "count": "not a whole number of at least 0",
    "propensity": "not a number above 0 and at most 1",
    "time": "not a time (ISO 8601, or seconds since 1970)",
}


def cleaned(table: Any, columns: Columns) -> Any:
    """The rows of a table, with the columns of :func:`expressions`."""
    return table.select(**expressions(table, columns))


def expressions(table: Any, columns: Columns) -> dict[str, Any]:
    """What is known of a row, whatever the table calls it and however it is written.

    Returns:
        Expressions by name: ``task``, ``arm`` (NULL where blank), ``reward``, ``weight`` (float64),
        ``propensity``, ``seconds`` (float64 or NULL), ``naive`` (a time without a zone), and for
        each thing in :data:`REFUSED` whether it is bad: ``bad_reward`` and so on.
    """
    i = ibis()
    nothing, no = i.null("float64"), i.literal(False)
    reward = number_value(table[columns.reward], "reward")
    made = {
        "task": name_value(table[columns.task], "task"),
        "arm": name_value(table[columns.arm], "arm"),
        "reward": reward.value,
        "bad_reward": reward.bad,
        "weight": i.literal(1).cast("float64"),  # PostgreSQL takes 1.0 for a Decimal
        "bad_count": no,
        "propensity": nothing,
        "bad_propensity": no,
        "seconds": nothing,
        "bad_time": no,
        "naive": no,
    }
    if columns.count is not None:
        count = number_value(table[columns.count], "count")
        odd = (count.value < 0) | (count.value != count.value.floor())
        made["weight"] = count.value
        made["bad_count"] = count.bad | odd.fill_null(False)
    if columns.propensity is not None:
        chance = number_value(table[columns.propensity], "propensity")
        outside = (chance.value <= 0) | (chance.value > 1)
        made["propensity"] = chance.value
        made["bad_propensity"] = chance.bad | outside.fill_null(False)
    if columns.time is not None:
        moment = moment_value(table[columns.time])
        made["seconds"], made["bad_time"], made["naive"] = moment
    return made


def used(rows: Any) -> Any:
    """Which cleaned rows count."""
    return (
        rows.task.notnull()
        & rows.arm.notnull()
        & rows.reward.notnull()
        & (rows.weight > 0).fill_null(False)
    )
