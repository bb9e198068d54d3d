"""Many regret plots in one picture, with one legend for all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffts.extras import optional
from diffts.figures.style import draw_curve, label_of, pyplot, save

#: A curve that ends above so many times the best one leaves the picture.
OFF_SCALE = 4.0


class GridCurve(NamedTuple):
    """A labelled curve with its standard error; ``dashed`` for references."""

    label: str
    rounds: NDArray[np.int64]
    mean: NDArray[np.float64]
    stderr: NDArray[np.float64]
    dashed: bool = False


class GridPanel(NamedTuple):
    """A title and its curves."""

    title: str
    curves: Sequence[GridCurve]


def draw_regret_grid(
    rows: Sequence[Sequence[GridPanel]],
    path: str | os.PathLike[str],
    title: str = "",
) -> None:
    """Mean cumulative regret in bands of one standard error, a small plot for each panel.

    Curves that end above ``OFF_SCALE`` times the lowest are cut off; an arrow says where they
    end.
    """
    plt = pyplot()
    patheffects = optional("matplotlib.patheffects", "drawing")
    columns = max(len(row) for row in rows)
    figure, axes = plt.subplots(
        len(rows), columns, figsize=(2.6 * columns, 2.25 * len(rows) + 0.7), squeeze=False,
        layout="constrained",
    )  # fmt: skip
    handles: dict[str, Any] = {}
    placed = [(axes[i, j], panel) for i, row in enumerate(rows) for j, panel in enumerate(row)]
    for axis, panel in placed:
        top = OFF_SCALE * min(float(one.mean[-1]) for one in panel.curves)
        leaving = [one for one in panel.curves if one.mean[-1] > top]
        for one in panel.curves:
            # From no regret before the first round.
            rounds = np.concatenate([[0], one.rounds])
            mean, error = (np.concatenate([[0.0], values]) for values in (one.mean, one.stderr))
            handle = draw_curve(axis, one.label, rounds, mean, error, dashed=one.dashed)
            handles.setdefault(label_of(one.label), handle)
        axis.set_xlim(left=0)
        axis.set_ylim(0, top if leaving else None)
        if leaving:
            ends = "\n".join(f"↑ {label_of(c.label)} {c.mean[-1]:.0f}" for c in leaving)
            note = axis.text(
                0.98, 0.97, ends, transform=axis.transAxes, ha="right", va="top", fontsize=6
            )
            # The leaving curves may run below it: a rim of white, so that both can be seen.
            note.set_path_effects([patheffects.withStroke(linewidth=2.0, foreground="white")])
        axis.set_title(panel.title, fontsize=8)
        axis.tick_params(labelsize=7)
        axis.set_xlabel("round", fontsize=8)
    for i, row in enumerate(rows):
        for axis in axes[i, len(row) :]:
            axis.set_axis_off()
    for axis in axes[:, 0]:
        axis.set_ylabel("regret", fontsize=8)
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncol=min(max(2, int(1.4 * columns)), len(handles)),
    )
    if title:
        figure.suptitle(title, fontsize=10)
    save(figure, path)
