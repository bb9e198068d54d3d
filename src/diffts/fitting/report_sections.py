"""What the report says of the log and of the race, one function a part; facts in, HTML out.

Every part copes with facts that are not there: it then says less, or nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from diffts.figures.fit_report import Mark, interval_chart
from diffts.fitting.report_words import (
    HALF_WIDTH,
    Unit,
    count,
    facts_list,
    is_number,
    name,
    names,
    number,
    percent,
    section,
    table,
    text,
)

Facts = Mapping[str, Any]

#: Numbers of decisions that are reported, as the facts name them.
SPANS = ("10", "30", "100")
#: The kinds of belief in plain words.
BELIEFS = {
    "independent": "Each arm by itself",
    "gaussian": "Arms that vary together (Gaussian)",
    "mixture": "Several types of task (mixture)",
    "diffusion": "Learned patterns (diffusion model)",
}
_BASELINES = {
    "as logged": "As today (the log)",
    "best arm for all": "One best arm for all",
    "ucb1": "UCB, without past data",
}
_OURS = "With this fit"
_LOOKS = {"use it": "good", "use the simple one": "simple", "collect more data": "more"}
_SIGNS = {"use it": "✓", "use the simple one": "≈", "collect more data": "＋"}


def verdict(facts: Facts) -> str:
    """The advice in a box, with its reasons and how much data is wanted."""
    said = facts.get("verdict") or {}
    advice = str(said.get("advice") or "no verdict")
    reasons = "".join(f"<li>{text(reason)}</li>" for reason in said.get("reasons") or ())
    wanted = said.get("tasks_wanted")
    have = (facts.get("log") or {}).get("tasks")
    wish = ""
    if is_number(wanted):
        now = f" The log has {number(have)}." if is_number(have) else ""
        wish = f'<p class="wish">Aim for <strong>about {count(rounded(wanted), "task")}</strong> in all.{now}</p>'
    return (
        f'<div class="verdict {_LOOKS.get(advice, "more")}" id="verdict">'
        f'<p class="advice"><span aria-hidden="true">{_SIGNS.get(advice, "?")}</span> '
        f"{text(advice.capitalize())}</p>"
        f'<p class="headline">{text(said.get("headline") or "")}</p>{wish}'
        f"{f'<ul>{reasons}</ul>' if reasons else ''}</div>"
    )


def rounded(n: float) -> int:
    """Two significant digits are enough for a wish.

    >>> rounded(1234.5), rounded(87)
    (1200, 87)
    """
    return round(n, 1 - math.floor(math.log10(n))) if n >= 100 else math.ceil(n)


def of_kind(facts: Facts, kind: Any) -> Facts:
    """What the race said of one belief."""
    return next((row for row in facts.get("judged") or () if row.get("kind") == kind), {})


def _reward_rows(facts: Facts) -> list[tuple[str, Facts, str]]:
    """Label, rewards with errors, and look of each that is compared; the fitted belief first."""
    rows = [(_OURS, of_kind(facts, facts.get("chosen")), "ours")]
    order = list(_BASELINES)
    baselines = [b for b in facts.get("baselines") or () if isinstance(b.get("name"), str)]
    for each in sorted(baselines, key=lambda b: (*order, b["name"]).index(b["name"])):
        look = "today" if each["name"] == "as logged" else "other"
        rows.append((_BASELINES.get(each["name"], each["name"]), each, look))
    return [row for row in rows if row[1].get("reward")]


def rewards(facts: Facts) -> str:
    """Expected reward in the first decisions: three short answers, a chart and a table."""
    rows = _reward_rows(facts)
    if not rows or rows[0][0] != _OURS:
        return ""
    binary = bool((facts.get("log") or {}).get("binary"))
    pairs = [(row["reward"].get(n), _error(row, n)) for _, row, _ in rows for n in SPANS]
    unit = Unit.of(pairs, percent=binary)
    groups = {}
    for n in SPANS:
        marks = []
        for label, row, look in rows:
            value, half = row["reward"].get(n), HALF_WIDTH * (_error(row, n) or 0.0)
            if is_number(value):
                marks.append(Mark(label, value, value - half, value + half, look))
        groups[f"First {n} decisions"] = marks
    best = facts.get("best_possible") or {}
    limits = {f"First {n} decisions": best[n] for n in SPANS if is_number(best.get(n))}
    what = "share of successes" if binary else "mean reward of a decision"
    chart = interval_chart(
        groups,
        lambda tick: unit.plain(tick) if binary else number(tick, significant_ticks(tick)),
        limits=limits,
        described=f"Dots with intervals: {what}; the table below has the numbers",
    )
    cells = [
        [label, *(unit.interval(row["reward"].get(n), _error(row, n)) for n in SPANS)]
        for label, row, _ in rows
    ]
    if limits:
        cells.append(["Best possible", *(unit.plain(best.get(n)) for n in SPANS)])
    legend = " The dashed line is the best possible: the best arm of every task, known from the start."
    return section(
        "What to expect",
        f"<p>For a new task: {what}, over its first 10, 30 and 100 decisions. "
        f"Bars and ± are 95% intervals.{legend if limits else ''}</p>"
        f"{tiles(facts, rows, unit)}{chart}"
        + table(["", *(f"first {n}" for n in SPANS)], cells, marked=lambda i: i == 0),
    )


def significant_ticks(tick: float) -> int:
    """Decimals of a tick, which is a round number."""
    written = f"{abs(tick):.6f}".rstrip("0")
    return min(len(written.partition(".")[2]), 6)


def tiles(facts: Facts, rows: Sequence[tuple[str, Facts, str]], unit: Unit) -> str:
    """What a new task gets, and what it gets today, in one line each."""
    ours = rows[0][1]
    today = next((row for _, row, look in rows if look == "today"), None)
    parts = []
    for n in SPANS:
        value, error = ours["reward"].get(n), _error(ours, n)
        if not is_number(value):
            continue
        against = ""
        if today and is_number(today["reward"].get(n)):
            against = (
                f'<span class="small">today: {unit.about(today["reward"][n], _error(today, n))}</span>'
                f"<span>{gain(ours, today, n, unit)}</span>"
            )
        parts.append(
            f'<div class="tile"><span class="small">first {n} decisions</span>'
            f'<span class="big">{unit.about(value, error)}</span>{against}</div>'
        )
    return f'<div class="tiles">{"".join(parts)}</div>'


def gain(ours: Facts, today: Facts, n: str, unit: Unit) -> str:
    """How much more than today, or that one cannot tell."""
    here, there = ours["reward"][n], today["reward"][n]
    error = math.hypot(_error(ours, n) or 0.0, _error(today, n) or 0.0)
    more = here - there
    if abs(more) <= HALF_WIDTH * error:
        return "no clear difference"
    word = "more" if more > 0 else "less"
    if there > 0 and abs(more) / there < 10:
        return f"<strong>about {percent(abs(more) / there)} {word}</strong>"
    return f"<strong>{unit.about(abs(more), error)} {word}</strong>"


def _error(row: Facts, n: str) -> float | None:
    error = (row.get("reward_se") or {}).get(n)
    return error if is_number(error) else None


def log(facts: Facts) -> str:
    """What was in the log, what was left out and why."""
    said = facts.get("log") or {}
    if not said:
        return ""
    binary = bool(said.get("binary"))
    dropped = {why: n for why, n in (said.get("dropped") or {}).items() if n}
    used, read = said.get("rows_used"), said.get("rows_read")
    rows = f"{number(used)} of {number(read)} used" if is_number(read) else number(used)
    low, high = said.get("low"), said.get("high")
    pairs = [
        ("Rows", rows),
        ("Dates", _dates(said)),
        ("Tasks", number(said.get("tasks"))),
        ("Arms", number(said.get("arms"))),
        ("Rewards seen", number(said["pulls"]) if is_number(said.get("pulls")) else ""),
        ("Pairs of task and arm seen", percent(said.get("observed_share"))),
        ("Mean reward", percent(said.get("reward_mean")) if binary else number(said.get("reward_mean"))),
        ("Kind of reward", "yes or no (0 or 1)" if binary else f"{number(low)} to {number(high)}"),
        ("Noise of one reward", "that of yes or no" if binary else f"± {number(said.get('noise_std'))}"),
    ]
    body = facts_list(pairs)
    if dropped:
        body += "<h3>Rows left out</h3>" + table(
            ["why", "rows"], [[text(why), number(n)] for why, n in dropped.items()]
        )
    rare = said.get("rare_arms") or []
    if rare:
        body += (
            f"<h3>Arms seen too seldom</h3><p>{count(len(rare), 'arm')} with too few rewards to say "
            f"much of: {names(rare)}. The fit is unsure of them, and will try them.</p>"
        )
    return section("What was in the log", body)


def _dates(said: Facts) -> str:
    first, last = said.get("first"), said.get("last")
    if not first or not last:
        return "none in the log"
    first, last = (str(day)[:10] for day in (first, last))
    return text(first) if first == last else f"{text(first)} to {text(last)}"


def winner(facts: Facts) -> str:
    """Which belief won, and by how much; who was left out and why."""
    judged = [row for row in facts.get("judged") or () if row.get("kind")]
    if not judged:
        return ""
    chosen = facts.get("chosen")
    raced = [row for row in judged if is_number((row.get("regret") or {}).get("100"))]
    unit = Unit.of(((row["regret"]["100"], _regret_error(row)) for row in raced))
    marks = []
    for row in raced:
        value, half = row["regret"]["100"], HALF_WIDTH * (_regret_error(row) or 0.0)
        look = "ours" if row["kind"] == chosen else "other"
        marks.append(Mark(_belief(row["kind"]), value, value - half, value + half, look))
    chart = interval_chart(
        {"": marks}, number_of_tick, described="Reward missed in 100 decisions by each belief"
    )
    cells = []
    for row in judged:
        regret = (row.get("regret") or {}).get("100")
        gap = "chosen" if row["kind"] == chosen else unit.interval(row.get("gap"), row.get("gap_se"))
        crps, log_score = (_plus_minus(row, key) for key in ("crps", "log_score"))
        cover = row.get("coverage") or {}
        cells.append(
            [
                text(_belief(row["kind"])),
                unit.interval(regret, _regret_error(row)),
                gap,
                crps,
                log_score,
                f"{percent(cover.get('0.5'))} / {percent(cover.get('0.9'))}",
                _duration(row.get("seconds")),
            ]
        )
    head = ["belief", "missed in 100", "more than the chosen", "CRPS", "log score",
            "50% / 90% hold", "took"]  # fmt: skip
    notes = "".join(
        f"<li>{text(_belief(row['kind']))}: {text(row['note'])}</li>"
        for row in judged
        if row.get("note")
    )
    why = f"<p>{text(facts['why'])}</p>" if facts.get("why") else ""
    ours = of_kind(facts, chosen).get("coverage") or {}
    hold = ""
    if is_number(ours.get("0.5")) and is_number(ours.get("0.9")):
        hold = (
            f"<p>Can its intervals be trusted? Of rewards that were hidden from it, "
            f"{percent(ours['0.5'])} fell into its 50% intervals and {percent(ours['0.9'])} into its "
            f"90% intervals.</p>"
        )
    return section(
        "Which belief won",
        f"{why}<p>A belief is what is thought of a new task before its first decision. Reward missed "
        f"against the best arm, summed over 100 decisions: smaller is better.</p>{chart}{hold}"
        + table(head, cells, marked=lambda i: judged[i]["kind"] == chosen)
        + (f'<ul class="notes">{notes}</ul>' if notes else "")
        + '<p class="small">CRPS: how far predictions of hidden rewards are off, smaller is better. '
        "Log score: how likely they made them, larger is better. ± there is one standard error; "
        "elsewhere, 95% intervals. “More than the chosen” is compared task by task.</p>",
    )


def number_of_tick(tick: float) -> str:
    """A tick that is a round number."""
    return number(tick, significant_ticks(tick))


def curve(facts: Facts) -> str:
    """Whether more past tasks would help."""
    points = [
        point
        for point in facts.get("learning_curve") or ()
        if is_number(point.get("tasks")) and is_number(point.get("regret"))
    ]
    if len(points) < 2:
        return ""
    marks = []
    for point in points:
        value, half = point["regret"], HALF_WIDTH * (point.get("regret_se") or 0.0)
        look = "ours" if point is points[-1] else "other"
        marks.append(Mark(count(point["tasks"], "task"), value, value - half, value + half, look))
    chart = interval_chart(
        {"": marks}, number_of_tick, described="Reward missed, by the number of past tasks"
    )
    return section(
        "Would more data help?",
        "<p>Reward missed in 100 decisions, had the log held only so many tasks. Where the dots stop "
        f"moving to the left, more tasks help no more.</p>{chart}",
    )


def judging(facts: Facts) -> str:
    """How the beliefs were judged."""
    said = []
    if is_number(facts.get("race_tasks")):
        said.append(
            f"Some tasks were kept apart: nothing was learned from them. On "
            f"{count(facts['race_tasks'], 'such task')} every belief was played from the first "
            f"decision on, with the same luck for all."
        )
    if facts.get("completed"):
        said.append(str(facts["completed"]))
    if facts.get("rule") not in (None, "default"):
        said.append(f"Decisions were made by the rule {facts['rule']}.")
    said.append(
        "So the race is a simulation made from your data, not an experiment with your users. Begin "
        "with a part of them, and compare."
    )
    paragraphs = "".join(f"<p>{text(sentence)}</p>" for sentence in said)
    return section("How it was judged", paragraphs)


def _belief(kind: str) -> str:
    return BELIEFS.get(kind, kind)


def _regret_error(row: Facts) -> float | None:
    error = (row.get("regret_se") or {}).get("100")
    return error if is_number(error) else None


def _plus_minus(row: Facts, key: str) -> str:
    value, error = row.get(key), row.get(f"{key}_se")
    if not is_number(value):
        return number(value)
    unit = Unit.of([(value, error)])
    return f"{unit.plain(value)} ± {number(error, unit.decimals)}" if is_number(error) else unit.plain(value)


def _duration(seconds: Any) -> str:
    if not is_number(seconds):
        return number(None)
    if seconds < 1:
        return "below 1 s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def small_print(facts: Facts) -> str:
    """The command and the versions, folded."""
    versions = facts.get("versions") or {}
    pairs = [(text(k), name(v, 80)) for k, v in versions.items()]
    took = facts.get("seconds")
    command = facts.get("command")
    inside = (f"<pre>{text(command)}</pre>" if command else "") + facts_list(
        [*pairs, ("whole fit", _duration(took) if is_number(took) else "")]
    )
    return f"<details><summary>Command and versions</summary>{inside}</details>"
