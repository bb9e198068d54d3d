"""Labelled bars side by side."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np

from diffts.figures.style import pyplot, save_for_print


def draw_bars(
    rows: Mapping[str, Sequence[float]],
    kinds: Sequence[str],
    path: str | os.PathLike[str],
    label: str = "",
) -> None:
    """For each row a bar of each kind, with its value in percent at the end; as PDF, too."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(6.0, 0.45 * len(rows) + 1.0), layout="constrained")
    height = 0.8 / len(kinds)
    for k, kind in enumerate(kinds):
        values = [row[k] for row in rows.values()]
        bars = axes.barh(np.arange(len(rows)) + k * height, values, height, label=kind)
        axes.bar_label(bars, [f"{value:.1%}" for value in values], fontsize=7, padding=2)
    middle = (len(kinds) - 1) * height / 2
    axes.set_yticks(np.arange(len(rows)) + middle, list(rows))
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(plt.matplotlib.ticker.PercentFormatter(1.0))
    axes.set_xlabel(label)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=len(kinds))
    save_for_print(figure, path)
