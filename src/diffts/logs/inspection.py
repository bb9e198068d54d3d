"""A first look at all rows: how many there are, what is missing, and what must be refused."""

from __future__ import annotations

from typing import Any

from diffts.logs.columns import Columns
from diffts.logs.rows import REFUSED, expressions, used
from diffts.logs.values import ibis


def inspection(rows: Any) -> Any:
    """Counts over cleaned rows, as one expression: a table with one row.

    Reasons to drop a row are told apart in the order of the columns: each row is counted once.
    """
    kept = used(rows)
    no_task, no_arm, no_reward = (rows[name].isnull() for name in ("task", "arm", "reward"))
    blank = no_task & no_arm & no_reward
    no_count = rows.weight.isnull()
    whole = ~no_task & ~no_arm & ~no_reward
    counts = {
        "blank": blank,
        "no_task": no_task & ~blank,
        "no_arm": ~no_task & no_arm,
        "no_reward": ~no_task & ~no_arm & no_reward,
        "no_count": whole & no_count,
        "count_0": whole & (rows.weight == 0).fill_null(False),
        "used": kept,
        "naive": kept & rows.naive,
        **{f"bad_{role}": rows[f"bad_{role}"] for role in REFUSED},
    }
    return rows.aggregate(
        rows=rows.count(),
        tasks=rows.task.nunique(where=kept),
        arms=rows.arm.nunique(where=kept),
        first=rows.seconds.min(where=kept),
        last=rows.seconds.max(where=kept),
        propensity=rows.propensity.min(where=kept),
        **{name: ibis().ifelse(which, 1, 0).sum() for name, which in counts.items()},
    )


def first_offender(table: Any, columns: Columns, role: str, numbered: bool) -> Any:
    """The first row with a bad value, as an expression: ``row``, ``value``, ``task``, ``arm``.

    Rows of a file or a data frame have an order, and so a number, from 1 on; those of a database
    have none.
    """
    i = ibis()
    row = i.row_number() + 1 if numbered else i.null("int64")
    raw = {name: table[getattr(columns, name)].cast("string") for name in ("task", "arm", role)}
    beside = table.select(
        row=row,
        value=raw[role],
        task=raw["task"],
        arm=raw["arm"],
        bad=expressions(table, columns)[f"bad_{role}"],
    )
    found = beside.filter(beside.bad)
    return found.order_by("row").limit(1) if numbered else found.limit(1)
