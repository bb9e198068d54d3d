"""Bayes-UCB: optimism by the quantiles of a belief."""

from __future__ import annotations

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from diffts.bandits.actions import Actions
from diffts.bandits.beliefs.belief import Belief, State
from diffts.bandits.rules.rule import Rule
from diffts.optimism import slow_level
from diffts.seeding import KeyArray
from diffts.validation import number_between, one_of, whole_number

#: How the level of the quantile grows with the rounds t that were played.
LEVELS = ("slow", "standard")


@final
class BayesUCBRule(Rule):
    """The best action under a quantile of each arm (Kaufmann, Cappé and Garivier 2012).

    Where actions are sets of arms, an arm counts as the quantile of a normal law of its mean and
    standard deviation: that is what it adds to a sum.

    ``level='slow'``: 0.95 for the first 1000 rounds, then it grows (:mod:`diffts.optimism`; less
    at first where actions are sets of arms);
    ``level='standard'``: ``1 - 1/(t + 2)``, theirs, which looks around for longer;
    a number: that quantile in every round. One that never grows may hold on to a wrong arm.

    A quantile of draws errs by some 0.26 standard deviations (64 draws), another way for each arm
    and round: among many arms the highest looks better than it is. Fewer draws explore more.

    Attributes:
        growth: 'slow' or 'standard'.
        level: the number, if it is one.
        draws: what the quantile is taken of where there is no closed form.
    """

    growth: str = eqx.field(static=True)
    level: Float[Array, ""] | None
    draws: int = eqx.field(static=True)

    def __init__(self, level: float | str = "slow", draws: int = 64) -> None:
        word = isinstance(level, str)
        self.growth = one_of("level", level, LEVELS) if word else "none"
        self.level = None if word else jnp.float32(number_between("level", level, 1e-6, 1.0 - 1e-6))
        self.draws = whole_number("draws", draws, 2)

    def select(
        self, key: KeyArray, belief: Belief, state: State, actions: Actions
    ) -> Bool[Array, " K"]:
        """Optimistic values, and the best action under them."""
        del key
        draws = belief.sample(state, self.draws)
        level = self._level(state, actions.single_arm)
        reach = belief.quantile if actions.single_arm else belief.normal_quantile
        return actions.best(reach(state, level, draws))

    def _level(self, state: State, single_arm: bool) -> Float[Array, ""]:
        if self.level is not None:
            return self.level
        rounds = state.history.rounds.astype(jnp.float32)
        if self.growth == "standard":
            return 1.0 - 1.0 / (rounds + 2.0)
        return slow_level(rounds, single_arm)
