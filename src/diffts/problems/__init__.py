"""Problems, one file each, looked up by name here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable

from diffts.problems.groups import Groups
from diffts.problems.problem import (
    GaussianRewards,
    Problem,
    RewardModel,
    SuggestedNetwork,
    TaskSets,
)
from diffts.validation import one_of

PROBLEMS: dict[str, Callable[[], Problem]] = {
    "groups": Groups,
}


def get_problem(name: str) -> Problem:
    """The registered problem of that name, with its default settings.

    >>> get_problem("groups").n_arms
    200
    >>> get_problem("chess")
    Traceback (most recent call last):
    ...
    diffts.errors.InvalidInputError: problem: unknown 'chess'; choose from ...
    """
    return PROBLEMS[one_of("problem", name, PROBLEMS)]()


__all__ = [
    "PROBLEMS",
    "GaussianRewards",
    "Groups",
    "Problem",
    "RewardModel",
    "SuggestedNetwork",
    "TaskSets",
    "get_problem",
]
