"""Thompson sampling: an action is played as often as it is held for the best."""

from __future__ import annotations

from typing import final

from jaxtyping import Array, Bool

from diffts.bandits.actions import Actions
from diffts.bandits.beliefs.belief import Belief, State
from diffts.bandits.rules.rule import Rule
from diffts.seeding import KeyArray


@final
class ThompsonRule(Rule):
    """The best action under one draw (the paper's Algorithm DiffTS, with a diffusion prior)."""

    def select(
        self, key: KeyArray, belief: Belief, state: State, actions: Actions
    ) -> Bool[Array, " K"]:
        """``argmax`` over actions of the drawn mean rewards."""
        return actions.best(belief.draw(key, state, 1)[0])
