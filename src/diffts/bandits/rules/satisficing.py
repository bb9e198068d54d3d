"""Satisficing Thompson sampling: what is nearly the best is good enough."""

from __future__ import annotations

from typing import final

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from diffts.bandits.actions import Actions
from diffts.bandits.beliefs.belief import Belief, State
from diffts.bandits.rules.rule import Rule, as_horizon
from diffts.seeding import KeyArray
from diffts.validation import number_between


@final
class SatisficingRule(Rule):
    """Of the actions whose drawn value is within ``ε`` of the best drawn one, that played most.

    By default ``ε = σ̂ √(n/T)`` with n arms on offer and T rounds: about what T rounds can tell of
    one arm among n. Without a horizon, T is what was played, and n more rounds: ``ε`` then shrinks
    from ``σ̂`` on.

    Attributes:
        tolerance: ``ε``, in units of reward; None for the default.
        horizon: rounds T of the task; None if nobody knows.
    """

    tolerance: Float[Array, ""] | None
    horizon: Float[Array, ""] | None

    def __init__(self, tolerance: float | None = None, horizon: int | None = None) -> None:
        given = None if tolerance is None else number_between("tolerance", tolerance, 0.0, 1e18)
        self.tolerance = None if given is None else jnp.float32(given)
        self.horizon = as_horizon(horizon)

    def select(
        self, key: KeyArray, belief: Belief, state: State, actions: Actions
    ) -> Bool[Array, " K"]:
        """One draw, and the favourite among what is nearly the best under it."""
        drawn = belief.draw(key, state, 1)[0]
        tolerance = self.tolerance
        if tolerance is None:
            offered = jnp.sum(actions.offered)
            rounds = self.horizon if self.horizon is not None else state.history.rounds + offered
            noise = jnp.mean(belief.noise_std(state), where=actions.offered)
            tolerance = noise * jnp.sqrt(offered / rounds)
        return actions.nearly_best(drawn, tolerance, state.history.counts)
