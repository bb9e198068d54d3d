"""Beliefs, one file each: what is thought of a task's mean rewards after its pulls."""

from diffts.bandits.beliefs.belief import Belief, HistoryBelief, HistoryState, State
from diffts.bandits.beliefs.diffusion import DiffusionBelief
from diffts.bandits.beliefs.empirical import EmpiricalBelief
from diffts.bandits.beliefs.independent import IndependentBelief
from diffts.bandits.beliefs.mixture import MixtureBelief
from diffts.bandits.beliefs.new_arms import NewArmsBelief

__all__ = [
    "Belief",
    "DiffusionBelief",
    "EmpiricalBelief",
    "HistoryBelief",
    "HistoryState",
    "IndependentBelief",
    "MixtureBelief",
    "NewArmsBelief",
    "State",
]
