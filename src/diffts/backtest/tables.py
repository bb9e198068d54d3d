"""Logged rounds from tables: files, data frames, and what Open Bandit Pipeline calls feedback."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffts.backtest.rounds import LoggedRounds, names_of
from diffts.errors import ArtifactError, InvalidInputError, MissingPackageError

#: Where a round's parts stand in a table, unless somebody says otherwise. A part may be a list of
#: columns, whose values together are the name (of a task, say).
COLUMNS: dict[str, str | Sequence[str]] = {
    "task": "task",
    "arm": "arm",
    "reward": "reward",
    "propensity": "propensity",
    "time": "time",
    "position": "position",
    "offered": "offered",
}
#: The columns of the files of the Open Bandit Dataset; users of the same features are one task.
OPEN_BANDIT: dict[str, str | Sequence[str]] = {
    "task": tuple(f"user_feature_{number}" for number in range(4)),
    "arm": "item_id",
    "reward": "click",
    "propensity": "propensity_score",
    "time": "timestamp",
    "position": "position",
}
_NEEDED = ("task", "arm", "reward")


def from_table(
    table: Any,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    *,
    arms: Sequence[Any] | None = None,
    uniform: bool = False,
) -> LoggedRounds:
    """Rounds from a data frame (pandas, Polars), an Arrow table or a dict of columns.

    Args:
        table: the table.
        columns: which column is what, where it is not as in ``COLUMNS``. A column that is named
            here must be there; of the others, only task, arm and reward.
        arms: names of all arms; by default those that occur.
        uniform: every arm on offer was equally likely; the log needs no propensities then.

    >>> table = {"user": ["u", "u"], "item": [3, 7], "click": [0, 1], "p": [0.5, 0.25]}
    >>> named = {"task": "user", "arm": "item", "reward": "click", "propensity": "p"}
    >>> from_table(table, named).propensity.tolist()
    [0.5, 0.25]
    """
    named = dict(columns or {})
    if unknown := named.keys() - COLUMNS.keys():
        raise InvalidInputError(
            f"columns: unknown part {min(unknown)!r}; choose from {', '.join(COLUMNS)}"
        )
    there = _names(table)
    parts: dict[str, Any] = {}
    for part, usual in COLUMNS.items():
        where = named.get(part, usual)
        wanted = [where] if isinstance(where, str) else list(where)
        missing = [name for name in wanted if name not in there]
        if not missing:
            found = [_column(table, name) for name in wanted]
            parts[part] = found[0] if len(found) == 1 else _joined(part, found)
        elif part in _NEEDED or part in named:
            raise InvalidInputError(
                f"{part}: no column {missing[0]!r}; the table has {_listed(there)}"
            )
    if uniform and "propensity" not in named:
        parts.pop("propensity", None)
    if "offered" in parts:
        parts["offered"] = [_split(cell) for cell in parts["offered"]]
    return LoggedRounds.of(**parts, arms=arms, uniform=uniform)


def from_obp(
    feedback: Mapping[str, Any],
    *,
    task: Sequence[Any] | None = None,
    arms: Sequence[Any] | None = None,
) -> LoggedRounds:
    """Rounds from the dict that Open Bandit Pipeline's data sets give (``bandit_feedback``).

    Its ``action``, ``reward``, ``pscore`` and ``position`` are used; actions are numbers from 0
    on, ``n_actions`` of them. Rounds of the same row of ``context`` are one task, or what ``task``
    says; without a context all rounds are one.

    Args:
        feedback: the dict.
        task: name of each round's task.
        arms: names of the actions; by default their numbers.
    """
    for name in ("action", "reward", "pscore"):
        if feedback.get(name) is None:
            raise InvalidInputError(
                f"{name}: missing in the feedback, which has {_listed(feedback)}"
            )
    action = np.asarray(feedback["action"])
    count = int(feedback.get("n_actions") or action.max() + 1)
    names = list(map(str, range(count) if arms is None else arms))
    if action.ndim != 1 or action.dtype.kind not in "iu":
        raise InvalidInputError(
            f"action: expected whole numbers, got {action.dtype} {action.shape}"
        )
    if len(names) != count or action.min() < 0 or action.max() >= count:
        raise InvalidInputError(
            f"action: from {action.min()} to {action.max()}, of {count} actions, {len(names)} names"
        )
    if task is None:
        context = feedback.get("context")
        task = ["all"] * len(action)
        if context is not None:
            same = np.unique(np.asarray(context), axis=0, return_inverse=True)[1]
            task = np.ravel(same).tolist()
    return LoggedRounds.of(
        task,
        np.asarray(names)[action],
        feedback["reward"],
        feedback["pscore"],
        position=feedback.get("position"),
        arms=names,
    )


def read_rounds(
    path: str | os.PathLike[str],
    columns: Mapping[str, str | Sequence[str]] | None = None,
    *,
    arms: Sequence[Any] | None = None,
    uniform: bool = False,
) -> LoggedRounds:
    """Rounds from a file: CSV (compressed or not) or Parquet; the rest as in :func:`from_table`."""
    return from_table(_read(Path(path)), columns, arms=arms, uniform=uniform)


def _read(path: Path) -> Any:
    """The one place that reads a file."""
    if importlib.util.find_spec("pyarrow") is None:
        raise MissingPackageError("reading a log needs pyarrow: pip install pyarrow")
    arrow = importlib.import_module("pyarrow")
    parquet = path.suffix.lower() in (".parquet", ".pq")
    reader: Any = importlib.import_module("pyarrow.parquet" if parquet else "pyarrow.csv")
    if path.is_dir() and not parquet:
        raise InvalidInputError(f"{path}: is a folder; name a .csv or a .parquet file")
    try:
        return reader.read_table(path) if parquet else reader.read_csv(path)
    except arrow.ArrowInvalid as error:
        said = " ".join(str(error).split())
        raise ArtifactError(f"{path}: cannot be read as a table ({said})") from None


def _names(table: Any) -> list[str]:
    names = getattr(table, "column_names", None)
    if names is None:
        names = getattr(table, "columns", None)
    if names is None and isinstance(table, Mapping):
        names = table.keys()
    if names is None:
        raise InvalidInputError(f"table: expected columns with names, got {type(table).__name__}")
    return [str(name) for name in names]


def _column(table: Any, name: str) -> Any:
    values = table[name]
    if hasattr(values, "combine_chunks"):  # Arrow's, where blanks would otherwise become NaN
        return np.asarray(values.to_pylist()) if values.null_count == 0 else values.to_pylist()
    return values if isinstance(values, list) else np.asarray(values)


def _joined(part: str, columns: Sequence[Any]) -> NDArray[np.str_]:
    """One name from several columns."""
    first, *others = (names_of(part, column) for column in columns)
    for other in others:
        first = np.strings.add(np.strings.add(first, " "), other)
    return first


def _split(cell: Any) -> Sequence[Any]:
    """Arms on offer: a list, or words with bars between them."""
    return cell.split("|") if isinstance(cell, str) else list(cell)


def _listed(names: Any) -> str:
    shown = list(map(str, names))
    return ", ".join(shown[:10]) + (", …" if len(shown) > 10 else "")
