"""Which belief won and by how much, whether more data would help, and how it was judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from diffts.figures.fit_report import Mark, interval_chart
from diffts.fitting.report_words import (
    HALF_WIDTH,
    Unit,
    count,
    duration,
    is_number,
    number,
    percent,
    section,
    table,
    text,
)

Facts = Mapping[str, Any]

#: The kinds of belief: a short name, and what it says in plain words.
BELIEFS = {
    "independent": ("Each arm alone", "arms tell nothing of one another"),
    "gaussian": ("Gaussian", "arms vary together, in the same way in all tasks"),
    "mixture": ("Mixture", "there are several types of task"),
    "diffusion": ("Diffusion", "patterns of any shape, learned by a neural network"),
}


def decisions_of(facts: Facts) -> str:
    """Length of the race as the facts name it; reports of before there was a choice had 100."""
    return str(facts.get("decisions") or 100)


def winner(facts: Facts) -> str:
    """Which belief won, and by how much; who was left out and why."""
    judged = [row for row in facts.get("judged") or () if row.get("kind")]
    if not judged:
        return ""
    kinds, chosen = [row["kind"] for row in judged], facts.get("chosen")
    marked = kinds.index(chosen) if chosen in kinds else None
    why = f"<p>{text(facts['why'])}</p>" if facts.get("why") else ""
    notes = "".join(
        f"<li>{_belief(row)}: {text(row['note'])}</li>" for row in judged if row.get("note")
    )
    meanings = " ".join(
        f"{_belief(row)}: {BELIEFS[row['kind']][1]}." for row in judged if row["kind"] in BELIEFS
    )
    return section(
        "Which belief won",
        f"{why}<p>A belief is what is thought of a new task before its first decision. Each was "
        "played on the same tasks; counted is the reward that it missed against the best arm, "
        f"summed over {text(decisions_of(facts))} decisions: smaller is better.</p>"
        f"{_missed(judged, marked, decisions_of(facts))}"
        f"{f'<ul class=notes>{notes}</ul>' if notes else ''}"
        f'<p class="small">{meanings} “More than the winner” is compared task by task; ± is a 95% '
        f"interval.</p>{_predictions(judged, marked)}",
    )


def _missed(judged: Sequence[Facts], marked: int | None, decisions: str) -> str:
    """Regret after all decisions, as chart and table."""
    regrets = [_regret(row, decisions) for row in judged]
    unit = Unit.of(regrets)
    marks = [
        Mark.of(_name(row), regret, (error or 0.0) * HALF_WIDTH, "ours" if i == marked else "other")
        for i, (row, (regret, error)) in enumerate(zip(judged, regrets, strict=True))
        if is_number(regret)
    ]
    rows = [
        [
            _belief(row),
            unit.interval(*regret),
            "winner" if i == marked else unit.interval(row.get("gap"), row.get("gap_se")),
            duration(None if row.get("note") else row.get("seconds")),
        ]
        for i, (row, regret) in enumerate(zip(judged, regrets, strict=True))
    ]
    chart = interval_chart({"": marks}, unit.tick, described="missed reward, as in the table below")
    return chart + table(
        ["belief", "missed", "more than the winner", "fitted in"], rows, marked=marked
    )


def _predictions(judged: Sequence[Facts], marked: int | None) -> str:
    """Scores of predicted rewards, and how often intervals hold."""
    rows = []
    for row in judged:
        held = row.get("coverage") or {}
        scores = (_with_error(row, "crps"), _with_error(row, "log_score"))
        rows.append([_belief(row), *scores, percent(held.get("0.5")), percent(held.get("0.9"))])
    ours = judged[marked].get("coverage") or {} if marked is not None else {}
    trust = ""
    if is_number(ours.get("0.5")) and is_number(ours.get("0.9")):
        trust = (
            f"<p>Can its intervals be trusted? Of rewards that were hidden from it, "
            f"{percent(ours['0.5'])} fell into its 50% intervals and {percent(ours['0.9'])} "
            "into its 90% intervals.</p>"
        )
    return (
        f"<h3>Predictions of hidden rewards</h3>{trust}"
        + table(["belief", "CRPS", "log score", "in 50%", "in 90%"], rows, marked=marked)
        + '<p class="small">CRPS: how far predictions are off, smaller is better. Log score: how '
        "likely they made what came, larger is better. ± is one standard error.</p>"
    )


def curve(facts: Facts) -> str:
    """Whether more past tasks would help."""
    points = [
        point
        for point in facts.get("learning_curve") or ()
        if is_number(point.get("tasks")) and is_number(point.get("regret"))
    ]
    if len(points) < 2:
        return ""
    most = max(point["tasks"] for point in points)
    marks = [
        Mark.of(
            count(point["tasks"], "task"),
            point["regret"],
            HALF_WIDTH * (point.get("regret_se") or 0.0),
            "ours" if point["tasks"] == most else "other",
        )
        for point in sorted(points, key=lambda point: point["tasks"])
    ]
    unit = Unit.of((point["regret"], point.get("regret_se")) for point in points)
    chart = interval_chart(
        {"": marks}, unit.tick, described="missed reward by number of past tasks"
    )
    return section(
        "Would more data help?",
        f"<p>Reward missed in {text(decisions_of(facts))} decisions, had the log held only so many "
        "tasks. Where the dots no "
        f"longer move to the left, more tasks help no more.</p>{chart}",
    )


def judging(facts: Facts) -> str:
    """How the beliefs were judged."""
    said = []
    if is_number(facts.get("race_tasks")):
        said.append(
            "Some tasks were kept apart: nothing was learned from them. On "
            f"{count(facts['race_tasks'], 'such task')} every belief was played from the first "
            f"decision on, for {decisions_of(facts)} decisions, with the same luck for all."
        )
    if facts.get("race_note"):
        said.append(f"{facts['race_note']}.")
    if facts.get("completed"):
        said.append(str(facts["completed"]))
    if facts.get("rule") not in (None, "default"):
        said.append(f"Decisions were made by the rule {facts['rule']}.")
    said.append(
        "So the race is a simulation made from your data, not an experiment with your users. "
        "Begin with some of them, and compare."
    )
    return section("How it was judged", "".join(f"<p>{text(sentence)}</p>" for sentence in said))


def _name(row: Facts) -> str:
    kind = str(row["kind"])
    return BELIEFS[kind][0] if kind in BELIEFS else kind


def _belief(row: Facts) -> str:
    return text(_name(row))


def _regret(row: Facts, decisions: str) -> tuple[Any, Any]:
    """Regret after so many decisions and its standard error, None where unknown."""
    value, error = ((row.get(key) or {}).get(decisions) for key in ("regret", "regret_se"))
    return value, error if is_number(error) else None


def _with_error(row: Facts, key: str) -> str:
    value, error = row.get(key), row.get(f"{key}_se")
    unit = Unit.of([(value, error)])
    if not is_number(value) or not is_number(error):
        return unit.plain(value)
    return f'{unit.plain(value)} <span class="error">± {number(error, unit.decimals)}</span>'
