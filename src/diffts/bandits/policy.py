"""A policy is a belief and a rule: what is thought of a task, and what to play then."""

from __future__ import annotations

from typing import final

import equinox as eqx
from jaxtyping import Array, Bool, Float

from diffts.bandits.actions import Actions
from diffts.bandits.beliefs.belief import Belief, State
from diffts.bandits.history import History
from diffts.bandits.rules.rule import Rule
from diffts.errors import InvalidInputError
from diffts.seeding import KeyArray


@final
class Policy(eqx.Module):
    """Pure functions of one task's state, for use inside ``jit``, ``vmap`` and ``scan``.

    Any belief goes with any rule; those with names of their own are in
    :mod:`diffts.bandits.policies`.
    """

    belief: Belief
    rule: Rule

    @property
    def n_arms(self) -> int:
        """Number of base arms ``K``."""
        return self.belief.n_arms

    def init(self) -> State:
        """The state before the first round; it has an attribute ``history``."""
        return self.belief.init()

    def resume(self, history: History) -> State:
        """The state after a history of pulls that another policy may have made."""
        return self.belief.resume(history)

    def check(self, actions: Actions) -> None:
        """Refuse actions that this policy cannot play."""
        if actions.n_arms != self.n_arms:
            raise InvalidInputError(
                f"actions: of {actions.n_arms} arms, the policy has {self.n_arms}"
            )
        if self.belief.single_arm and not actions.single_arm:
            raise InvalidInputError(
                "actions: sets of arms, but the policy was made for single ones (single_arm=False)"
            )

    def select(self, key: KeyArray, state: State, actions: Actions) -> Bool[Array, " K"]:
        """The action to play."""
        return self.rule.select(key, self.belief, state, actions)

    def update(self, state: State, action: Bool[Array, " K"], rewards: Float[Array, " K"]) -> State:
        """The state after ``action`` gave ``rewards`` (read only where ``action`` is True)."""
        return self.belief.update(state, action, rewards)

    def estimate(self, state: State) -> Float[Array, " K"]:
        """Values without exploration: the action that is best under them is recommended."""
        return self.belief.estimate(state)
