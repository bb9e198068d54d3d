"""What a rule is: which action to play, given what is believed of the task."""

from __future__ import annotations

import abc

import equinox as eqx
from jaxtyping import Array, Bool

from diffts.bandits.actions import Actions
from diffts.bandits.beliefs.belief import Belief, State
from diffts.seeding import KeyArray


class Rule(eqx.Module):
    """Chooses an action; one task, one round, for use inside ``jit``.

    It never asks which kind of belief it has. It may use draws ``belief.draw(key, state, n)``,
    ``belief.moments(state)``, the noise level ``belief.noise_std`` and the pulls and rounds in
    ``state.history``.
    """

    @abc.abstractmethod
    def select(
        self, key: KeyArray, belief: Belief, state: State, actions: Actions
    ) -> Bool[Array, " K"]:
        """The action to play, a mask over the base arms."""
