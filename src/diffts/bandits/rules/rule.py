"""What a rule is: which action to play, given what is believed of the task."""

from __future__ import annotations

import abc
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from diffts.bandits.actions import Actions
from diffts.bandits.beliefs.belief import Belief, State
from diffts.seeding import KeyArray
from diffts.validation import whole_number


class Rule(eqx.Module):
    """Chooses an action; one task, one round, for use inside ``jit``.

    It never asks which kind of belief it has. It may use fresh draws, ``belief.draw(key, state,
    n)``; ``belief.sample(state, n)``, which are the same as long as nothing changes, and
    ``belief.moments`` and ``belief.quantile``, which take those where there is no closed form; the
    noise ``belief.noise_std(state)``; and the pulls and rounds in ``state.history``.

    A rule that does without the key is deterministic: its choice follows from the state.

    Attributes:
        arm_by_arm: whether it needs actions in which arms compete one by one (no paths).
    """

    arm_by_arm: ClassVar[bool] = False

    @abc.abstractmethod
    def select(
        self, key: KeyArray, belief: Belief, state: State, actions: Actions
    ) -> Bool[Array, " K"]:
        """The action to play, a mask over the base arms."""


def as_horizon(rounds: int | None) -> Float[Array, ""] | None:
    """How many rounds there will be, if anybody knows: an array, lest each number be compiled."""
    return None if rounds is None else jnp.float32(whole_number("horizon", rounds, 1))
