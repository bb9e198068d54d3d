"""What was in the log, and the small print: the command and the versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diffts.fitting.report_words import (
    count,
    duration,
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


def log(facts: Facts) -> str:
    """What was in the log, what was left out and why."""
    said = facts.get("log") or {}
    if not said:
        return ""
    read, used = said.get("rows_read"), said.get("rows_used")
    binary = bool(said.get("binary"))
    mean, noise = said.get("reward_mean"), said.get("noise_std")
    spread = f"{number(said.get('low'))} to {number(said.get('high'))}"
    body = facts_list(
        [
            ("Rows", f"{number(used)} of {number(read)} used" if is_number(read) else number(used)),
            ("Dates", _dates(said)),
            ("Tasks", number(said.get("tasks"))),
            ("Arms", number(said.get("arms"))),
            ("Rewards seen", number(said.get("pulls"))),
            ("Pairs of task and arm seen", percent(said.get("observed_share"))),
            ("Mean reward", percent(mean) if binary else number(mean)),
            ("Rewards", "yes or no (1 or 0)" if binary else spread),
            ("Noise of one reward", "that of yes or no" if binary else f"± {number(noise)}"),
        ]
    )
    dropped = {str(why): n for why, n in (said.get("dropped") or {}).items() if n}
    if dropped:
        rows = [[text(why), number(n)] for why, n in dropped.items()]
        body += f"<h3>Rows left out</h3>{table(['why', 'rows'], rows)}"
    rare = said.get("rare_arms") or []
    if rare:
        body += (
            f"<h3>Arms seen too seldom</h3><p>{count(len(rare), 'arm')} with too few rewards to "
            f"say much of: {names(rare)}. The fit is unsure of them, and will try them.</p>"
        )
    return section("What was in the log", body)


def _dates(said: Facts) -> str:
    first, last = said.get("first"), said.get("last")
    if not first or not last:
        return "none in the log"
    days = [f'<span class="whole">{text(str(day)[:10])}</span>' for day in (first, last)]
    return days[0] if days[0] == days[1] else " to ".join(days)


def small_print(facts: Facts) -> str:
    """The command and the versions, folded."""
    command, took = facts.get("command"), facts.get("seconds")
    pairs = [(text(what), name(which, 80)) for what, which in (facts.get("versions") or {}).items()]
    if is_number(took):
        pairs.append(("the whole fit took", duration(took)))
    spent = facts.get("time") or {}
    if is_number(spent.get("planned")):
        pairs.append(("time planned", duration(spent["planned"])))
    pairs += [(text(part), duration(took)) for part, took in (spent.get("parts") or {}).items()]
    shown = f"<pre>{text(command)}</pre>" if command else ""
    return (
        f"<details><summary>Command and versions</summary>{shown}{facts_list(pairs)}</details>"
        if shown or pairs
        else ""
    )
