"""Policies without a prior: UCB1, ε-greedy and uniform play."""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from diffts.bandits.actions import Actions
from diffts.bandits.policies.policy import HistoryPolicy, HistoryState, as_noise_std
from diffts.seeding import KeyArray


class UCB1(HistoryPolicy):
    """Optimism: the empirical mean plus a bonus that shrinks with the pulls.

    ``index='paper'``: ``mean + σ̂/√n`` (the paper's, less conservative);
    ``index='standard'``: ``mean + σ̂ √(2 log t / n)`` (Eq. UCBindex). An arm that was never pulled
    is worth +∞: as long as there is one on offer, an action that plays one is chosen.
    """

    n_arms: int = eqx.field(static=True)
    noise_std: Float[Array, ""]
    index: Literal["paper", "standard"] = eqx.field(static=True)

    def __init__(
        self, n_arms: int, noise_std: float, index: Literal["paper", "standard"] = "paper"
    ) -> None:
        self.n_arms, self.noise_std, self.index = n_arms, as_noise_std(noise_std), index

    def values(self, key: KeyArray, state: HistoryState) -> Float[Array, " K"]:
        """The upper confidence bounds."""
        del key
        history = state.history
        width = self.noise_std / jnp.sqrt(jnp.maximum(history.counts, 1.0))
        if self.index == "standard":
            width = width * jnp.sqrt(2.0 * jnp.log(jnp.maximum(history.rounds, 1)))
        return jnp.where(history.counts > 0, history.means + width, jnp.inf)

    def select(self, key: KeyArray, state: HistoryState, actions: Actions) -> Bool[Array, " K"]:
        """The first covering action that plays a new arm; if none does, the largest bounds."""
        chosen = actions.best(self.values(key, state))
        if actions.single_arm:  # the first new arm has the largest bound
            return chosen
        cover = actions.cover()
        plays_new_arm = (cover & (state.history.counts == 0)).any(axis=1)
        return jnp.where(plays_new_arm.any(), cover[jnp.argmax(plays_new_arm)], chosen)


class EpsilonGreedy(HistoryPolicy):
    """With probability ε the best action under random values, else under the empirical means.

    Arms that were never pulled count as ``optimistic``, so that each gets its turn.
    """

    n_arms: int = eqx.field(static=True)
    epsilon: Float[Array, ""]
    optimistic: Float[Array, ""]

    def __init__(self, n_arms: int, epsilon: float = 0.1, optimistic: float = 1.0) -> None:
        self.n_arms = n_arms
        self.epsilon, self.optimistic = jnp.float32(epsilon), jnp.float32(optimistic)

    def values(self, key: KeyArray, state: HistoryState) -> Float[Array, " K"]:
        """Empirical means (ties broken at random), or noise."""
        coin_key, value_key = jax.random.split(key)
        noise = jax.random.uniform(value_key, (self.n_arms,))
        history = state.history
        greedy = jnp.where(history.counts > 0, history.means, self.optimistic) + 1e-6 * noise
        explore = jax.random.uniform(coin_key) < self.epsilon
        return jnp.where(explore, noise - 1.0, greedy)


class Uniform(HistoryPolicy):
    """The best action under random values: for single arms, a uniform one."""

    n_arms: int = eqx.field(static=True)

    def values(self, key: KeyArray, state: HistoryState) -> Float[Array, " K"]:
        """Uniform noise in [-1, 0]: a cost for a path, a value for an arm."""
        del state
        return jax.random.uniform(key, (self.n_arms,)) - 1.0
