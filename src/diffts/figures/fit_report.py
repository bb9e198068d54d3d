"""Pictures inside the report of a fit: text for an HTML page, which needs no other file.

Charts are SVG with widths in percent and text in the page's own size, so that they fit a telephone
without shrinking. Colours are the page's (CSS classes), for light and dark. Images of numbers are
PNG, one pixel a number; what is unknown is transparent.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffts.extras import optional

_HIGH, _GAP = 24, 3.0  # of a row in px; what is free left and right of the data in percent
_TOGETHER, _APART = (47, 111, 221), (226, 105, 32)  # blue and orange: told apart by all eyes


class Mark(NamedTuple):
    """One row of a chart: a dot, the interval about it, and how it looks (a CSS class)."""

    label: str
    value: float
    low: float
    high: float
    look: str

    @staticmethod
    def of(label: str, value: float, half: float, look: str) -> Mark:
        """A dot with an interval of this half width."""
        return Mark(label, value, value - half, value + half, look)


def interval_chart(
    groups: Mapping[str, Sequence[Mark]],
    written: Callable[[float], str],
    *,
    limits: Mapping[str, float] | None = None,
    described: str,
) -> str:
    """Dots with intervals on one common axis, in groups; ``limits`` draws a line in a group.

    Args:
        groups: title of each group (plain text; may be empty) and its rows.
        written: how a tick is written.
        limits: of some groups, what cannot be exceeded.
        described: the picture in words, for those who do not see it.
    """
    limits = limits or {}
    shown = [mark for marks in groups.values() for mark in marks]
    if not shown:
        return ""
    ends = [end for mark in shown for end in (mark.low, mark.high)] + list(limits.values())
    ticks = nice_ticks(min(ends), max(ends))
    low, high = min(ticks[0], *ends), max(ticks[-1], *ends)

    def across(value: float) -> str:
        return f"{_GAP + (100 - 2 * _GAP) * (value - low) / (high - low):.2f}%"

    grid = "".join(
        f'<line class="grid" x1="{across(t)}" x2="{across(t)}" y1="0" y2="100%"/>' for t in ticks
    )
    rows = []
    for title, marks in groups.items():
        if title:
            rows.append(f'<div class="group">{html.escape(title)}</div>')
        for mark in marks:
            limit = ""
            if title in limits:
                x = across(limits[title])
                limit = f'<line class="limit" x1="{x}" x2="{x}" y1="0" y2="100%"/>'
            middle = _HIGH / 2
            dot = (
                f'<line class="bar {mark.look}" x1="{across(mark.low)}" x2="{across(mark.high)}" '
                f'y1="{middle}" y2="{middle}"/>'
                f'<circle class="dot {mark.look}" cx="{across(mark.value)}" cy="{middle}" r="5"/>'
            )
            rows.append(
                f'<div class="label {mark.look}">{html.escape(mark.label)}</div>'
                f'<svg height="{_HIGH}" aria-hidden="true">{grid}{limit}{dot}</svg>'
            )
    words = "".join(
        f'<text x="{across(t)}" y="14" text-anchor="middle">{html.escape(written(t))}</text>'
        for t in ticks
    )
    axis = f'<div></div><svg height="20" class="axis" aria-hidden="true">{words}</svg>'
    return (
        f'<div class="chart" role="img" aria-label="{html.escape(described)}">'
        f"{''.join(rows)}{axis}</div>"
    )


def nice_ticks(low: float, high: float) -> list[float]:
    """Three to five round numbers, the first at most ``low`` and the last at least ``high``."""
    if not high > low:
        margin = abs(low) / 10 or 1.0
        low, high = low - margin, high + margin
    ticker = optional("matplotlib.ticker", "the report")
    return [float(tick) for tick in ticker.MaxNLocator(4).tick_values(low, high)]


def value_image(values: ArrayLike, low: float, high: float, described: str) -> str:
    """Numbers ``(n, K)`` as colours from dark (``low``) to bright; NaN is transparent."""
    shown = np.asarray(values, np.float64)
    scaled = (shown - low) / (high - low) if high > low else np.full(shown.shape, 0.5)
    colours = _matplotlib_colours("viridis")(
        np.ma.masked_invalid(np.clip(scaled, 0, 1)), bytes=True
    )
    colours[~np.isfinite(shown)] = 0
    return _image(colours, described)


def colour_key() -> str:
    """The colours of :func:`value_image` from low to high."""
    return value_image(np.linspace(0, 1, 64)[None], 0, 1, "colours from low to high")


def correlation_image(correlation: ArrayLike, described: str) -> str:
    """Correlations ``(K, K)``: blue together, orange against each other, clear where unrelated."""
    shown = np.asarray(correlation, np.float64)
    colours = np.empty((*shown.shape, 4), np.uint8)
    colours[..., :3] = np.where(shown[..., None] >= 0, _TOGETHER, _APART)
    colours[..., 3] = np.round(255 * np.clip(np.abs(shown), 0, 1))
    return _image(colours, described)


def _image(colours: NDArray[np.uint8], described: str) -> str:
    picture = io.BytesIO()
    optional("matplotlib.image", "the report").imsave(
        picture, colours, format="png", metadata={"Software": None}
    )
    data = base64.b64encode(picture.getvalue()).decode()
    return f'<img class="pixels" alt="{html.escape(described)}" src="data:image/png;base64,{data}">'


def _matplotlib_colours(name: str) -> Any:
    return optional("matplotlib", "the report").colormaps[name]
