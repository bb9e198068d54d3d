"""ε-greedy and uniform play: exploration that looks at nothing."""

from __future__ import annotations

from typing import final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from diffts.bandits.actions import Actions
from diffts.bandits.beliefs.belief import Belief, State
from diffts.bandits.rules.rule import Rule
from diffts.seeding import KeyArray
from diffts.validation import number_between


@final
class EpsilonGreedyRule(Rule):
    """With probability ε the best action under random values, else under the means."""

    epsilon: Float[Array, ""]

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = jnp.float32(number_between("epsilon", epsilon, 0.0, 1.0))

    def select(
        self, key: KeyArray, belief: Belief, state: State, actions: Actions
    ) -> Bool[Array, " K"]:
        """Means (ties broken at random), or noise."""
        coin_key, value_key = jax.random.split(key)
        noise = jax.random.uniform(value_key, (belief.n_arms,))
        greedy = belief.mean(state) + 1e-6 * noise
        explore = jax.random.uniform(coin_key) < self.epsilon
        return actions.best(jnp.where(explore, noise - 1.0, greedy))


@final
class UniformRule(Rule):
    """The best action under random values: for single arms, a uniform one."""

    def select(
        self, key: KeyArray, belief: Belief, state: State, actions: Actions
    ) -> Bool[Array, " K"]:
        """Uniform noise in [-1, 0]: a cost for a path, a value for an arm."""
        del state
        return actions.best(jax.random.uniform(key, (belief.n_arms,)) - 1.0)
