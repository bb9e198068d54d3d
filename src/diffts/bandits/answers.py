"""What an agent answers: an arm, or the chances of all, and what that is worth."""

from __future__ import annotations

from typing import Any, NamedTuple


class Probabilities(NamedTuple):
    """The chance of each arm to be played, and how many choices that was counted in."""

    by_arm: dict[Any, float]
    draws: int


class Decision(NamedTuple):
    """What to play, and the chance with which it was chosen, for a log.

    Attributes:
        arm: the arm (for sets of arms: the list of them).
        chance: its share of ``draws`` choices made at once, of which it was the first. Given those
            choices, it was played with this very chance. Exactly 1 for a deterministic rule.
        draws: how many choices.
    """

    arm: Any
    chance: float
    draws: int


class BestArmAdvice(NamedTuple):
    """What to settle for.

    Attributes:
        arm: the arm with the highest expected reward (for sets of arms: the list of them).
        chance: the belief's own probability that it is a best one.
    """

    arm: Any
    chance: float
