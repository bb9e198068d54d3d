"""Bandits: beliefs and rules, the simulator, and the agent for people.

A :class:`Policy` is a :class:`Belief` and a :class:`Rule`. Those with names of their own
(``DiffTS``, ``UCB1``, …) are in :mod:`diffts.bandits.policies`.
"""

from diffts.bandits.actions import Actions, BestArm, BestOffered, ShortestPath, TopK
from diffts.bandits.agent import Agent, ThompsonSampling
from diffts.bandits.beliefs import (
    Belief,
    DiffusionBelief,
    EmpiricalBelief,
    HistoryBelief,
    IndependentBelief,
    MixtureBelief,
)
from diffts.bandits.history import History
from diffts.bandits.policies import POLICIES, Ingredients, check_policy, make_policy
from diffts.bandits.policy import Policy
from diffts.bandits.rewards import GaussianRewards, RewardModel
from diffts.bandits.rules import (
    BayesUCBRule,
    EpsilonGreedyRule,
    GreedyRule,
    Rule,
    ThompsonRule,
    TopTwoRule,
    UCBRule,
    UniformRule,
)
from diffts.bandits.simulate import Simulation, simulate, simulate_side_by_side

__all__ = [
    "POLICIES",
    "Actions",
    "Agent",
    "BayesUCBRule",
    "Belief",
    "BestArm",
    "BestOffered",
    "DiffusionBelief",
    "EmpiricalBelief",
    "EpsilonGreedyRule",
    "GaussianRewards",
    "GreedyRule",
    "History",
    "HistoryBelief",
    "IndependentBelief",
    "Ingredients",
    "MixtureBelief",
    "Policy",
    "RewardModel",
    "Rule",
    "ShortestPath",
    "Simulation",
    "ThompsonRule",
    "ThompsonSampling",
    "TopK",
    "TopTwoRule",
    "UCBRule",
    "UniformRule",
    "check_policy",
    "make_policy",
    "simulate",
    "simulate_side_by_side",
]
