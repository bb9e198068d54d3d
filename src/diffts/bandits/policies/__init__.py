"""Policies, looked up by name here and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from diffts.bandits.actions import Actions
from diffts.bandits.policies.diffts import DiffTS
from diffts.bandits.policies.gaussian import (
    BayesUCB,
    DiagonalGTS,
    GaussianGreedy,
    MixtureTS,
)
from diffts.bandits.policies.policy import History, Policy
from diffts.bandits.policies.simple import UCB1, EpsilonGreedy, Uniform
from diffts.bandits.policies.top_two import TopTwo
from diffts.diffusion.exact import Gaussian, GaussianMixture
from diffts.diffusion.prior import DiffusionPrior
from diffts.errors import InvalidInputError
from diffts.validation import positive_number


@dataclass(frozen=True)
class Ingredients:
    """What policies are made from; each is asked for only by the policies that need it.

    Attributes:
        actions: what may be played.
        noise_std: assumed noise level ``σ̂``.
        prior: gives the diffusion prior.
        gaussian: gives the Gaussian fitted to the same data.
        mixture: gives the mixture of n components fitted to the same data.
        sampler, steps, variance: how DiffTS draws.
        diagonal: gives the Gaussian of independent arms, where that is a fit of its own.
    """

    actions: Actions
    noise_std: float
    prior: Callable[[], DiffusionPrior]
    gaussian: Callable[[], Gaussian]
    mixture: Callable[[int], GaussianMixture]
    sampler: str = "paper"
    steps: int | None = None
    variance: str = "calibrated"
    diagonal: Callable[[], Gaussian] | None = None

    def __post_init__(self) -> None:
        positive_number("noise_std", self.noise_std)

    def diffts(self) -> Policy:
        """DiffTS with these settings."""
        return DiffTS(
            self.prior(),
            self.noise_std,
            sampler=self.sampler,
            steps=self.steps,
            variance=self.variance,
            single_arm=self.actions.single_arm,
        )

    def exact(self, kind: Any, components: int | None = None) -> Policy:
        """A policy of ``kind`` on the exact posterior of the Gaussian or of a mixture."""
        prior = self.gaussian() if components is None else self.mixture(components)
        policy: Policy = kind(prior, self.noise_std, single_arm=self.actions.single_arm)
        return policy


POLICIES: dict[str, Callable[[Ingredients], Policy]] = {
    "diffts": lambda given: given.diffts(),
    "diffts-top-two": lambda given: TopTwo(given.diffts()),
    "ucb1": lambda given: UCB1(given.actions.n_arms, given.noise_std),
    "ucb1-standard": lambda given: UCB1(given.actions.n_arms, given.noise_std, "standard"),
    "gts-diag": lambda given: DiagonalGTS((given.diagonal or given.gaussian)(), given.noise_std),
    "gts-full": lambda given: given.exact(MixtureTS),
    "gts-top-two": lambda given: TopTwo(given.exact(MixtureTS)),
    "gaussian-greedy": lambda given: given.exact(GaussianGreedy),
    "bayes-ucb": lambda given: given.exact(BayesUCB),
    "epsilon-greedy": lambda given: EpsilonGreedy(given.actions.n_arms),
    "uniform": lambda given: Uniform(given.actions.n_arms),
}
_MIXTURE = re.compile(r"gmmts-(\d{1,4})")


def check_policy(name: str) -> str:
    """The name itself if it is one of ``POLICIES`` or ``gmmts-N``; else a clear error."""
    matched = _MIXTURE.fullmatch(name)
    if name in POLICIES or (matched and int(matched[1]) > 0):
        return name
    known = ", ".join([*sorted(POLICIES), "gmmts-N"])
    raise InvalidInputError(f"policies: unknown {name!r}; choose from {known}")


def make_policy(name: str, given: Ingredients) -> Policy:
    """The policy of that name: one of ``POLICIES``, or ``gmmts-N`` with N components."""
    check_policy(name)
    if matched := _MIXTURE.fullmatch(name):
        return given.exact(MixtureTS, int(matched[1]))
    return POLICIES[name](given)


__all__ = [
    "POLICIES",
    "UCB1",
    "BayesUCB",
    "DiagonalGTS",
    "DiffTS",
    "EpsilonGreedy",
    "GaussianGreedy",
    "History",
    "Ingredients",
    "MixtureTS",
    "Policy",
    "TopTwo",
    "Uniform",
    "check_policy",
    "make_policy",
]
