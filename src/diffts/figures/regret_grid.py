"""Many regret plots in one picture, with one legend for all."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffts.extras import optional
from diffts.figures.grid_legend import grow, place_legend
from diffts.figures.looks import Look, Name, look_of
from diffts.figures.notes import Note, head_of, lines_of, write_notes
from diffts.figures.style import (
    LETTERS,
    PAGE,
    SMALL_LETTERS,
    draw_curve,
    label_of,
    pyplot,
    save_for_print,
    text_width,
)

#: A curve that ends above so many times the best one leaves the picture.
OFF_SCALE = 3.0
#: One that ends so little above the top stays in it.
JUST_ABOVE = 1.2
MOST_ACROSS = 4  # panels beside each other: more would be too small to read
#: Of a panel in inches: its width where there is room, and its height without what stands above.
_WIDTH, _HEIGHT = 2.4, 1.45
_LEFT, _APART = 40.0, 10.0  # in points: what lies left of a plot, and between two titles


class GridCurve(NamedTuple):
    """A labelled curve with its standard error; ``dashed`` for references."""

    label: str
    rounds: NDArray[np.int64]
    mean: NDArray[np.float64]
    stderr: NDArray[np.float64]
    dashed: bool = False

    @property
    def look(self) -> Look:
        """How it is drawn."""
        return look_of(self.label, reference=self.dashed)


class GridPanel(NamedTuple):
    """A title and its curves."""

    title: str
    curves: Sequence[GridCurve]

    @property
    def top(self) -> float:
        """What is above is cut off; half of the curves, at least, stay in the picture.

        So do those that end up to ``JUST_ABOVE`` times higher, and the bands of those that stay,
        likewise.
        """
        ends = sorted(float(one.mean[-1]) for one in self.curves)
        top = max(OFF_SCALE * ends[0], 1.1 * ends[(len(ends) - 1) // 2])
        just_above = [end for end in ends if top < end <= JUST_ABOVE * top]
        top = 1.05 * just_above[-1] if just_above else top
        bands = (one.mean[-1] + one.stderr[-1] for one in self.curves if one.mean[-1] <= top)
        return max(top, min(JUST_ABOVE * top, 1.02 * float(max(bands))))

    @property
    def of(self) -> str:
        """What it is of: the first line of its title."""
        return self.title.partition("\n")[0]

    def leaving(self, top: float) -> list[GridCurve]:
        """The curves that are cut off, the highest first."""
        out = [one for one in self.curves if one.mean[-1] > top > 0]
        return sorted(out, key=lambda one: -float(one.mean[-1]))


def draw_regret_grid(
    rows: Sequence[Sequence[GridPanel]],
    path: str | os.PathLike[str],
    title: str = "",
) -> None:
    """Mean cumulative regret in bands of one standard error, a small plot for each panel.

    Curves that end far above the lowest are cut off; a note above the plot says where they end.
    Plots of one problem have one scale. A PDF for print comes beside the picture, with the same
    name. The same rows give the same bytes.
    """
    save_for_print(regret_grid(rows, title), path)


def regret_grid(rows: Sequence[Sequence[GridPanel]], title: str = "") -> Any:
    """The figure of :func:`draw_regret_grid`: as wide as a page at most, laid out for good.

    Rows of more than ``MOST_ACROSS`` panels are broken into equal parts. Shorter rows begin at the
    left; the legend takes what they leave free, where it fits.
    """
    rows = [part for row in rows for part in _parts(row)]
    columns = max(map(len, rows))
    wide = min(PAGE, _WIDTH * columns)
    figure = pyplot().figure(figsize=(wide, _HEIGHT * len(rows)), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.03, h_pad=0.03, wspace=0.02, hspace=0.03)
    grid = figure.add_gridspec(len(rows), columns)
    handles: dict[str, Any] = {}
    placed, tops = [], _tops([panel for row in rows for panel in row])
    for i, row in enumerate(rows):
        axes = [figure.add_subplot(grid[i, j]) for j in range(len(row))]
        for axis, panel in zip(axes, row, strict=True):
            _draw_panel(axis, panel, tops[panel.of], handles)
        heads = _write_heads(axes, row, tops, 72 * wide / columns)
        grow(figure, heads / 72)
        axes[0].set_ylabel("regret", fontsize=LETTERS)
        placed.append(axes)
    for j in range(columns):
        lowest = [axes[j] for axes in placed if len(axes) > j][-1]
        lowest.set_xlabel("round", fontsize=LETTERS)
    if title:
        figure.suptitle(title, fontsize=LETTERS + 2)
        grow(figure, 2 * LETTERS / 72)
    place_legend(figure, placed, _references_last(handles))
    return figure


def _parts(row: Sequence[GridPanel]) -> list[Sequence[GridPanel]]:
    """A row, or as few equal parts of it as are not too long."""
    number = -(-len(row) // MOST_ACROSS)
    size = -(-len(row) // number) if number else 1
    return [row[start : start + size] for start in range(0, len(row), size)]


def _tops(panels: Sequence[GridPanel]) -> dict[str, float]:
    """The upper end of the scale of each problem: no higher than its highest curve."""
    tops: dict[str, float] = {}
    highest: dict[str, float] = {}
    for panel in panels:
        ends = max(float(one.mean[-1] + one.stderr[-1]) for one in panel.curves)
        tops[panel.of] = max(tops.get(panel.of, 0.0), panel.top)
        highest[panel.of] = max(highest.get(panel.of, 0.0), ends)
    return {name: min(top, 1.05 * highest[name]) for name, top in tops.items()}


def _draw_panel(axis: Any, panel: GridPanel, top: float, handles: dict[str, Any]) -> None:
    """Curves and scales of one plot; lines that are new go into ``handles``, by policy."""
    for number, one in enumerate(panel.curves):
        # From no regret before the first round.
        rounds = np.concatenate([[0], one.rounds])
        mean, error = (np.concatenate([[0.0], values]) for values in (one.mean, one.stderr))
        # Markers of curves that lie upon each other lie beside each other.
        begin = 0.06 + 0.25 * (number * 0.382 % 1.0)
        line = draw_curve(axis, one.label, rounds, mean, error, look=one.look, begin=begin)
        handles.setdefault(one.label, line)
    axis.set_xlim(left=0)
    axis.set_ylim(0, top if top > 0 else None)
    ticker = optional("matplotlib.ticker", "drawing")
    for scale in (axis.xaxis, axis.yaxis):
        scale.set_major_locator(ticker.MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axis.tick_params(labelsize=SMALL_LETTERS, length=2.5, pad=2.0)


def _write_heads(
    axes: Sequence[Any], row: Sequence[GridPanel], tops: dict[str, float], width: float
) -> float:
    """Titles of a row, all equally high, with the notes below them, and how high that is.

    What it takes and gives is in points: ``width`` is that of a panel.
    """
    figure = axes[0].figure
    notes = [[_note(one) for one in panel.leaving(tops[panel.of])] for panel in row]
    lines = [lines_of(figure, some, width - _LEFT) for some in notes]
    titles = [_broken(figure, panel.title, width - _APART) for panel in row]
    pad = head_of(max(map(len, lines)))
    for axis, title, above in zip(axes, titles, lines, strict=True):
        axis.set_title(title, fontsize=LETTERS, pad=pad)
        write_notes(axis, above)
    return pad + 1.2 * LETTERS * (1 + max(title.count("\n") for title in titles))


def _broken(figure: Any, title: str, width: float) -> str:
    """A title in lines that are not wider: broken before a bracket, or where it must be."""
    lines = []
    for line in title.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}").split("\n"):
        too_wide = text_width(figure, line, LETTERS) > width
        for part in line.replace(" (", "\n(").split("\n") if too_wide else [line]:
            share = min(1.0, width / text_width(figure, part, LETTERS)) if part else 1.0
            lines.append(textwrap.fill(part, max(1, int(share * len(part)))))
    return "\n".join(lines)


def _note(curve: GridCurve) -> Note:
    end = float(curve.mean[-1])
    written = f"{end:.0f}" if end >= 10 else f"{end:.2g}"
    return Note(f"↑ {label_of(curve.label)} {written}", curve.look.text_colour)


def _references_last(handles: dict[str, Any]) -> dict[str, Any]:
    """Entries of the legend as they are written, references at the end."""
    ordered = sorted(handles, key=lambda label: Name.of(label).is_reference)
    return {label_of(label): handles[label] for label in ordered}
