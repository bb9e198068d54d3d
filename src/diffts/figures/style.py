"""One style for all pictures: names in legends, fonts, curves, and files that come out the same."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import Any

from diffts.extras import optional
from diffts.figures.looks import Look, Name, look_of
from diffts.files import is_special, write_file

#: Width of a page of text in inches. Nothing that is to be printed is wider.
PAGE = 7.0
#: Letters in points: on such a page, and at least 6 points on one of 5.5 inches.
LETTERS, SMALL_LETTERS = 8.0, 7.7
DOTS = 200  # of a printed inch

_FAMILIES = {"gts": "GTS", "gmmts": "GMMTS", "ucb1": "UCB1", "diffts": "DiffTS"}
#: What would make two files of the same picture differ: when, and by which Matplotlib.
_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None},
}


def label_of(policy: str) -> str:
    """How a policy is written, in every legend and note.

    >>> label_of("diffts (paper)"), label_of("gmmts-10 (perfect data)")
    ('DiffTS (paper)', 'GMMTS-10 (exact data)')
    >>> label_of("gts-full:default"), label_of("diffts-top-two")
    ('GTS-full, default rule', 'DiffTS-top-two')
    """
    name = Name.of(policy)
    family, *rest = re.split(r"(?=[ -])", name.policy, maxsplit=1)
    written = "".join([_FAMILIES.get(family, family), *rest])
    if name.rule:
        policy, space, which = written.partition(" (")
        written = f"{policy}, {name.rule} rule{space}{which}"
    return written + (" (exact data)" if name.is_reference else "")


def pyplot() -> Any:
    """Matplotlib's pyplot without a display, in this style; imported when used."""
    optional("matplotlib", "drawing").use("Agg")
    plt = optional("matplotlib.pyplot", "drawing")
    plt.rcParams.update(
        {
            "font.family": "DejaVu Sans",  # comes with Matplotlib: the same letters everywhere
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.alpha": 0.25,
            "legend.frameon": False,
            "figure.dpi": 150,
            "savefig.bbox": "tight",
            "pdf.fonttype": 42,  # TrueType, as journals ask: text that can be searched
            "ps.fonttype": 42,
            "svg.hashsalt": "diffts",
        }
    )
    return plt


def draw_curve(
    axes: Any,
    policy: str,
    rounds: Any,
    mean: Any,
    error: Any,
    *,
    look: Look | None = None,
    begin: float = 0.1,
) -> Any:
    """A policy's curve in a band of one standard error either side; ours are on top.

    Its first marker is ``begin`` of the picture's diagonal along the curve.
    """
    look = look or look_of(policy)
    order = 3.0 if look.ours else 2.0
    (line,) = axes.plot(
        rounds,
        mean,
        color=look.colour,
        label=label_of(policy),
        linewidth=look.width,
        linestyle=look.dashes,
        zorder=order,
        marker=look.marker or None,
        markersize=3.6,
        markeredgewidth=0.8,
        markerfacecolor="white" if look.hollow else look.colour,
        markevery=(begin, 0.25),
    )
    shade = 0.09 if look.hollow else 0.16
    axes.fill_between(
        rounds, mean - error, mean + error, color=look.colour, alpha=shade, lw=0, zorder=order - 1
    )
    return line


def text_width(figure: Any, text: str, letters: float) -> float:
    """Width of a line of text in letters of this size; both in points."""
    probe = figure.text(0, 0, text, fontsize=letters)
    box = probe.get_window_extent(figure.canvas.get_renderer())
    probe.remove()
    return float(box.width * 72 / figure.dpi)


def picture_suffixes() -> list[str]:
    """Kinds of pictures that Matplotlib writes by itself, without dots (PGF needs LaTeX)."""
    canvas = optional("matplotlib.backend_bases", "drawing").FigureCanvasBase
    return sorted(set(canvas.get_supported_filetypes()) - {"pgf"})


def save(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure, whole or not at all, and forget it; PNG where the name does not say."""
    path = Path(path)
    if not path.suffix and not is_special(path):
        path = path.with_name(f"{path.name}.png")
    try:
        _write(figure, path)
    finally:
        pyplot().close(figure)


def save_for_print(figure: Any, path: str | os.PathLike[str], dots: int = DOTS) -> None:
    """Write a figure of this very size, with a PDF of the same name beside it, and forget it.

    It has so many ``dots`` an inch where it is made of dots.
    """
    path = Path(path)
    try:
        for file in dict.fromkeys((path, path.with_suffix(".pdf"))):
            _write(figure, file, dpi=dots, bbox_inches=figure.bbox_inches)
    finally:
        pyplot().close(figure)


def _write(figure: Any, path: Path, **how: Any) -> None:
    """Write the same bytes whenever the same figure is drawn."""
    kind, picture = path.suffix.lower().removeprefix(".") or "png", io.BytesIO()
    figure.savefig(picture, format=kind, metadata=_METADATA.get(kind), **how)
    write_file(path, picture.getvalue())
