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


class Surprise(NamedTuple):
    """How far a task is from what the belief expects.

    Attributes:
        value: the mean of ``(z^a)²`` over the arms that were pulled: about 1 where the belief is
            right, more where it is wrong or too sure, less where it is too unsure. 0 if nothing
            was pulled: then ``by_arm`` is empty.
        by_arm: ``z^a`` of each of these arms: how many standard deviations its mean reward lies
            above (below, if negative) what the pulls of all other arms made expect.
    """

    value: float
    by_arm: dict[Any, float]
