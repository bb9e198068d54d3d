"""Thompson sampling: an action is played as often as it is held for the best."""

from __future__ import annotations

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool

from diffts.bandits.actions import Actions
from diffts.bandits.beliefs.belief import Belief, State
from diffts.bandits.rules.rule import Rule
from diffts.seeding import KeyArray


@final
class ThompsonRule(Rule):
    """The best action under one draw (the paper's Algorithm DiffTS, with a diffusion prior).

    Of equals, the one played most: a law with atoms (many arms at the same best value) has ties,
    and to go on looking among equals costs regret.

    Attributes:
        near_ties: whether what differs by less than the belief's own resolution counts as equal.
    """

    near_ties: bool = eqx.field(static=True, default=False)

    def select(
        self, key: KeyArray, belief: Belief, state: State, actions: Actions
    ) -> Bool[Array, " K"]:
        """``argmax`` over actions of the drawn mean rewards."""
        drawn = belief.draw(key, state, 1)[0]
        tolerance = belief.resolution if self.near_ties else jnp.float32(0.0)
        return actions.nearly_best(drawn, tolerance, state.history.counts)
