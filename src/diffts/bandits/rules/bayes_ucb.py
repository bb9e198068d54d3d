"""Bayes-UCB: optimism by the quantiles of a belief."""

from __future__ import annotations

from typing import final

from jax.scipy.special import ndtri
from jaxtyping import Array, Bool

from diffts.bandits.actions import Actions
from diffts.bandits.beliefs.belief import Belief, State
from diffts.bandits.rules.rule import Rule
from diffts.seeding import KeyArray


@final
class BayesUCBRule(Rule):
    """The ``1 - 1/t`` quantile of each arm (Kaufmann et al. 2012), as if it were Gaussian."""

    def select(
        self, key: KeyArray, belief: Belief, state: State, actions: Actions
    ) -> Bool[Array, " K"]:
        """Mean plus the quantile's share of the standard deviation."""
        del key
        mean, std = belief.moments(state)
        quantile = ndtri(1.0 - 1.0 / (state.history.rounds + 2.0))
        return actions.best(mean + quantile * std)
