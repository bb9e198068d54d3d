"""The report of a fit: ``report.html`` for people, ``report.json`` for programs."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from diffts.errors import InvalidInputError
from diffts.files import write_file
from diffts.fitting.fitted import Fitted
from diffts.fitting.report_learned import learned
from diffts.fitting.report_log import log, small_print
from diffts.fitting.report_page import page
from diffts.fitting.report_race import curve, judging, winner
from diffts.fitting.report_verdict import expected, verdict
from diffts.fitting.report_words import count, text

_WORDS = (
    "<details><summary>The words</summary><p><strong>Task</strong>: one user, campaign or route: "
    "something for which you decide again and again. <strong>Arm</strong>: one of the things to "
    "choose from. <strong>Reward</strong>: what a decision brought. <strong>Belief</strong>: what "
    "is thought of the rewards of a new task before its first decision, and how sure; every reward "
    "updates it. <strong>Missed reward</strong> (regret): how much less the decisions brought than "
    "the task’s best arm would have. <strong>UCB</strong>: a usual method that starts each task "
    "without past data.</p></details>"
)


def write_report(fitted: Fitted, folder: str | os.PathLike[str], *, past: ArrayLike) -> None:
    """Write ``report.json`` (the facts) and ``report.html`` (self-contained) into a folder.

    Args:
        fitted: what the log has taught; its ``facts`` are what is reported.
        folder: where to write; made if it is not there.
        past: mean rewards of the log, ``(N, K)``, NaN where a task never saw an arm.
    """
    tasks = np.asarray(past, np.float64)
    if tasks.ndim != 2 or tasks.shape[1] != len(fitted.arms):
        raise InvalidInputError(
            f"past: expected an array of tasks × {len(fitted.arms)} arms, got shape {tasks.shape}"
        )
    facts = plain(fitted.facts)
    html = report_html(fitted, facts, tasks)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    written = json.dumps(facts, indent=1, allow_nan=False)
    write_file(place / "report.json", f"{written}\n".encode())
    write_file(place / "report.html", html.encode("utf-8", "replace"))


def report_html(fitted: Fitted, facts: Mapping[str, Any], past: np.ndarray[Any, Any]) -> str:
    """The page; ``facts`` are plain (:func:`plain`)."""
    counts = facts.get("log") or {}
    found = " and ".join(
        count(counts[key], word)
        for key, word in (("tasks", "task"), ("arms", "arm"))
        if counts.get(key)
    )
    advice = text((facts.get("verdict") or {}).get("advice") or "report")
    head = (
        "<header><h1>What your log says about the next decision</h1>"
        f"<p>{f'Learned from {found}. ' if found else ''}A task is one user, campaign or route; "
        "an arm is one of the things to choose from.</p></header>"
    )
    body = [
        head,
        verdict(facts),
        expected(facts),
        log(facts),
        learned(fitted, facts, past),
        winner(facts),
        curve(facts),
        judging(facts),
        _WORDS,
        small_print(facts),
    ]
    return page(f"diffts: {advice}", "\n".join(part for part in body if part))


def plain(value: Any) -> Any:
    """Facts as JSON can hold them: no NaN (null instead), no NumPy.

    >>> plain({"a": np.float32(0.5), 3: [float("nan"), np.int64(2)]})
    {'a': 0.5, '3': [None, 2]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
