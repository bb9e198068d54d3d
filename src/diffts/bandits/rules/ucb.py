"""UCB1: optimism that shrinks with the pulls of an arm."""

from __future__ import annotations

from typing import Literal, final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool

from diffts.bandits.actions import Actions
from diffts.bandits.beliefs.belief import Belief, State
from diffts.bandits.rules.rule import Rule
from diffts.seeding import KeyArray


@final
class UCBRule(Rule):
    """The best action under the means plus a bonus.

    ``index='paper'``: ``mean + σ̂/√n`` (the paper's, less conservative);
    ``index='standard'``: ``mean + σ̂ √(2 log t / n)`` (Eq. UCBindex). An arm that was never pulled
    is worth +∞: as long as there is one on offer, an action that plays one is chosen.
    """

    index: Literal["paper", "standard"] = eqx.field(static=True, default="paper")

    def select(
        self, key: KeyArray, belief: Belief, state: State, actions: Actions
    ) -> Bool[Array, " K"]:
        """The first covering action that plays a new arm; if none does, the largest bounds."""
        del key
        history = state.history
        width = belief.noise_std(state) / jnp.sqrt(jnp.maximum(history.counts, 1.0))
        if self.index == "standard":
            width = width * jnp.sqrt(2.0 * jnp.log(jnp.maximum(history.rounds, 1)))
        bounds = jnp.where(history.counts > 0, belief.mean(state) + width, jnp.inf)
        chosen = actions.best(bounds)
        if actions.single_arm:  # the first new arm has the largest bound
            return chosen
        cover = actions.cover()
        plays_new_arm = (cover & (history.counts == 0)).any(axis=1)
        return jnp.where(plays_new_arm.any(), cover[jnp.argmax(plays_new_arm)], chosen)
