"""From a table of past interactions to a :class:`~diffts.logs.log.Log`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from diffts.errors import InvalidInputError
from diffts.logs.cells import cells
from diffts.logs.columns import Columns
from diffts.logs.counted import Counted, counted_up, refuse_too_large
from diffts.logs.engine import one_line
from diffts.logs.facts import Facts
from diffts.logs.inspection import first_offender, inspection
from diffts.logs.log import Log
from diffts.logs.rows import REFUSED, cleaned
from diffts.logs.sources import Source, opened
from diffts.logs.times import iso
from diffts.logs.values import ibis
from diffts.validation import whole_number

#: Reasons to leave a row out, by what the inspection calls them.
_REASONS = {
    "blank": "blank row",
    "no_task": "no task",
    "no_arm": "no arm",
    "no_reward": "no reward",
    "no_count": "no count",
    "count_0": "count of 0",
}
#: An arm pulled less often is called seldom.
_SELDOM = 10


def read_log(
    source: Any,
    columns: Columns | None = None,
    *,
    min_pulls_of_an_arm: int = 1,
    connection: Any = None,
    to_learn: bool = True,
    most_cells: int = 50_000_000,
) -> Log:
    """Read a log and count it up to the number, mean and spread of rewards of each task and arm.

    Args:
        source: a CSV or Parquet file, a folder of them or a pattern (``logs/2024-*.csv``); a pandas
            data frame or an Arrow table; an Ibis table of any engine (it is counted where it
            lies, on Spark say); or a database table, as ``postgresql://me@host/db#schema.table``
            or as its name beside ``connection``. Files and tables in memory are counted by DuckDB
            inside this process, in bounded memory.
        columns: which column is which; ``task``, ``arm`` and ``reward`` by default.
        min_pulls_of_an_arm: arms pulled less often in the whole log are left out (and named in the
            facts).
        connection: for the name of a table: a URL as ``ibis.connect`` takes it, or a connection.
        to_learn: refuse a log that teaches nothing of choices: one arm, or all rewards the same.
        most_cells: refuse a log with more tasks times arms, which would not fit into memory.

    Rows without a task, an arm or a reward are left out, and counted in ``log.facts``. Values that
    cannot be (a reward that is no number, a count below 0) are refused: the error names column,
    row and value. Rows are numbered from 1, the header not counted.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"task": list("aabb"), "arm": list("xyxx"), "reward": [1, 0, 3, 5]})
    >>> log = read_log(table)
    >>> log.arms, log.counts.tolist(), log.means.tolist()
    (('x', 'y'), [[1.0, 1.0], [2.0, 0.0]], [[1.0, 0.0], [4.0, 0.0]])
    """
    columns = Columns() if columns is None else columns
    least_pulls = whole_number("min_pulls_of_an_arm", min_pulls_of_an_arm, 1)
    with opened(source, columns, connection) as log:
        with one_line(log.where):
            rows = _rows(log, columns)
            seen = log.backend.to_pyarrow(inspection(rows)).to_pylist()[0]
        _refuse(log, columns, seen)
        if least_pulls == 1 or seen["used"] > most_cells:
            refuse_too_large(log.where, seen["tasks"], seen["arms"], most_cells)
        with one_line(log.where):
            table = log.backend.to_pyarrow(cells(rows))
            duplicates = _duplicates(log) if columns.time else None
    counted = counted_up(log.where, table, least_pulls, most_cells)
    if to_learn:
        _refuse_useless(log.where, counted)
    return _log(log.where, counted, seen, duplicates)


def _rows(log: Source, columns: Columns) -> Any:
    parts = [cleaned(table, columns) for table in log.tables]
    return parts[0] if len(parts) == 1 else ibis().union(*parts)


def _refuse(log: Source, columns: Columns, seen: dict[str, Any]) -> None:
    """One line for the first bad value, or where no row is left."""
    if not seen["rows"]:
        raise InvalidInputError(f"{log.where}: no rows")
    for role, expected in REFUSED.items():
        if not seen[f"bad_{role}"]:
            continue
        column = getattr(columns, role)
        for piece in log.pieces:
            with one_line(piece.where):
                found = first_offender(piece.table(), columns, role, piece.numbered)
                rows = log.backend.to_pyarrow(found).to_pylist()
            if rows:
                first = rows[0]
                at = f"row {first['row']}" if piece.numbered else f"task {first['task']!r}"
                raise InvalidInputError(
                    f"{piece.where}: column {column!r}, {at}: {expected}: {first['value']!r}"
                    f"{_hint(first['value'])} ({seen[f'bad_{role}']} such)"
                )
    if not seen["used"]:
        why = ", ".join(f"{seen[name]} {reason}" for name, reason in _REASONS.items() if seen[name])
        raise InvalidInputError(f"{log.where}: none of {seen['rows']} rows can be used: {why}")


def _hint(value: str | None) -> str:
    """What was meant, perhaps."""
    text = (value or "").strip()
    if text.endswith("%"):
        return "; write percents as shares, 0.05 for 5%"
    if text.count(",") == 1 and text.replace(",", "").lstrip("+-").isdigit():
        return "; write decimals with a point"
    return ""


def _refuse_useless(where: str, counted: Counted) -> None:
    """Refuse a log that teaches nothing of choices."""
    if len(counted.arms) < 2:
        raise InvalidInputError(
            f"{where}: a single arm, {counted.arms[0]!r}: there is nothing to choose from"
        )
    if counted.least == counted.largest:
        raise InvalidInputError(
            f"{where}: all rewards are {counted.least:g}: nothing can be learned from that "
            "(are rows without a success missing?)"
        )


def _duplicates(log: Source) -> int:
    """Rows that repeat another in every column that can be compared."""
    repeated = 0
    for table in log.tables:
        plain = [
            name
            for name, kind in table.schema().items()
            if not (kind.is_nested() or kind.is_json() or kind.is_unknown())
        ]
        every = table.select(plain)
        counts = [every.count(), every.distinct().count()]
        total, different = (log.backend.to_pyarrow(count).as_py() for count in counts)
        repeated += total - different
    return repeated


def _log(where: str, counted: Counted, seen: dict[str, Any], duplicates: int | None) -> Log:
    """The log with its facts."""
    dropped = Counter({reason: seen[name] for name, reason in _REASONS.items() if seen[name]})
    dropped.update(counted.dropped)
    pulls, tasks = counted.counts.sum(0), (counted.counts > 0).sum(0)
    seldom = (pulls < _SELDOM) | (tasks < 2)
    facts = Facts(
        source=where,
        rows_read=seen["rows"],
        rows_used=seen["used"] - sum(counted.dropped.values()),
        dropped=dict(dropped),
        duplicates=duplicates,
        first_time=iso(seen["first"]),
        last_time=iso(seen["last"]),
        zone_assumed=bool(seen["naive"]),
        least_reward=counted.least,
        largest_reward=counted.largest,
        binary=counted.binary,
        rare_arms=counted.rare_arms,
        seldom_arms=tuple(counted.arms[i] for i in np.flatnonzero(seldom)),
        one_arm_tasks=int(((counted.counts > 0).sum(1) == 1).sum()),
        least_propensity=seen["propensity"],
    )
    return Log(
        counted.tasks,
        counted.arms,
        counted.counts,
        counted.means,
        counted.squares,
        facts,
        counted.rows,
    )
