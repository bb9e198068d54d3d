"""Data frames of pandas: mixed columns become text, so that Arrow can hold them."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffts.extras import optional
from diffts.logs.columns import Columns
from diffts.logs.names import name_of


def arrow_from_pandas(frame: Any, columns: Columns) -> Any:
    """The columns that are needed, as an Arrow table; all of them, if repeated rows are counted.

    A column of objects (names and numbers side by side, Decimals) becomes text, value by value, as
    :func:`diffts.logs.names.name_of` writes it: 1, 1.0 and '1' are the same arm. NaN is missing.
    """
    arrow = optional("pyarrow", "reading a log")
    pandas = optional("pandas", "reading a data frame")
    wanted = set(columns.named().values())
    made: dict[str, Any] = {}
    for position, column in enumerate(map(str, frame.columns)):
        if column in made or not (column in wanted or columns.time):
            continue
        values = frame.iloc[:, position]
        if values.dtype == object:
            texts = [None if _missing(pandas, value) else name_of(value) for value in values]
            made[column] = arrow.array(texts, arrow.string())
        else:
            made[column] = arrow.Array.from_pandas(values)
    return arrow.table(made)


def _missing(pandas: Any, value: Any) -> bool:
    """Whether a value is None, NaN or their like; a list in a cell is not."""
    answer = pandas.isna(value)
    return isinstance(answer, bool | np.bool_) and bool(answer)
