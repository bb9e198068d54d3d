"""Rules, one file each: what to play, given a belief; looked up by name here.

Every rule takes every belief. :data:`RULES` has their names; :func:`make_rule` makes one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from diffts.bandits.rules.bayes_ucb import BayesUCBRule
from diffts.bandits.rules.epsilon_greedy import EpsilonGreedyRule, UniformRule
from diffts.bandits.rules.greedy import FewDrawsRule, GreedyRule
from diffts.bandits.rules.information_directed import InformationDirectedRule
from diffts.bandits.rules.knowledge_gradient import KnowledgeGradientRule
from diffts.bandits.rules.rule import Rule
from diffts.bandits.rules.satisficing import SatisficingRule
from diffts.bandits.rules.thompson import ThompsonRule
from diffts.bandits.rules.top_two import TopTwoRule
from diffts.bandits.rules.ts_ucb import TSUCBRule
from diffts.bandits.rules.ucb import UCBRule
from diffts.errors import InvalidInputError
from diffts.validation import one_of

#: Makers of rules by name. One that has an argument ``horizon`` is told the rounds, if known.
#: 'default' is for people who do not want to choose: see docs/which-rule.md.
RULES: dict[str, Callable[..., Rule]] = {
    "default": BayesUCBRule,
    "thompson": ThompsonRule,
    "thompson-ties": lambda: ThompsonRule(near_ties=True),
    "satisficing": SatisficingRule,
    "information-directed": InformationDirectedRule,
    "knowledge-gradient": KnowledgeGradientRule,
    "bayes-ucb": BayesUCBRule,
    "ts-ucb": TSUCBRule,
    "top-two": TopTwoRule,
    "few-draws": FewDrawsRule,
    "greedy": GreedyRule,
    "epsilon-greedy": EpsilonGreedyRule,
    "ucb": UCBRule,
    "uniform": UniformRule,
}


def make_rule(rule: str | Rule, horizon: int | None = None) -> Rule:
    """A rule by its name, told the rounds of the task if it can use them; or the rule itself.

    >>> make_rule("knowledge-gradient", horizon=300).horizon.item()
    300.0
    """
    if isinstance(rule, Rule):
        return rule
    if not isinstance(rule, str):
        raise InvalidInputError(f"rule: expected a name or a rule, got {type(rule).__name__}")
    maker = RULES[one_of("rule", rule, RULES)]
    told = "horizon" in inspect.signature(maker).parameters
    return maker(horizon=horizon) if told else maker()


__all__ = [
    "RULES",
    "BayesUCBRule",
    "EpsilonGreedyRule",
    "FewDrawsRule",
    "GreedyRule",
    "InformationDirectedRule",
    "KnowledgeGradientRule",
    "Rule",
    "SatisficingRule",
    "TSUCBRule",
    "ThompsonRule",
    "TopTwoRule",
    "UCBRule",
    "UniformRule",
    "make_rule",
]
