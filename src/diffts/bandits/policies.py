"""The policies that people know by name, each a belief and a rule; looked up by name here.

``DiffTS(prior, noise)`` and its like return a :class:`~diffts.bandits.policy.Policy`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from diffts.bandits.actions import Actions
from diffts.bandits.beliefs import (
    DiffusionBelief,
    EmpiricalBelief,
    IndependentBelief,
    MixtureBelief,
)
from diffts.bandits.noise import NoiseLike, as_noise
from diffts.bandits.policy import Policy
from diffts.bandits.rules import (
    RULES,
    BayesUCBRule,
    EpsilonGreedyRule,
    GreedyRule,
    Rule,
    ThompsonRule,
    TopTwoRule,
    UCBRule,
    UniformRule,
)
from diffts.diffusion.exact import Gaussian, GaussianMixture
from diffts.diffusion.prior import DiffusionPrior
from diffts.errors import InvalidInputError
from diffts.validation import one_of


def DiffTS(prior: DiffusionPrior, noise: NoiseLike, **how: Any) -> Policy:
    """Thompson sampling with a diffusion prior (the paper's Algorithm DiffTS).

    ``steps``, ``sampler`` and ``variance`` say how to draw, as in
    ``DiffusionPrior.posterior_sample``; ``single_arm`` is False where an action is a set of arms.
    """
    return Policy(DiffusionBelief(prior, noise, **how), ThompsonRule())


def MixtureTS(
    prior: Gaussian | GaussianMixture, noise: NoiseLike, *, single_arm: bool = True
) -> Policy:
    """GMMTS, and GTS-full with a Gaussian: Thompson sampling with the exact posterior."""
    return Policy(MixtureBelief(prior, noise, single_arm=single_arm), ThompsonRule())


def GaussianGreedy(
    prior: Gaussian | GaussianMixture, noise: NoiseLike, *, single_arm: bool = True
) -> Policy:
    """Greedy play on the exact posterior mean."""
    return Policy(MixtureBelief(prior, noise, single_arm=single_arm), GreedyRule())


def BayesUCB(
    prior: Gaussian | GaussianMixture, noise: NoiseLike, *, single_arm: bool = True
) -> Policy:
    """The ``1 - 1/t`` quantile of each arm's exact posterior."""
    belief = MixtureBelief(prior, noise, single_arm=single_arm)
    return Policy(belief, BayesUCBRule("standard"))


def DiagonalGTS(prior: Gaussian, noise: NoiseLike) -> Policy:
    """GTS-diag: Thompson sampling with independent Gaussian priors, one for each arm."""
    return Policy(IndependentBelief(prior, noise), ThompsonRule())


def UCB1(n_arms: int, noise: NoiseLike, index: Literal["paper", "standard"] = "paper") -> Policy:
    """Empirical means plus a bonus; each arm once first (see :class:`UCBRule`)."""
    return Policy(EmpiricalBelief(n_arms, noise), UCBRule(index))


def EpsilonGreedy(n_arms: int, epsilon: float = 0.1, optimistic: float = 1.0) -> Policy:
    """Greedy on the empirical means, random with probability ε.

    Arms that were never pulled count as ``optimistic``, so that each gets its turn.
    """
    return Policy(EmpiricalBelief(n_arms, unseen=optimistic), EpsilonGreedyRule(epsilon))


def Uniform(n_arms: int) -> Policy:
    """Uniform play."""
    return Policy(EmpiricalBelief(n_arms), UniformRule())


def TopTwo(base: Policy, beta: float = 0.5, redraws: int = 8) -> Policy:
    """Top-two Thompson sampling with the belief of another policy."""
    return Policy(base.belief, TopTwoRule(beta, redraws))


@dataclass(frozen=True)
class Ingredients:
    """What policies are made from; each is asked for only by the policies that need it.

    Attributes:
        actions: what may be played.
        noise: the assumed noise of a reward: a number, a word or a :class:`Noise`.
        prior: gives the diffusion prior.
        gaussian: gives the Gaussian fitted to the same data.
        mixture: gives the mixture of n components fitted to the same data.
        sampler, steps, variance: how DiffTS draws.
        diagonal: gives the Gaussian of independent arms, where that is a fit of its own.
        horizon: rounds of a task, for rules that can use it.
        floor: the least chance of every arm on offer.
    """

    actions: Actions
    noise: NoiseLike
    prior: Callable[[], DiffusionPrior]
    gaussian: Callable[[], Gaussian]
    mixture: Callable[[int], GaussianMixture]
    sampler: str | None = None
    steps: int | None = None
    variance: str = "calibrated"
    diagonal: Callable[[], Gaussian] | None = None
    horizon: int | None = None
    floor: float | None = None

    def __post_init__(self) -> None:
        as_noise(self.noise)

    def diffusion(self, rule: Rule) -> Policy:
        """A rule on the diffusion prior."""
        belief = DiffusionBelief(
            self.prior(),
            self.noise,
            sampler=self.sampler,
            steps=self.steps,
            variance=self.variance,
            single_arm=self.actions.single_arm,
        )
        return Policy(belief, rule)

    def exact(self, rule: Rule, components: int | None = None) -> Policy:
        """A rule on the exact posterior of the Gaussian, or of a mixture."""
        prior = self.gaussian() if components is None else self.mixture(components)
        single_arm = self.actions.single_arm
        return Policy(MixtureBelief(prior, self.noise, single_arm=single_arm), rule)


POLICIES: dict[str, Callable[[Ingredients], Policy]] = {
    "diffts": lambda given: given.diffusion(ThompsonRule()),
    "diffts-top-two": lambda given: given.diffusion(TopTwoRule()),
    "ucb1": lambda given: UCB1(given.actions.n_arms, given.noise),
    "ucb1-standard": lambda given: UCB1(given.actions.n_arms, given.noise, "standard"),
    "gts-diag": lambda given: DiagonalGTS((given.diagonal or given.gaussian)(), given.noise),
    "gts-full": lambda given: given.exact(ThompsonRule()),
    "gts-top-two": lambda given: given.exact(TopTwoRule()),
    "gaussian-greedy": lambda given: given.exact(GreedyRule()),
    "bayes-ucb": lambda given: given.exact(BayesUCBRule("standard")),
    "epsilon-greedy": lambda given: EpsilonGreedy(given.actions.n_arms),
    "uniform": lambda given: Uniform(given.actions.n_arms),
}
_MIXTURE = re.compile(r"gmmts-(\d{1,4})")


def split_name(name: str) -> tuple[str, str | None]:
    """The policy and, where a name has one, the rule to play its belief by.

    >>> split_name("gts-full:knowledge-gradient"), split_name("diffts")
    (('gts-full', 'knowledge-gradient'), ('diffts', None))
    """
    policy, colon, rule = name.partition(":")
    return policy, rule if colon else None


def with_rules(names: Sequence[str], rules: Sequence[str]) -> list[str]:
    """Each policy that plays Thompson sampling, once by each of some rules; the others as they are.

    >>> with_rules(["diffts", "ucb1"], ["thompson", "greedy"])
    ['diffts:thompson', 'diffts:greedy', 'ucb1']
    """
    return [
        expanded
        for name in names
        for expanded in (
            [f"{name}:{rule}" for rule in rules] if rules and _plays_thompson(name) else [name]
        )
    ]


def _plays_thompson(name: str) -> bool:
    return name in ("diffts", "gts-diag", "gts-full") or _MIXTURE.fullmatch(name) is not None


def check_policy(name: str) -> str:
    """The name itself if there is such a policy, and such a rule; else a clear error."""
    policy, rule = split_name(name)
    matched = _MIXTURE.fullmatch(policy)
    if not (policy in POLICIES or (matched and int(matched[1]) > 0)):
        known = ", ".join([*sorted(POLICIES), "gmmts-N"])
        raise InvalidInputError(f"policies: unknown {policy!r}; choose from {known}")
    if rule is not None:
        one_of("rule", rule, RULES)
    return name


def make_policy(name: str, given: Ingredients) -> Policy:
    """The policy of that name: one of ``POLICIES``, or ``gmmts-N`` with N components.

    ``name:rule`` plays its belief by another rule, one of ``RULES``.
    """
    policy, rule = split_name(check_policy(name))
    if matched := _MIXTURE.fullmatch(policy):
        made = given.exact(ThompsonRule(), int(matched[1]))
    else:
        made = POLICIES[policy](given)
    return made.playing(rule or made.rule, horizon=given.horizon, floor=given.floor)


__all__ = [
    "POLICIES",
    "UCB1",
    "BayesUCB",
    "DiagonalGTS",
    "DiffTS",
    "EpsilonGreedy",
    "GaussianGreedy",
    "Ingredients",
    "MixtureTS",
    "Policy",
    "TopTwo",
    "Uniform",
    "check_policy",
    "make_policy",
    "split_name",
    "with_rules",
]
