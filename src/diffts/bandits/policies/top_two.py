"""Top-two Thompson sampling: the same draws, spent on finding the best arm."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from diffts.bandits.actions import Actions
from diffts.bandits.policies.policy import History, Policy, State
from diffts.seeding import KeyArray


class TopTwo(Policy):
    """Plays the best action of one draw, or (with probability ``1 - beta``) a challenger.

    The challenger is the best action of a further draw that differs from the leader's (Russo
    2016). At most ``redraws`` further draws are made; if all agree with the leader, it is played.
    """

    n_arms: int = eqx.field(static=True)
    base: Policy
    beta: Float[Array, ""]
    redraws: int = eqx.field(static=True)

    def __init__(self, base: Policy, beta: float = 0.5, redraws: int = 8) -> None:
        self.n_arms, self.base = base.n_arms, base
        self.beta, self.redraws = jnp.float32(beta), redraws

    def init(self) -> State:
        """The base policy's state."""
        return self.base.init()

    def resume(self, history: History) -> State:
        """The base policy's state."""
        return self.base.resume(history)

    def values(self, key: KeyArray, state: State) -> Float[Array, " K"]:
        """The base policy's draw."""
        return self.base.values(key, state)

    def update(self, state: State, action: Bool[Array, " K"], rewards: Float[Array, " K"]) -> State:
        """The base policy's update."""
        return self.base.update(state, action, rewards)

    def estimate(self, state: State) -> Float[Array, " K"]:
        """The base policy's estimate."""
        return self.base.estimate(state)

    def select(self, key: KeyArray, state: State, actions: Actions) -> Bool[Array, " K"]:
        """Leader or challenger."""
        coin_key, leader_key, challenger_key = jax.random.split(key, 3)
        leader = actions.best(self.base.values(leader_key, state))

        def drawn(draw_key: KeyArray) -> Bool[Array, " K"]:
            return actions.best(self.base.values(draw_key, state))

        others = jax.lax.map(drawn, jax.random.split(challenger_key, self.redraws))
        differs = (others != leader).any(axis=-1)
        challenger = jnp.where(differs.any(), others[jnp.argmax(differs)], leader)
        return jnp.where(jax.random.uniform(coin_key) < self.beta, leader, challenger)
