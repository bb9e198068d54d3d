"""Sets of small grey images: one set or a few in a row, with the row's name at its left."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffts.errors import InvalidInputError
from diffts.figures.style import LETTERS, PAGE, pyplot, save_for_print
from diffts.validation import float_array, whole_number

HIDDEN = (0.55, 0.78, 1.0)  # light blue: no grey looks like it
#: Sizes in dots of the written picture.
DOTS = 300  # of a printed inch
NAMES, IMAGE_WIDTH, SPACE, EDGE, LINE = 410, 200, 40, 15, 42
_LETTERS = 21  # of a name in a line


def draw_images(
    panels: Mapping[str, ArrayLike],
    path: str | os.PathLike[str],
    height: int,
    width: int,
    columns: int = 8,
    title: str = "",
) -> None:
    """One row for each set of images; see :func:`draw_image_table`."""
    draw_image_table(
        {name: {"": images} for name, images in panels.items()}, path, height, width, columns, title
    )


def draw_image_table(
    rows: Mapping[str, Mapping[str, ArrayLike]],
    path: str | os.PathLike[str],
    height: int,
    width: int,
    columns: int = 8,
    title: str = "",
) -> None:
    """Sets of images in rows and columns, black at 0 and white at 1; NaN (hidden) is light blue.

    A PDF for print comes beside the picture, with the same name. The same images give the same
    bytes. What is given is as for :func:`image_table`.
    """
    save_for_print(image_table(rows, height, width, columns, title), path, dots=DOTS)


def image_table(
    rows: Mapping[str, Mapping[str, ArrayLike]],
    height: int,
    width: int,
    columns: int = 8,
    title: str = "",
) -> Any:
    """The figure of :func:`draw_image_table`: as wide as a page at most.

    A set may be missing; the heading of a column stands above the first set that it has.

    Args:
        rows: name of each row and its sets of images, shape ``(n, height * width)``, by the
            heading of their column.
        height: pixels of an image from top to bottom.
        width: pixels from left to right.
        columns: images in a line of a set.
        title: title of the whole.
    """
    sets = {
        name: {heading: _stack(name, of, height, width) for heading, of in row.items()}
        for name, row in rows.items()
        if row
    }
    if not sets:
        raise InvalidInputError("panels: nothing to draw")
    longest = max(len(images) for row in sets.values() for images in row.values())
    columns = min(whole_number("columns", columns, 1), longest)
    return _figure(sets, columns, title)


class _Row(NamedTuple):
    """What stands in one row."""

    name: str  # in lines
    blocks: Mapping[str, NDArray[np.float64]]  # by the heading of their column
    begins: Sequence[str]  # columns of which it has the first block


def _figure(sets: Mapping[str, Mapping[str, NDArray[np.float64]]], columns: int, title: str) -> Any:
    """The figure: everything is placed by hand, in dots, and counted from the top."""
    headings = list(dict.fromkeys(heading for row in sets.values() for heading in row))
    rows = _rows(sets, columns)
    first = next(iter(rows[0].blocks.values()))
    image = (first.shape[1] + 1) // columns - 1
    # A pixel is a whole number of dots, so that all pixels and gaps come out equally wide.
    free = int(PAGE * DOTS) - NAMES - len(headings) * SPACE
    zoom = max(1, min(free // (len(headings) * first.shape[1]), IMAGE_WIDTH // image))
    slot = zoom * first.shape[1] + SPACE
    left = {heading: NAMES + i * slot for i, heading in enumerate(headings)}
    down, tops = SPACE // 2 + (2 * LINE if title else 0), []
    for row in rows:
        tops.append(down + (LINE if row.begins else 0))
        down = tops[-1] + max(_height(row, zoom), LINE * (row.name.count("\n") + 1)) + SPACE // 2

    figure = pyplot().figure(figsize=((NAMES + len(headings) * slot) / DOTS, down / DOTS), dpi=DOTS)
    for row, top in zip(rows, tops, strict=True):
        _write(figure, row.name, EDGE, top + _height(row, zoom) / 2, va="center")
        for heading, block in row.blocks.items():
            _show(figure, block, left[heading], top, zoom)
        for heading in row.begins:
            _write(figure, heading, left[heading], top - LINE / 4, va="bottom")
    if title:
        _write(figure, title, EDGE, SPACE / 2, va="top", fontsize=LETTERS + 2)
    return figure


def _rows(sets: Mapping[str, Mapping[str, NDArray[np.float64]]], columns: int) -> list[_Row]:
    rows, begun = [], {""}  # a column without a heading has none to be written
    for name, row in sets.items():
        blocks = {heading: mosaic(images, columns) for heading, images in row.items()}
        rows.append(_Row(_named(name, row), blocks, [one for one in row if one not in begun]))
        begun |= set(row)
    return rows


def _height(row: _Row, zoom: int) -> int:
    """Of its images, in dots."""
    return zoom * max(map(len, row.blocks.values()))


def _show(figure: Any, block: NDArray[np.float64], left: float, top: float, zoom: int) -> None:
    """Show an image at a place in dots, each of its pixels so many dots wide."""
    across, high = figure.get_size_inches() * DOTS
    tall, wide = zoom * len(block), zoom * block.shape[1]
    place = [left / across, 1 - (top + tall) / high, wide / across, tall / high]
    panel = figure.add_axes(place)
    panel.imshow(block, interpolation="nearest", aspect="auto")
    panel.set_axis_off()


def _named(name: str, row: Mapping[str, NDArray[np.float64]]) -> str:
    """The name of a row in lines, with what light blue is where there is any."""
    lines = textwrap.wrap(name, _LETTERS)
    if any(np.isnan(images).any() for images in row.values()):
        lines += textwrap.wrap("(light blue: hidden)", _LETTERS)
    return "\n".join(lines)


def _write(figure: Any, text: str, left: float, top: float, **how: Any) -> None:
    """Write at a place in dots."""
    across, high = figure.get_size_inches() * DOTS
    figure.text(left / across, 1 - top / high, text, **{"fontsize": LETTERS} | how)


def mosaic(images: NDArray[np.float64], columns: int) -> NDArray[np.float64]:
    """Images ``(n, height, width)`` in rows, one white pixel apart: colours ``(H, W, 3)``.

    >>> mosaic(np.zeros((3, 2, 2)), columns=2)[..., 0].astype(int)
    array([[0, 0, 1, 0, 0],
           [0, 0, 1, 0, 0],
           [1, 1, 1, 1, 1],
           [0, 0, 1, 1, 1],
           [0, 0, 1, 1, 1]])
    """
    n, height, width = images.shape
    rows = -(-n // columns)
    colours = np.where(np.isnan(images)[..., None], HIDDEN, images.clip(0.0, 1.0)[..., None])
    block = np.ones((rows, height + 1, columns, width + 1, 3))
    places = np.divmod(np.arange(n), columns)
    block[places[0], :height, places[1], :width] = colours
    return block.reshape(rows * (height + 1), columns * (width + 1), 3)[:-1, :-1]


def _stack(name: str, images: ArrayLike, height: int, width: int) -> NDArray[np.float64]:
    """Rows of pixels ``(n, height * width)`` as images ``(n, height, width)``."""
    rows = float_array("panels", images, ndim=2)
    if not len(rows) or rows.shape[1] != height * width:
        raise InvalidInputError(
            f"panels: {name!r} has shape {rows.shape}, expected images of {height} x {width} pixels"
        )
    return rows.reshape(-1, height, width)
