"""What a belief is: what is thought of one task's mean rewards, as pure functions of a state.

All methods concern one task; the simulator maps them over tasks and scans them over rounds.
"""

from __future__ import annotations

import abc
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from diffts.bandits.history import History
from diffts.seeding import KeyArray
from diffts.validation import positive_number

#: What a belief keeps of a task: a pytree with an attribute ``history``, the pulls.
State: TypeAlias = Any


def as_noise_std(value: Any) -> Float[Array, ""]:
    """The assumed noise level ``σ̂`` of one reward: a finite number above 0."""
    return jnp.float32(positive_number("noise_std", value))


class Belief(eqx.Module):
    """A distribution over the mean rewards ``μ ∈ R^K`` of a task, given its pulls.

    Attributes:
        n_arms: number of base arms ``K``.
        noise_std: assumed standard deviation ``σ̂`` of one reward.
        single_arm: whether it was made for actions of one arm, and serves no others.
    """

    n_arms: eqx.AbstractVar[int]
    noise_std: eqx.AbstractVar[Float[Array, ""]]
    single_arm: eqx.AbstractVar[bool]

    @abc.abstractmethod
    def init(self) -> State:
        """The state before the first round; it has an attribute ``history``."""

    @abc.abstractmethod
    def resume(self, history: History) -> State:
        """The state after a history of pulls, whoever made them."""

    @abc.abstractmethod
    def update(self, state: State, action: Bool[Array, " K"], rewards: Float[Array, " K"]) -> State:
        """The state after ``action`` gave ``rewards`` (read only where ``action`` is True)."""

    @abc.abstractmethod
    def draw_one(self, key: KeyArray, state: State) -> Float[Array, " K"]:
        """One draw of the mean rewards."""

    @abc.abstractmethod
    def moments(self, state: State) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        """Mean and standard deviation of each arm's mean reward; a function of the state alone."""

    @abc.abstractmethod
    def estimate(self, state: State) -> Float[Array, " K"]:
        """Values whose best action is recommended; the means, unless something tells more."""

    def draw(self, key: KeyArray, state: State, n: int) -> Float[Array, "n K"]:
        """``n`` draws, by the key itself if it is one, else by ``split(key, n)``."""
        if n == 1:
            return self.draw_one(key, state)[None]
        return jax.vmap(lambda one: self.draw_one(one, state))(jax.random.split(key, n))

    def mean(self, state: State) -> Float[Array, " K"]:
        """The mean of each arm's mean reward."""
        return self.moments(state)[0]


class HistoryState(eqx.Module):
    """The state of a belief that needs nothing but the history."""

    history: History


class HistoryBelief(Belief):
    """A belief whose state is the history itself."""

    def init(self) -> HistoryState:
        """Nothing played yet."""
        return HistoryState(History.empty(self.n_arms))

    def resume(self, history: History) -> HistoryState:
        """The history itself."""
        return HistoryState(history)

    def update(
        self, state: HistoryState, action: Bool[Array, " K"], rewards: Float[Array, " K"]
    ) -> HistoryState:
        """The longer history."""
        return HistoryState(state.history.add(action, rewards))
