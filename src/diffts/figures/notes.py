"""Notes about curves that leave a plot: in a strip above it, where no curve can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from diffts.figures.style import LETTERS, SMALL_LETTERS, text_width

#: Which texts of a figure are such notes (their ``gid``).
NOTE = "off-scale note"
_LINE, _APART = 9.5, 6.0  # in points: height of a line, and between two notes


class Note(NamedTuple):
    """What leaves a plot, and in which colour to say so."""

    text: str
    colour: str


def lines_of(figure: Any, notes: Sequence[Note], width: float) -> list[list[tuple[Note, float]]]:
    """Notes with their widths, as many in a line as fit ``width``; all in points."""
    lines: list[list[tuple[Note, float]]] = []
    free = 0.0
    for note in notes:
        wide = text_width(figure, note.text, SMALL_LETTERS)
        if not lines or wide > free:
            lines.append([])
            free = width
        lines[-1].append((note, wide))
        free -= wide + _APART
    return lines


def head_of(lines: int) -> float:
    """How far above a plot its title is, with so many lines of notes below it; in points."""
    return lines * _LINE + LETTERS / 2


def write_notes(axes: Any, lines: Sequence[Sequence[tuple[Note, float]]]) -> None:
    """Write lines of notes above the plot's upper right corner, the last line next to it."""
    for number, line in enumerate(reversed(lines)):
        right = 0.0
        for note, wide in reversed(line):
            axes.annotate(
                note.text,
                (1.0, 1.0),
                xycoords="axes fraction",
                xytext=(right, number * _LINE + 2.0),
                textcoords="offset points",
                ha="right",
                va="bottom",
                fontsize=SMALL_LETTERS,
                color=note.colour,
                gid=NOTE,
            )
            right -= wide + _APART
