"""Bandits: beliefs and rules, the simulator, and the agent for people.

A :class:`Policy` is a :class:`Belief` and a :class:`Rule`; see :mod:`diffts.bandits.beliefs` and
:mod:`diffts.bandits.rules`. Those with names of their own (``DiffTS``, ``UCB1``, …) are in
:mod:`diffts.bandits.policies`.
"""

from diffts.bandits.actions import Actions, BestArm, TopK
from diffts.bandits.agent import Agent, ThompsonSampling
from diffts.bandits.beliefs import Belief, HistoryBelief
from diffts.bandits.history import History
from diffts.bandits.noise import Noise
from diffts.bandits.policies import POLICIES, Ingredients, check_policy, make_policy
from diffts.bandits.policy import Policy
from diffts.bandits.rewards import GaussianRewards, RewardModel
from diffts.bandits.rules import RULES, Rule, make_rule
from diffts.bandits.simulate import simulate, simulate_side_by_side
from diffts.bandits.simulation import Simulation

__all__ = [
    "POLICIES",
    "RULES",
    "Actions",
    "Agent",
    "Belief",
    "BestArm",
    "GaussianRewards",
    "History",
    "HistoryBelief",
    "Ingredients",
    "Noise",
    "Policy",
    "RewardModel",
    "Rule",
    "Simulation",
    "ThompsonSampling",
    "TopK",
    "check_policy",
    "make_policy",
    "make_rule",
    "simulate",
    "simulate_side_by_side",
]
