"""Mazes as pictures, with a path drawn in."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from diffts.figures.style import pyplot, save
from diffts.problems.maze import EDGES, SIDE, to_image


def draw_mazes(
    panels: Mapping[str, tuple[ArrayLike, ArrayLike | None]], path: str | os.PathLike[str]
) -> None:
    """Side by side: edge values ``(180,)`` as an image, and a path (mask of edges) in red."""
    plt = pyplot()
    figure, axes = plt.subplots(
        1, len(panels), figsize=(2.4 * len(panels), 2.7), squeeze=False, layout="constrained"
    )
    for panel, (name, (values, used)) in zip(axes[0], panels.items(), strict=True):
        image = to_image(values)[: 2 * SIDE - 1, : 2 * SIDE - 1]
        panel.imshow(image, cmap="gray", vmin=-1.0, vmax=0.0, interpolation="nearest")
        if used is not None:
            for low, high in EDGES[np.asarray(used, bool)]:
                rows, columns = np.divmod([low, high], SIDE)
                panel.plot(2 * columns, 2 * rows, color="#d62728", lw=2, solid_capstyle="round")
        panel.set_title(name)
        panel.set_axis_off()
    save(figure, path)
