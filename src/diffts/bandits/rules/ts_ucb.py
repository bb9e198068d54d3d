"""TS-UCB: Thompson sampling's estimate of the best value, reached for like an upper bound."""

from __future__ import annotations

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool

from diffts.bandits.actions import Actions
from diffts.bandits.beliefs.belief import Belief, State
from diffts.bandits.rules.choices import Choices
from diffts.bandits.rules.rule import Rule
from diffts.seeding import KeyArray
from diffts.validation import whole_number


@final
class TSUCBRule(Rule):
    """The least ``(f̃ - μ_a) / std_a``: regret for each standard deviation that is left.

    ``f̃`` is the mean, over draws, of the best value under them (Baek and Farias 2023, with the
    belief's mean and standard deviation in the place of the empirical mean and its radius).

    Attributes:
        draws: how many.
    """

    draws: int = eqx.field(static=True)

    def __init__(self, draws: int = 8) -> None:
        self.draws = whole_number("draws", draws, 2)

    def select(
        self, key: KeyArray, belief: Belief, state: State, actions: Actions
    ) -> Bool[Array, " K"]:
        """All arms; where actions are sets, those that are the best under some draw."""
        del key
        draws = belief.sample(state, self.draws)
        choices = Choices(actions, draws)
        mean, std = belief.moments(state, draws)
        radius = jnp.sqrt(choices.total(std**2))
        ratio = (choices.expected_best - choices.total(mean)) / jnp.maximum(radius, 1e-30)
        return choices.action(jnp.argmin(jnp.where(choices.playable, ratio, jnp.inf)))
