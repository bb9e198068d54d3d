"""Cells as an engine returns them, one row each, laid out as matrices of tasks and arms."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from diffts.errors import InvalidInputError
from diffts.logs.names import in_order, name_of, refuse_two_spellings

FloatMatrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Indices = NDArray[np.int64]
Columns: TypeAlias = dict[str, Vector]


class Counted(NamedTuple):
    """A log in numbers; matrices are ``(N, K)``, see :class:`diffts.logs.log.Log`.

    Attributes:
        least: the smallest reward of a row.
        largest: the largest.
        binary: whether all are 0 or 1.
        rare_arms: arms left out, and how often each was pulled.
        dropped: rows left out since their names are blank or their arm is rare, by reason.
    """

    tasks: list[str]
    arms: list[str]
    counts: FloatMatrix
    means: FloatMatrix
    squares: FloatMatrix
    rows: FloatMatrix
    least: float
    largest: float
    binary: bool
    rare_arms: dict[str, float]
    dropped: dict[str, int]


def refuse_too_large(where: str, tasks: int, arms: int, most_cells: int) -> None:
    """Refuse matrices that would not fit into memory."""
    if tasks * arms > most_cells:
        raise InvalidInputError(
            f"{where}: {tasks} tasks with {arms} arms make {tasks * arms} cells, more than "
            f"{most_cells}; raise min_pulls_of_an_arm, take fewer tasks, or raise most_cells"
        )


def counted_up(where: str, table: Any, least_pulls: int, most_cells: int) -> Counted:
    """Matrices from an Arrow table of cells; arms with too few pulls are left out."""
    columns = {
        name: table[name].to_numpy().astype(np.float64)
        for name in ("rows", "count", "mean", "squares", "least", "largest", "other")
    }
    tasks, task = _numbered("task", table["task"])
    arms, arm = _numbered("arm", table["arm"])
    blank = {"no task": task < 0, "no arm": (task >= 0) & (arm < 0)}
    dropped = {why: int(columns["rows"][which].sum()) for why, which in blank.items()}
    pulls = np.bincount(arm[arm >= 0], columns["count"][arm >= 0], len(arms))
    rare = pulls < least_pulls
    if arms and rare.all():
        raise InvalidInputError(
            f"min_pulls_of_an_arm: no arm has {least_pulls} pulls; the most is {pulls.max():g}"
        )
    named = (task >= 0) & (arm >= 0)
    if not named.any():
        raise InvalidInputError(f"{where}: no row has a task and an arm; names are blank")
    too_rare = named & rare[arm]
    dropped["rare arm"] = int(columns["rows"][too_rare].sum())
    rare_arms = {name: float(n) for name, n, gone in zip(arms, pulls, rare, strict=True) if gone}
    kept = named & ~too_rare
    tasks, task = _used(tasks, task[kept])
    arms, arm = _used(arms, arm[kept])
    refuse_too_large(where, len(tasks), len(arms), most_cells)
    cell, columns = _merged(
        task * len(arms) + arm, {name: values[kept] for name, values in columns.items()}
    )
    binary = not columns["other"].any()
    if binary:  # exact, and true of rows that stand for many pulls, whose spread is not logged
        columns["squares"] = columns["count"] * columns["mean"] * (1.0 - columns["mean"])

    def matrix(name: str) -> FloatMatrix:
        made = np.zeros(len(tasks) * len(arms))
        made[cell] = columns[name]
        return made.reshape(len(tasks), len(arms))

    counts = matrix("count")
    whole = bool((columns["rows"] == columns["count"]).all())
    return Counted(
        tasks=tasks,
        arms=arms,
        counts=counts,
        means=matrix("mean"),
        squares=matrix("squares"),
        rows=counts if whole else matrix("rows"),
        least=float(columns["least"].min()),
        largest=float(columns["largest"].max()),
        binary=binary,
        rare_arms=rare_arms,
        dropped={why: n for why, n in dropped.items() if n},
    )


def _numbered(role: str, column: Any) -> tuple[list[str], Indices]:
    """The different names of a column, in order, and which one each row has; -1 if it is blank.

    Blanks around a name are no part of it: 'red' and ' red' are one arm.
    """
    encoded = column.combine_chunks().dictionary_encode()
    found = [name_of(value).strip() for value in encoded.dictionary.to_pylist()]
    names = in_order(set(found) - {""})
    refuse_two_spellings(role, names)
    position = {"": -1, **{name: index for index, name in enumerate(names)}}
    places = np.array([position[name] for name in found], np.int64)
    return names, places[encoded.indices.to_numpy()]


def _used(names: list[str], index: Indices) -> tuple[list[str], Indices]:
    """Only the names that occur, and the index among them."""
    present, again = np.unique(index, return_inverse=True)
    return [names[i] for i in present], again


def _merged(cell: Indices, columns: Columns) -> tuple[Indices, Columns]:
    """Cells whose names differed by blanks alone made one.

    With ``n_j``, ``r̄_j``, ``Q_j`` of the parts, ``Q = Σ Q_j + Σ n_j (r̄_j - r̄)²``.
    """
    different, index = np.unique(cell, return_inverse=True)
    if len(different) == len(cell):
        return cell, columns

    def total(values: Vector) -> Vector:
        return np.bincount(index, values, len(different)).astype(np.float64)

    made = {name: total(columns[name]) for name in ("rows", "count", "other")}
    made["least"] = np.full(len(different), np.inf)
    np.minimum.at(made["least"], index, columns["least"])
    made["largest"] = np.full(len(different), -np.inf)
    np.maximum.at(made["largest"], index, columns["largest"])
    above = columns["mean"] - made["least"][index]
    made["mean"] = made["least"] + total(columns["count"] * above) / made["count"]
    apart = columns["mean"] - made["mean"][index]
    made["squares"] = total(columns["squares"] + columns["count"] * apart**2)
    return different, made
