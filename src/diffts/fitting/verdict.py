"""The verdict: use it, use the simple one, collect more data (how much), or nothing to gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from diffts.fitting.report_words import HALF_WIDTH
from diffts.fitting.support import Doubt

#: A gain counts if it is so many standard errors.
SURE = 2.0
#: Ways to play that a gain is over, as the report calls them.
CALLED = {"as logged": "Today", "best arm for all": "One arm for all", "ucb1": "UCB"}
_LUCK = ": that may be luck."
#: Fewer past tasks tell nothing of how tasks differ.
LEAST_TASKS = 30
#: Regret that more past tasks may still save, as a share, without anybody asking for them.
CLOSE_ENOUGH = 0.05


class Gain(NamedTuple):
    """Reward a decision above another way to play, over the race, and its standard error.

    ``worth`` is the least gain that matters, however sure it is.

    >>> gain = Gain("as logged", 1.4e-6, 2.6e-9, worth=0.001)
    >>> gain.sure, gain.tiny
    (False, True)
    """

    over: str
    mean: float
    error: float
    worth: float = 0.0

    @property
    def sure(self) -> bool:
        """Whether it matters and is no luck."""
        return self.mean > max(SURE * self.error, self.worth)

    @property
    def tiny(self) -> bool:
        """Whether it is known well enough, and too little to matter, up or down."""
        return max(abs(self.mean), SURE * self.error) <= self.worth

    def __str__(self) -> str:
        said = f"{self.mean:+.3g} (± {HALF_WIDTH * self.error:.2g}) a decision against "
        ending = "." if self.sure else ": too little to matter." if self.tiny else _LUCK
        return f"{said}'{CALLED.get(self.over, self.over)}'{ending}"


def tasks_wanted(curve: Sequence[Mapping[str, float]]) -> int | None:
    """Past tasks after which more of them would save less than a twentieth of the regret.

    From ``R(N) = R + c/N`` through the ends of a learning curve; None where it does not fall.
    """
    first, last = curve[0], curve[-1]
    if first["tasks"] >= last["tasks"]:
        return None
    fall = first["regret"] - last["regret"]
    if fall <= np.hypot(first["regret_se"], last["regret_se"]):
        return None
    c = fall / (1 / first["tasks"] - 1 / last["tasks"])
    least = last["regret"] - c / last["tasks"]
    if least <= 0:
        return int(4 * last["tasks"])
    return int(np.ceil(c / (CLOSE_ENOUGH * least)))


def verdict(
    kind: str,
    n_tasks: int,
    gains: Sequence[Gain],
    curve: Sequence[Mapping[str, float]],
    decisions: int = 100,
    doubt: Doubt | None = None,
) -> dict[str, Any]:
    """Plain words, from what was measured in a race of so many decisions.

    A ``doubt`` goes before all gains: they were measured in a world that the log does not support.
    """
    wanted = tasks_wanted(curve) if curve else None
    reasons = [f"Over the first {decisions} decisions of a task it earns {gain}" for gain in gains]
    if wanted is not None and wanted > n_tasks:
        reasons.append(
            f"More past tasks would help: about {_round(wanted)} instead of {n_tasks:,}, judged by "
            "how regret fell with them so far."
        )
    if doubt is not None:
        more = _round(max(wanted or 0, doubt.times * n_tasks, 4 * LEAST_TASKS))
        return _collect(more, n_tasks, [doubt.reason, *reasons])
    if n_tasks >= LEAST_TASKS and (tiny := [gain for gain in gains if gain.tiny]):
        names = " and ".join(f"'{CALLED.get(gain.over, gain.over)}'" for gain in tiny)
        return {
            "advice": "nothing to gain",
            "headline": f"Nothing to gain: {names} {'does' if len(tiny) == 1 else 'do'} as well.",
            "reasons": reasons,
            "tasks_wanted": None,
        }
    if n_tasks < LEAST_TASKS or not gains or not all(gain.sure for gain in gains):
        more = _round(max(wanted or 0, 4 * n_tasks, 4 * LEAST_TASKS))
        return _collect(more, n_tasks, reasons)
    simple = kind in ("independent", "gaussian")
    return {
        "advice": "use the simple one" if simple else "use it",
        "headline": {
            "independent": "Use the simple one: each arm by itself. How arms go together did not "
            "help.",
            "gaussian": "Use the simple one: a Gaussian, which knows how arms go together.",
            "mixture": "Use it: tasks come in a few kinds, and a mixture knows them.",
            "diffusion": "Use it: the diffusion prior knows more of your tasks than a Gaussian.",
        }[kind],
        "reasons": reasons,
        "tasks_wanted": wanted if wanted is not None and wanted > n_tasks else None,
    }


def _collect(more: str, n_tasks: int, reasons: Sequence[str]) -> dict[str, Any]:
    return {
        "advice": "collect more data",
        "headline": f"Collect more data first: about {more} past tasks, you have {n_tasks:,}.",
        "reasons": list(reasons),
        "tasks_wanted": int(more.replace(",", "")),
    }


def _round(number: float) -> str:
    """Two digits are all that is known of it."""
    digits = 10 ** max(0, int(np.floor(np.log10(max(number, 1)))) - 1)
    return f"{int(np.ceil(number / digits) * digits):,}"
