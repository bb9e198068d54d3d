"""What a rule weighs against each other: all arms, or sets that are the best under some draw."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from diffts.bandits.actions import Actions


class Choices(eqx.Module):
    """Some of the actions, by number: enough of them to choose from.

    Attributes:
        best: the best action under each of n draws, ``(n, K)``.
        expected_best: the mean over draws of its value.
        playable: which of the choices can be played.
        sets: the choices, where actions are sets: those of ``best``; None for single arms.
    """

    best: Bool[Array, "n K"]
    expected_best: Float[Array, ""]
    playable: Bool[Array, " m"]
    sets: Bool[Array, "n K"] | None

    def __init__(self, actions: Actions, draws: Float[Array, "n K"]) -> None:
        self.best = jax.vmap(actions.best)(draws)
        self.expected_best = jnp.mean(jnp.sum(jnp.where(self.best, draws, 0.0), axis=1))
        self.sets = None if actions.single_arm else self.best
        self.playable = actions.offered if self.sets is None else jnp.any(self.sets, axis=1)

    def total(self, values: Float[Array, " K"]) -> Float[Array, " m"]:
        """The value of each choice: the sum of its arms'."""
        return values if self.sets is None else jnp.sum(jnp.where(self.sets, values, 0.0), axis=1)

    def action(self, number: Int[Array, ""]) -> Bool[Array, " K"]:
        """A choice as an action."""
        if self.sets is None:
            return jnp.arange(len(self.playable)) == number
        return self.sets[number]
