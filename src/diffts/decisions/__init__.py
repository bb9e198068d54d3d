"""Decisions, one after the other: an arm for a task now, its reward whenever it comes.

>>> from diffts.decisions import Decisions  # doctest: +SKIP
>>> decisions = Decisions("fitted")  # doctest: +SKIP
>>> choice = decisions.choose("user-17", among=["red", "blue"])  # doctest: +SKIP
>>> decisions.reward(choice.decision_id, 1.0)  # doctest: +SKIP

Stores do without JAX: a program that only tells rewards starts in a fraction of the time. So
:class:`Decisions` is loaded when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from diffts.decisions.sqlite import FILE, SQLiteStore
from diffts.decisions.store import DecisionStore, Logged, Made, Totals

if TYPE_CHECKING:
    from diffts.decisions.decisions import Choice as Choice
    from diffts.decisions.decisions import Decisions as Decisions

__all__ = [
    "FILE",
    "Choice",
    "DecisionStore",
    "Decisions",
    "Logged",
    "Made",
    "SQLiteStore",
    "Totals",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in ("Choice", "Decisions"):
            return getattr(import_module("diffts.decisions.decisions"), name)
        raise AttributeError(f"module 'diffts.decisions' has no attribute {name!r}")
