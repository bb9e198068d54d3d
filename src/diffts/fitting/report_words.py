"""How the report writes numbers, names and tables: few digits, and foreign text as text."""

from __future__ import annotations

import html
import math
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

#: Half the width of a 95% interval, in standard errors.
HALF_WIDTH = 1.96
MISSING = "–"


def text(foreign: object) -> str:
    """Any text, safe inside HTML; what cannot be shown becomes U+FFFD.

    >>> text("<script>")
    '&lt;script&gt;'
    """
    shown = "".join(
        "\ufffd"
        if unicodedata.category(letter) in ("Cc", "Cs") and letter not in "\n\t"
        else letter
        for letter in str(foreign)
    )
    return html.escape(shown)


def name(foreign: object, longest: int = 32) -> str:
    """A name of someone else's: cut in the middle where it is long, kept apart from other text."""
    whole = str(foreign)
    if not whole.strip():
        return f'<bdi class="name">(blank: {text(repr(whole))})</bdi>'
    if len(whole) <= longest:
        return f'<bdi class="name">{text(whole)}</bdi>'
    title, tail = text(whole[:200]), (longest - 1) // 2
    short = f"{whole[: longest - 1 - tail]}…{whole[-tail:]}"
    return f'<bdi class="name" title="{title}">{text(short)}</bdi>'


def names(foreign: Sequence[object], most: int = 12) -> str:
    """Some names in a row, and how many more there are."""
    shown = ", ".join(name(each) for each in foreign[:most])
    rest = len(foreign) - most
    return f"{shown} and {number(rest)} more" if rest > 0 else shown


def is_number(value: object) -> bool:
    """Whether there is a finite number to show."""
    return isinstance(value, int | float) and math.isfinite(value)


def number(value: Any, decimals: int | None = None, *, sign: bool = False) -> str:
    """A number with so many decimals, or with about three significant digits.

    >>> number(1234567), number(0.012345), number(-3.14159, 1), number(float("nan"))
    ('1,234,567', '0.0123', '−3.1', '–')
    """
    if not is_number(value):
        return MISSING
    if decimals is None:
        decimals = 0 if isinstance(value, int) else significant(value)
    if value and not 1e-9 < abs(value) < 1e15:
        return f"{value:{'+' if sign else ''}.2e}".replace("-", "−")
    written = f"{value:{'+' if sign else ''},.{decimals}f}"
    if not any(digit in written for digit in "123456789"):
        written = written.lstrip("+-")  # no '−0.00'
    return written.replace("-", "−")


def significant(value: float, digits: int = 3) -> int:
    """Decimals that show so many significant digits, from 0 to 9."""
    if not is_number(value) or value == 0:
        return 0
    return min(max(digits - 1 - math.floor(math.log10(abs(value))), 0), 9)


def percent(share: Any, decimals: int | None = None) -> str:
    """A share of 1 in percent, with one decimal below ten."""
    if not is_number(share):
        return MISSING
    if decimals is None:
        decimals = 0 if abs(share) >= 0.0995 or share == 0 else 1
    return "below 0.1%" if 0 < share < 0.001 else f"{number(100 * share, decimals)}%"


def count(n: Any, one: str, many: str | None = None) -> str:
    """So many of something.

    >>> count(1, "task"), count(1200, "task")
    ('1 task', '1,200 tasks')
    """
    return f"{number(n)} {one if n == 1 else many or one + 's'}"


def listed(words: Sequence[str]) -> str:
    """Words in a row.

    >>> listed(["10", "30", "100"]), listed(["10"])
    ('10, 30 and 100', '10')
    """
    return " and ".join([*([", ".join(words[:-1])] if words[1:] else []), *words[-1:]])


def duration(seconds: Any) -> str:
    """Seconds, or minutes where there are many."""
    if not is_number(seconds):
        return MISSING
    if seconds < 1:
        return "below 1 s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


class Unit(NamedTuple):
    """How the numbers of one table are written: shares of 1 in percent, the others as they are."""

    decimals: int
    percent: bool = False

    @staticmethod
    def of(pairs: Iterable[tuple[Any, Any]], percent: bool = False) -> Unit:
        """Digits from the typical interval of all pairs (value, standard error).

        Two significant digits of half an interval are shown; without one, three of the values.
        """
        scale = 100.0 if percent else 1.0
        known = [(v * scale, (e or 0.0) * scale) for v, e in pairs if is_number(v)]
        widths = sorted(HALF_WIDTH * e for _, e in known if is_number(e) and e > 0)
        if widths:
            return Unit(min(significant(widths[len(widths) // 2], 2), 9), percent)
        largest = max((abs(v) for v, _ in known), default=0.0)
        return Unit(significant(largest), percent)

    def plain(self, value: Any, *, coarser: int = 0, sign: bool = False) -> str:
        """The value alone, with ``coarser`` digits fewer."""
        if not is_number(value):
            return MISSING
        decimals = max(self.decimals - coarser, 0)
        written = number(value * (100.0 if self.percent else 1.0), decimals, sign=sign)
        return f"{written}%" if self.percent else written

    def tick(self, value: float) -> str:
        """A round number: as many digits as it has."""
        shown = value * (100.0 if self.percent else 1.0)
        decimals = len(f"{shown:.6f}".rstrip("0").partition(".")[2])
        return f"{number(shown, decimals)}{'%' if self.percent else ''}"

    def interval(self, value: Any, error: Any) -> str:
        """Value ± half of its 95% interval."""
        if not is_number(value) or not is_number(error) or error == 0:
            return self.plain(value)
        half = HALF_WIDTH * error * (100.0 if self.percent else 1.0)
        return f'{self.plain(value)} <span class="error">± {number(half, self.decimals)}</span>'

    def about(self, value: Any, error: Any) -> str:
        """For sentences: a digit fewer, and 'about' where ± is more than 5% of the value."""
        wide = is_number(value) and is_number(error) and HALF_WIDTH * error > 0.05 * abs(value)
        return f"{'about ' if wide else ''}{self.plain(value, coarser=1)}"


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    marked: int | None = None,
    words: bool = False,
) -> str:
    """A table of cells that are HTML already; the first of a row names it.

    One row may be ``marked``; cells are numbers (to the right) or ``words`` (to the left).
    """
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join(
        f'<tr{" class=marked" if i == marked else ""}><th scope="row">{row[0]}</th>'
        + "".join(f"<td>{cell}</td>" for cell in row[1:])
        + "</tr>"
        for i, row in enumerate(rows)
    )
    kind = " class=words" if words else ""
    inside = f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="scroll"><table{kind}>{inside}</table></div>'


def facts_list(pairs: Iterable[tuple[str, str]]) -> str:
    """Short answers with their names; those without an answer are left out."""
    items = "".join(f"<div><dt>{k}</dt><dd>{v}</dd></div>" for k, v in pairs if v)
    return f'<dl class="facts">{items}</dl>'


def section(title: str, body: str) -> str:
    """A part of the page, or nothing where there is nothing to say."""
    return f"<section><h2>{title}</h2>{body}</section>" if body else ""
