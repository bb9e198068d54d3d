"""Rules, one file each: what to play, given a belief; every rule takes every belief."""

from diffts.bandits.rules.bayes_ucb import BayesUCBRule
from diffts.bandits.rules.epsilon_greedy import EpsilonGreedyRule, UniformRule
from diffts.bandits.rules.greedy import GreedyRule
from diffts.bandits.rules.rule import Rule
from diffts.bandits.rules.thompson import ThompsonRule
from diffts.bandits.rules.top_two import TopTwoRule
from diffts.bandits.rules.ucb import UCBRule

__all__ = [
    "BayesUCBRule",
    "EpsilonGreedyRule",
    "GreedyRule",
    "Rule",
    "ThompsonRule",
    "TopTwoRule",
    "UCBRule",
    "UniformRule",
]
