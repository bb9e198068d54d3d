"""Bayes-UCB: optimism by the quantiles of a belief."""

from __future__ import annotations

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from diffts.bandits.actions import Actions
from diffts.bandits.beliefs.belief import DRAWS, Belief, State
from diffts.bandits.rules.rule import Rule
from diffts.seeding import KeyArray
from diffts.validation import number_between, whole_number


@final
class BayesUCBRule(Rule):
    """The best action under a quantile of each arm (Kaufmann, Cappé and Garivier 2012).

    Attributes:
        level: of the quantile; None for ``1 - 1/t``, which grows with the rounds.
        draws: what the quantile is taken of where there is no closed form.
    """

    level: Float[Array, ""] | None
    draws: int = eqx.field(static=True)

    def __init__(self, level: float | None = None, draws: int = DRAWS) -> None:
        self.level = None if level is None else jnp.float32(number_between("level", level, 0, 1))
        self.draws = whole_number("draws", draws, 2)

    def select(
        self, key: KeyArray, belief: Belief, state: State, actions: Actions
    ) -> Bool[Array, " K"]:
        """Optimistic values, and the best action under them."""
        del key
        level = self.level
        if level is None:
            level = 1.0 - 1.0 / (state.history.rounds + 2.0)
        return actions.best(belief.quantile(state, level, belief.sample(state, self.draws)))
