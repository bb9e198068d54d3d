"""The paper's experiments, on top of the library: each by its name, and what the paper claims."""

from diffts.reproduction.claims import WHOSE, Verdict, judge_claims, tally
from diffts.reproduction.experiments import EXPERIMENTS, Experiment, reproduce
from diffts.reproduction.profile import PROFILES

__all__ = [
    "EXPERIMENTS",
    "PROFILES",
    "WHOSE",
    "Experiment",
    "Verdict",
    "judge_claims",
    "reproduce",
    "tally",
]
