"""The first part of the report: the verdict in a box, and what to expect of new tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from diffts.figures.fit_report import Mark, interval_chart
from diffts.fitting.report_words import (
    HALF_WIDTH,
    Unit,
    count,
    is_number,
    listed,
    number,
    percent,
    section,
    table,
    text,
)
from diffts.fitting.verdict import CALLED

Facts = Mapping[str, Any]

#: So many times today's reward are doubted.
TOO_GOOD = 5
_OURS = "With this fit"
_LOOKS = {
    "use it": ("good", "✓"),
    "use the simple one": ("simple", "≈"),
    "collect more data": ("more", "+"),
    "nothing to gain": ("simple", "="),
}


def verdict(facts: Facts) -> str:
    """The advice in a box, with its reasons and how much data is wanted."""
    said = facts.get("verdict") or {}
    advice = str(said.get("advice") or "no verdict")
    look, sign = _LOOKS.get(advice, ("more", "?"))
    reasons = "".join(f"<li>{text(reason)}</li>" for reason in said.get("reasons") or ())
    wanted, have = said.get("tasks_wanted"), (facts.get("log") or {}).get("tasks")
    wish = ""
    if wanted and is_number(wanted):
        now = f" The log has {number(have)}." if is_number(have) else ""
        aim = f"<strong>about {count(rounded(wanted), 'task')}</strong>"
        wish = f"<p>Aim for {aim} in all.{now}</p>"
    return (
        f'<div class="verdict {look}" id="verdict">'
        f'<p class="advice"><span aria-hidden="true">{sign}</span> {text(advice.capitalize())}</p>'
        f'<p class="headline">{text(said.get("headline") or "")}</p>{wish}'
        f"{f'<ul>{reasons}</ul>' if reasons else ''}</div>"
    )


def rounded(n: float) -> int:
    """Two significant digits are enough for a wish; upwards.

    >>> rounded(1234.5), rounded(87), rounded(0.5)
    (1300, 87, 1)
    """
    step = int(10 ** max(math.floor(math.log10(n)) - 1, 0))
    return math.ceil(n / step) * step


class Compared(NamedTuple):
    """One way to decide: its name, its rewards with their errors, and how it looks in the chart."""

    label: str
    rewards: Facts
    errors: Facts
    look: str

    def at(self, span: str) -> tuple[Any, Any]:
        """Mean reward of a decision over the first ones, and its standard error, or None each."""
        value, error = self.rewards.get(span), self.errors.get(span)
        return (value if is_number(value) else None, error if is_number(error) else None)


def compared(facts: Facts) -> list[Compared]:
    """The fitted belief first, then what a new user gets today, and the others."""
    judged = facts.get("judged") or ()
    ours: Facts = next((row for row in judged if row.get("kind") == facts.get("chosen")), {})
    rows = [Compared(_OURS, ours.get("reward") or {}, ours.get("reward_se") or {}, "ours")]
    order = list(CALLED)
    baselines = [(str(row.get("name")), row) for row in facts.get("baselines") or ()]
    for known, row in sorted(baselines, key=lambda each: [*order, each[0]].index(each[0])):
        look = "today" if known == "as logged" else "other"
        label = CALLED.get(known, known)
        rows.append(Compared(label, row.get("reward") or {}, row.get("reward_se") or {}, look))
    return rows


def looked_at(rows: Sequence[Compared]) -> list[str]:
    """Numbers of decisions that the facts tell of, as they name them: 10, 30, … and the last."""
    known = {span for row in rows for span in row.rewards if span.isdecimal()}
    return sorted(known, key=int)


def expected(facts: Facts) -> str:
    """Expected reward in the first decisions: a few short answers, a chart and a table."""
    spans = looked_at(compared(facts))
    rows = [row for row in compared(facts) if any(row.at(n)[0] is not None for n in spans)]
    if not rows or rows[0].look != "ours":
        return ""
    binary = bool((facts.get("log") or {}).get("binary"))
    unit = Unit.of([row.at(n) for row in rows for n in spans], percent=binary)
    best = facts.get("best_possible") or {}
    limits = {_first(n): best[n] for n in spans if is_number(best.get(n))}
    groups = {
        _first(n): [
            Mark.of(row.label, value, (error or 0.0) * HALF_WIDTH, row.look)
            for row in rows
            for value, error in [row.at(n)]
            if value is not None
        ]
        for n in spans
    }
    what = "share of successes" if binary else "mean reward of a decision"
    chart = interval_chart(
        groups, unit.tick, limits=limits, described=f"{what} with intervals, as in the table below"
    )
    cells = [[text(row.label), *(unit.interval(*row.at(n)) for n in spans)] for row in rows]
    if limits:
        cells.append(["Best possible", *(unit.plain(best.get(n)) for n in spans)])
    dashed = (
        " The dashed line is the best possible: the best arm of each task, known from the start."
    )
    return section(
        "What to expect",
        f"<p>For a new task: {what}, over its first {listed(spans)} decisions. "
        f"Bars and ± are 95% intervals.{dashed if limits else ''}</p>"
        f"{_tiles(rows, spans, unit)}{chart}"
        + table(["", *(f"first {n}" for n in spans)], cells, marked=0)
        + '<p class="small">Today: each arm as often as in the log. One arm for all: always '
        "the arm that is best on average. UCB: a usual method that starts each task without past "
        "data.</p>",
    )


def _first(span: str) -> str:
    return f"First {span} decisions"


def _tiles(rows: Sequence[Compared], spans: Sequence[str], unit: Unit) -> str:
    """What a new task gets, and what it gets today, in a few words."""
    today = next((row for row in rows if row.look == "today"), None)
    tiles = []
    for n in spans:
        value, error = rows[0].at(n)
        if value is None:
            continue
        against = ""
        if today and today.at(n)[0] is not None:
            against = (
                f'<span class="small">today: {unit.about(*today.at(n))}</span>'
                f'<span class="gain">{gain(rows[0].at(n), today.at(n), unit)}</span>'
            )
        tiles.append(
            f'<div class="tile"><span class="small">{_first(n).lower()}</span>'
            f'<span class="big">{unit.about(value, error)}</span>{against}</div>'
        )
    doubt = ""
    if today and _too_good(rows[0], today, spans):
        doubt = (
            "<p><strong>So much more than today is seldom true.</strong> It may come from a few "
            "lucky rewards. Try it on a few tasks first, or judge it by a backtest.</p>"
        )
    return f'<div class="tiles">{"".join(tiles)}</div>{doubt}'


def _too_good(ours: Compared, today: Compared, spans: Sequence[str]) -> bool:
    """Whether some number of decisions is said to give five times today's reward."""
    pairs = [(ours.at(n)[0], today.at(n)[0]) for n in spans]
    return any(a is not None and b is not None and 0 < TOO_GOOD * b < a for a, b in pairs)


def gain(ours: tuple[Any, Any], today: tuple[Any, Any], unit: Unit) -> str:
    """How much more than today, or that one cannot tell.

    >>> gain((0.6, 0.01), (0.4, 0.01), Unit(2)), gain((0.6, 0.1), (0.4, 0.1), Unit(2))
    ('<strong>about 50% more</strong>', 'no clear difference')
    >>> gain((0.106, 0.01), (0.006, 0.001), Unit(1, percent=True))
    '<strong>about 18 times as much</strong>'
    """
    error = math.hypot(ours[1] or 0.0, today[1] or 0.0)
    more, before = ours[0] - today[0], today[0]
    if abs(more) <= HALF_WIDTH * error:
        return "no clear difference"
    word = "more" if more > 0 else "less"
    if before > 0 and abs(more) < 4 * before:
        return f"<strong>about {percent(abs(more) / before)} {word}</strong>"
    if 0 < before < more:  # of shares, '10% more' would say something else
        return f"<strong>about {ours[0] / before:.0f} times as much</strong>"
    return f"<strong>{unit.about(abs(more), error)} {word}</strong>"
