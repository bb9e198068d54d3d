"""Who enters the race, and on how many tasks: what fits into the time that is left."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from diffts.fitting.budget import Budget

#: Tasks of a race: never more; and where time is short, not fewer.
MOST_RACED, LEAST_RACED = 100, 10
#: A race may always take so many seconds: of cheap beliefs that is enough.
FREE_SECONDS = 30.0
#: A belief that predicts worse than others does not race if it would take this share of the time.
MOST_OF_IT = 0.5


class Entries(NamedTuple):
    """A race that fits.

    Attributes:
        tasks: how many are raced, by every belief.
        kinds: the beliefs that race.
        too_slow: why the others do not, by kind.
        note: what was cut short, in words; None if nothing was.
    """

    tasks: int
    kinds: tuple[str, ...]
    too_slow: dict[str, str]
    note: str | None


def enter(
    costs: Mapping[str, float],
    available: int,
    budget: Budget,
    *,
    kept_back: float = 0.0,
    plausible: Collection[str] | None = None,
) -> Entries:
    """As many tasks as all beliefs can play in time; all play the same ones.

    A slow belief that predicts worse than others would leave too few tasks to tell those apart: it
    is left out.

    Args:
        costs: seconds that one task takes, by kind.
        available: tasks that could be raced.
        budget: the time.
        kept_back: seconds of it that are needed after the race.
        plausible: kinds that predict as well as any; all by default.
    """
    most, racing = min(available, MOST_RACED), dict(costs)
    least, too_slow = min(most, LEAST_RACED), dict[str, str]()
    while len(racing) > 1 and least * sum(racing.values()) > max(
        budget.most_left - kept_back, FREE_SECONDS
    ):
        slowest = max(racing, key=lambda kind: racing[kind])
        seconds = least * racing.pop(slowest)
        too_slow[slowest] = (
            f"a race of {least} tasks would take it {seconds / 60:.1f} minutes, "
            "more than there were left"
        )
    seconds = max(budget.left - kept_back, FREE_SECONDS)

    def in_time() -> int:
        all_of_them = sum(racing.values())
        return most if all_of_them <= 0 else max(least, min(most, int(seconds / all_of_them)))

    tasks = in_time()
    while tasks < most and plausible is not None and len(racing) > 1:
        slowest = max(racing, key=lambda kind: racing[kind])
        if slowest in plausible or racing[slowest] < MOST_OF_IT * sum(racing.values()):
            break
        del racing[slowest]
        too_slow[slowest] = "it predicts worse, and would have taken most of the race's time"
        tasks = in_time()
    note = None
    if tasks < most:
        note = f"{tasks} tasks instead of {most} were raced: more would have taken too long"
    return Entries(tasks, tuple(racing), too_slow, note)
