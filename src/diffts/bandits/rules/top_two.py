"""Top-two Thompson sampling: the same draws, spent on finding the best arm."""

from __future__ import annotations

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from diffts.bandits.actions import Actions
from diffts.bandits.beliefs.belief import Belief, State
from diffts.bandits.rules.rule import Rule
from diffts.seeding import KeyArray
from diffts.validation import number_between, whole_number


@final
class TopTwoRule(Rule):
    """Plays the best action of one draw, or (with probability ``1 - beta``) a challenger.

    The challenger is the best action of a further draw that differs from the leader's (Russo
    2016). At most ``redraws`` further draws are made; if all agree with the leader, it is played.
    """

    beta: Float[Array, ""]
    redraws: int = eqx.field(static=True)

    def __init__(self, beta: float = 0.5, redraws: int = 8) -> None:
        self.beta = jnp.float32(number_between("beta", beta, 0.0, 1.0))
        self.redraws = whole_number("redraws", redraws, 1)

    def select(
        self, key: KeyArray, belief: Belief, state: State, actions: Actions
    ) -> Bool[Array, " K"]:
        """Leader or challenger."""
        coin_key, leader_key, challenger_key = jax.random.split(key, 3)
        leader = actions.best(belief.draw(leader_key, state, 1)[0])
        others = jax.vmap(actions.best)(belief.draw(challenger_key, state, self.redraws))
        differs = (others != leader).any(axis=-1)
        challenger = jnp.where(differs.any(), others[jnp.argmax(differs)], leader)
        return jnp.where(jax.random.uniform(coin_key) < self.beta, leader, challenger)
