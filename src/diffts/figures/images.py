"""Sets of small grey images, side by side."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffts.errors import InvalidInputError
from diffts.figures.style import pyplot, save
from diffts.validation import float_array, whole_number

HIDDEN = (0.55, 0.78, 1.0)  # light blue: no grey looks like it
MOST_ACROSS = 3  # panels in a row
# Sizes in dots of the written picture.
PANEL_WIDTH, IMAGE_WIDTH, LEAST_WIDTH = 480, 90, 300
SPACE, LINE, LETTER = 36, 24, 11


def draw_images(
    panels: Mapping[str, ArrayLike],
    path: str | os.PathLike[str],
    height: int,
    width: int,
    columns: int = 8,
    title: str = "",
) -> None:
    """One panel for each set of images, black at 0 and white at 1; NaN (hidden) is light blue.

    Args:
        panels: title of each panel and its images, shape ``(n, height * width)``.
        path: where to write the picture.
        height: pixels of an image from top to bottom.
        width: pixels from left to right.
        columns: images in a row of a panel.
        title: title of the whole.
    """
    if not panels:
        raise InvalidInputError("panels: nothing to draw")
    sets = [_stack(name, images, height, width) for name, images in panels.items()]
    columns = min(whole_number("columns", columns, 1), max(map(len, sets)))
    blocks = [mosaic(images, columns) for images in sets]
    # A pixel is a whole number of dots, so that all pixels and gaps come out equally wide.
    zoom = max(1, min(PANEL_WIDTH // blocks[0].shape[1], IMAGE_WIDTH // width))
    slot = max(zoom * blocks[0].shape[1], LEAST_WIDTH)
    titles = [textwrap.fill(name, slot // LETTER) for name in panels]

    deep = -(-len(blocks) // MOST_ACROSS)
    across = -(-len(blocks) // deep)
    rows = [
        range(start, min(start + across, len(blocks))) for start in range(0, len(blocks), across)
    ]
    heads = [LINE * max(titles[i].count("\n") + 1 for i in row) + LINE // 2 for row in rows]
    bodies = [zoom * max(len(blocks[i]) for i in row) for row in rows]
    total = np.array([across * (slot + SPACE), sum(heads) + sum(bodies) + SPACE * len(rows)])

    plt = pyplot()
    dpi = plt.rcParams["figure.dpi"]
    figure = plt.figure(figsize=total / dpi)
    top = total[1]
    for row, head, body in zip(rows, heads, bodies, strict=True):
        for place, i in enumerate(row):
            size = zoom * np.array(blocks[i].shape[1::-1])
            corner = np.array([place * (slot + SPACE), top - head - size[1]])
            panel = figure.add_axes([*(corner / total), *(size / total)])
            panel.imshow(blocks[i], interpolation="nearest", aspect="auto")
            panel.set_title(titles[i], loc="left", fontsize=9)
            panel.set_axis_off()
        top -= head + body + SPACE
    if any(np.isnan(images).any() for images in sets):
        figure.text(0, 0, "light blue: hidden pixels", color="0.3", fontsize=8)
    if title:
        figure.text(0, 1 + LINE / total[1], title, fontsize=11)
    save(figure, path)


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
