"""Cells as an engine returns them, one row each, laid out as matrices of tasks and arms."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffts.errors import InvalidInputError
from diffts.logs.names import in_order, name_of, refuse_two_spellings

FloatMatrix = NDArray[np.float64]
Indices = NDArray[np.int64]


class Counted(NamedTuple):
    """A log in numbers; matrices are ``(N, K)``, see :class:`diffts.logs.log.Log`.

    Attributes:
        least: the smallest reward of a row.
        largest: the largest.
        binary: whether all are 0 or 1.
        rare_arms: arms left out, and how often each was pulled.
        rare_rows: how many rows they had.
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
    rare_rows: int


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
    pulls = np.bincount(arm, columns["count"], len(arms))
    rare = pulls < least_pulls
    if rare.all():
        raise InvalidInputError(
            f"min_pulls_of_an_arm: no arm has {least_pulls} pulls; the most is {pulls.max():g}"
        )
    kept = ~rare[arm]
    rare_rows = int(columns["rows"][~kept].sum())
    rare_arms = {name: float(n) for name, n, gone in zip(arms, pulls, rare, strict=True) if gone}
    columns = {name: values[kept] for name, values in columns.items()}
    tasks, task = _used(tasks, task[kept])
    arms, arm = _used(arms, arm[kept])
    refuse_too_large(where, len(tasks), len(arms), most_cells)
    binary = not columns["other"].any()
    if binary:  # exact, and true of rows that stand for many pulls, whose spread is not logged
        columns["squares"] = columns["count"] * columns["mean"] * (1.0 - columns["mean"])

    def matrix(name: str) -> FloatMatrix:
        made = np.zeros((len(tasks), len(arms)))
        made[task, arm] = columns[name]
        return made

    counts = matrix("count")
    whole = bool((columns["rows"] == columns["count"]).all())
    return Counted(
        tasks,
        arms,
        counts,
        matrix("mean"),
        matrix("squares"),
        counts if whole else matrix("rows"),
        float(columns["least"].min()),
        float(columns["largest"].max()),
        binary,
        rare_arms,
        rare_rows,
    )


def _numbered(role: str, column: Any) -> tuple[list[str], Indices]:
    """The different names of a column, in order, and which one each row has."""
    encoded = column.combine_chunks().dictionary_encode()
    found = [name_of(value) for value in encoded.dictionary.to_pylist()]
    names = in_order(set(found))
    refuse_two_spellings(role, names)
    position = {name: index for index, name in enumerate(names)}
    places = np.array([position[name] for name in found], np.int64)
    return names, places[encoded.indices.to_numpy()]


def _used(names: list[str], index: Indices) -> tuple[list[str], Indices]:
    """Only the names that occur, and the index among them."""
    present, again = np.unique(index, return_inverse=True)
    return [names[i] for i in present], again
