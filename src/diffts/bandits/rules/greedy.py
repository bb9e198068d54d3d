"""Greedy play: what a good prior does without exploration."""

from __future__ import annotations

from typing import final

from jaxtyping import Array, Bool

from diffts.bandits.actions import Actions
from diffts.bandits.beliefs.belief import Belief, State
from diffts.bandits.rules.rule import Rule
from diffts.seeding import KeyArray


@final
class GreedyRule(Rule):
    """The best action under the means."""

    def select(
        self, key: KeyArray, belief: Belief, state: State, actions: Actions
    ) -> Bool[Array, " K"]:
        """``argmax`` over actions of the mean."""
        del key
        return actions.best(belief.mean(state))
