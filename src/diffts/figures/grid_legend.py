"""The legend of a grid of plots: in cells that are free, or else below all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from diffts.extras import optional
from diffts.figures.style import LETTERS

_EDGE = 8.0  # dots that stay free around it
_LONG = 15  # letters of a label that can be broken


class Space(NamedTuple):
    """Free space beside the plots of some rows, in dots."""

    left: float
    bottom: float
    right: float
    top: float


def place_legend(figure: Any, rows: Sequence[Sequence[Any]], handles: Mapping[str, Any]) -> None:
    """Put the legend where it fits and leave everything in its place.

    Args:
        figure: with a layout engine, which is done with afterwards.
        rows: the plots of each row, from the left.
        handles: label and line of each entry.
    """
    figure.get_layout_engine().execute(figure)
    if not _put_beside(figure, rows, handles):
        _put_below(figure, handles)
        figure.get_layout_engine().execute(figure)
    figure.set_layout_engine("none")


def grow(figure: Any, inches: float) -> None:
    """Make it higher."""
    wide, high = figure.get_size_inches()
    figure.set_size_inches(wide, high + inches)


def _put_beside(figure: Any, rows: Sequence[Sequence[Any]], handles: Mapping[str, Any]) -> bool:
    """Put it in the smallest free space that it fits, if there is one."""
    spaces = _spaces(figure, rows)
    narrow = {_broken(label): line for label, line in handles.items()}
    for columns, of in ((1, handles), (2, handles), (1, narrow)):
        legend = _legend(figure, of, columns, loc="center")
        width, height = _size(figure, legend)
        for space in spaces:
            fits = width <= space.right - space.left and height <= space.top - space.bottom
            if fits:
                middle = ((space.left + space.right) / 2, (space.bottom + space.top) / 2)
                legend.set_bbox_to_anchor(figure.transFigure.inverted().transform(middle))
                legend.set_in_layout(False)
                return True
        legend.remove()
    return False


def _spaces(figure: Any, rows: Sequence[Sequence[Any]]) -> list[Space]:
    """What is free right of all plots of one row, of two rows, and so on, from the top."""
    union = optional("matplotlib.transforms", "drawing").Bbox.union
    renderer, width = figure.canvas.get_renderer(), figure.bbox.width
    taken = [union([one.get_tightbbox(renderer) for one in row]) for row in rows]
    return [
        Space(max(box.x1 for box in of) + _EDGE, of[-1].y0, width - _EDGE, of[0].y1)
        for deep in range(1, len(rows) + 1)
        for first in range(len(rows) - deep + 1)
        for of in [taken[first : first + deep]]
    ]


def _broken(label: str) -> str:
    """A long label in two lines."""
    return re.sub(r"(?<=,) | (?=\()", "\n", label, count=1) if len(label) > _LONG else label


def _put_below(figure: Any, handles: Mapping[str, Any]) -> None:
    """Put it below all plots, as wide as the figure allows, with columns of one height."""
    for most in range(len(handles), 0, -1):
        deep = -(-len(handles) // most)
        columns = -(-len(handles) // deep)
        legend = _legend(figure, handles, columns, loc="outside lower center")
        width, height = _size(figure, legend)
        if width <= figure.bbox.width - 2 * _EDGE or columns == 1:
            grow(figure, height / figure.dpi)
            return
        legend.remove()


def _legend(figure: Any, handles: Mapping[str, Any], columns: int, loc: str) -> Any:
    return figure.legend(
        handles.values(),
        handles.keys(),
        loc=loc,
        ncol=columns,
        fontsize=LETTERS,
        handlelength=3.2,  # a whole pattern of dashes
        columnspacing=1.4,
        borderaxespad=0.3,
    )


def _size(figure: Any, legend: Any) -> tuple[float, float]:
    """Width and height in dots."""
    box = legend.get_window_extent(figure.canvas.get_renderer())
    return float(box.width), float(box.height)
