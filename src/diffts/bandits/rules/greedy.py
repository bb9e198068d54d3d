"""Greedy play, and nearly greedy play: means of all draws, or of a few."""

from __future__ import annotations

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool

from diffts.bandits.actions import Actions
from diffts.bandits.beliefs.belief import DRAWS, Belief, State
from diffts.bandits.rules.rule import Rule
from diffts.seeding import KeyArray
from diffts.validation import whole_number


@final
class GreedyRule(Rule):
    """The best action under the means: what a good prior does without exploration.

    Attributes:
        draws: what the means are taken of where there is no closed form.
    """

    draws: int = eqx.field(static=True)

    def __init__(self, draws: int = DRAWS) -> None:
        self.draws = whole_number("draws", draws, 2)

    def select(
        self, key: KeyArray, belief: Belief, state: State, actions: Actions
    ) -> Bool[Array, " K"]:
        """``argmax`` over actions of the mean."""
        del key
        return actions.best(belief.mean(state, self.draws))


@final
class FewDrawsRule(Rule):
    """The best action under the mean of a few draws: between Thompson sampling and greedy play.

    Attributes:
        draws: how many; 1 is Thompson sampling.
    """

    draws: int = eqx.field(static=True)

    def __init__(self, draws: int = 2) -> None:
        self.draws = whole_number("draws", draws, 1)

    def select(
        self, key: KeyArray, belief: Belief, state: State, actions: Actions
    ) -> Bool[Array, " K"]:
        """``argmax`` over actions of the mean of fresh draws."""
        drawn = jnp.mean(belief.draw(key, state, self.draws), axis=0)
        return actions.nearly_best(drawn, jnp.float32(0.0), state.history.counts)
