"""The verdict: use it, use the simple one, or collect more data, and how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from diffts.fitting.report_words import HALF_WIDTH

#: A gain counts if it is so many standard errors.
SURE = 2.0
#: Ways to play that a gain is over, as the report calls them.
CALLED = {"as logged": "Today", "best arm for all": "One arm for all", "ucb1": "UCB"}
#: Fewer past tasks tell nothing of how tasks differ.
LEAST_TASKS = 30
#: Regret that more past tasks may still save, as a share, without anybody asking for them.
CLOSE_ENOUGH = 0.05


class Gain(NamedTuple):
    """Reward a decision above another way to play, over the race, and its standard error."""

    over: str
    mean: float
    error: float

    @property
    def sure(self) -> bool:
        """Whether it is no luck."""
        return self.mean > SURE * self.error


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
) -> dict[str, Any]:
    """Plain words, from what was measured in a race of so many decisions."""
    wanted = tasks_wanted(curve) if curve else None
    surely, not_sure = [g for g in gains if g.sure], [g for g in gains if not g.sure]
    reasons = [
        f"Over the first {decisions} decisions of a task it earns {gain.mean:+.3g} "
        f"(± {HALF_WIDTH * gain.error:.2g}) a decision against "
        f"'{CALLED.get(gain.over, gain.over)}'" + ("." if gain.sure else ": that may be luck.")
        for gain in gains
    ]
    if wanted is not None and wanted > n_tasks:
        reasons.append(
            f"More past tasks would help: about {_round(wanted)} instead of {n_tasks:,}, judged by "
            "how regret fell with them so far."
        )
    if n_tasks < LEAST_TASKS or not surely or not_sure:
        more = _round(max(wanted or 0, 4 * n_tasks, 4 * LEAST_TASKS))
        return {
            "advice": "collect more data",
            "headline": f"Collect more data first: about {more} past tasks, you have {n_tasks:,}.",
            "reasons": reasons,
            "tasks_wanted": int(more.replace(",", "")),
        }
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


def _round(number: float) -> str:
    """Two digits are all that is known of it."""
    digits = 10 ** max(0, int(np.floor(np.log10(max(number, 1)))) - 1)
    return f"{int(np.ceil(number / digits) * digits):,}"
