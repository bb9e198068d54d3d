"""What a log tells beside its rewards: kept with whatever is learned from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Facts:
    """Plain facts of a log.

    Attributes:
        source: where it was read from (no passwords).
        rows_read: rows in the table.
        rows_used: rows that were counted.
        dropped: rows left out, by reason.
        duplicates: rows that repeat another in every column; None where no time is known, since
            equal rows are then ordinary repeated pulls. They are counted like all others.
        first_time: of the rows used, ISO 8601 in UTC; None if the table has no time.
        last_time: likewise.
        zone_assumed: whether some times had no zone, and were taken as UTC.
        least_reward: the smallest reward (of a row).
        largest_reward: the largest.
        binary: whether all rewards are 0 or 1.
        rare_arms: arms left out, and how often each was pulled.
        seldom_arms: arms kept, but pulled less than ten times or in one task only.
        one_arm_tasks: how many tasks have a single arm: they say nothing of arms side by side.
        least_propensity: the smallest chance that a chosen arm had; None if unknown.
    """

    source: str = "arrays"
    rows_read: int = 0
    rows_used: int = 0
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    duplicates: int | None = None
    first_time: str | None = None
    last_time: str | None = None
    zone_assumed: bool = False
    least_reward: float | None = None
    largest_reward: float | None = None
    binary: bool = False
    rare_arms: Mapping[str, float] = dataclasses.field(default_factory=dict)
    seldom_arms: tuple[str, ...] = ()
    one_arm_tasks: int = 0
    least_propensity: float | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        content = dataclasses.asdict(self)
        return {**content, "seldom_arms": list(self.seldom_arms)}

    def sentences(self) -> list[str]:
        """What somebody should know of it, in words; nothing where all is well."""
        found = [f"{n} of {self.rows_read} rows left out: {why}" for why, n in self.dropped.items()]
        if self.duplicates:
            found.append(f"{self.duplicates} rows repeat another in every column; they are counted")
        if self.zone_assumed:
            found.append("times without a zone were taken as UTC")
        if self.rare_arms:
            found.append(f"{_so_many(len(self.rare_arms), 'arm')} left out as too rare")
        if self.seldom_arms:
            seldom = _so_many(len(self.seldom_arms), "arm")
            found.append(f"{seldom} seen too seldom to learn much from")
        if self.one_arm_tasks:
            found.append(f"{_so_many(self.one_arm_tasks, 'task')} with a single arm")
        return found


def _so_many(n: int, one: str) -> str:
    return f"{n} {one}" if n == 1 else f"{n} {one}s"
