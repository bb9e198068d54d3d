"""Problems, one file each, looked up by name here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable

from diffts.bandits.rewards import GaussianRewards, RewardModel
from diffts.problems.bidding import Bidding, WinLoseRewards
from diffts.problems.groups import Groups
from diffts.problems.imperfect import Corruption, ImperfectSets, corrupt
from diffts.problems.labeled_arms import LabeledArms, LabeledArmsCommon
from diffts.problems.maze import Maze
from diffts.problems.popular_niche import PopularNiche
from diffts.problems.problem import Problem, SuggestedNetwork, TaskSets
from diffts.validation import one_of

PROBLEMS: dict[str, Callable[[], Problem]] = {
    "popular-niche": PopularNiche,
    "labeled-arms": LabeledArms,
    "labeled-arms-common": LabeledArmsCommon,
    "maze": Maze,
    "bidding": Bidding,
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
    "Bidding",
    "Corruption",
    "GaussianRewards",
    "Groups",
    "ImperfectSets",
    "LabeledArms",
    "LabeledArmsCommon",
    "Maze",
    "PopularNiche",
    "Problem",
    "RewardModel",
    "SuggestedNetwork",
    "TaskSets",
    "WinLoseRewards",
    "corrupt",
    "get_problem",
]
