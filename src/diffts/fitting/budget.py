"""The time of a fit: what was planned, what is left, and what each part took."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from diffts.validation import number_between

#: Nothing is begun that would end later than this: so many times the plan, and so many seconds.
MOST_TIMES, MOST_MORE = 1.3, 60.0
MOST_MINUTES = 1e6


class Budget:
    """Time that is running since it was made.

    ``clock`` gives the time in seconds; it is looked at where something begins or ends.

    >>> now = [0.0]
    >>> budget = Budget(1, clock=lambda: now[0])
    >>> with budget.part("reading"):
    ...     now[0] += 20
    >>> budget.left, budget.most_left, budget.parts
    (40.0, 118.0, {'reading': 20.0})
    """

    def __init__(self, minutes: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self.planned = 60 * number_between("minutes", minutes, 0.0, MOST_MINUTES)
        self.clock, self.parts = clock, dict[str, float]()
        self._started, self._lock = clock(), threading.Lock()

    @property
    def used(self) -> float:
        """Seconds since the start."""
        return self.clock() - self._started

    @property
    def left(self) -> float:
        """Seconds of the plan that are left; below 0 when it is overrun."""
        return self.planned - self.used

    @property
    def most_left(self) -> float:
        """Seconds until the end that must not be passed."""
        return MOST_TIMES * self.planned + MOST_MORE - self.used

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time of a part, added to what it had before; parts of several threads overlap."""
        before = self.clock()
        try:
            yield
        finally:
            with self._lock:
                self.parts[name] = self.parts.get(name, 0.0) + self.clock() - before

    def facts(self) -> dict[str, Any]:
        """Seconds: planned, used, and of each part (plain JSON)."""
        return {"planned": self.planned, "used": self.used, "parts": dict(self.parts)}
