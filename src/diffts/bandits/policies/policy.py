"""What a policy is: pure functions of one task's state, for use inside ``jit`` and ``scan``."""

from __future__ import annotations

import abc
from typing import Any, TypeAlias

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from diffts.bandits.actions import Actions
from diffts.evidence import Evidence
from diffts.seeding import KeyArray
from diffts.validation import positive_number

State: TypeAlias = Any


def as_noise_std(value: Any) -> Float[Array, ""]:
    """The assumed noise level ``σ̂`` of one reward: a finite number above 0, for every policy."""
    return jnp.float32(positive_number("noise_std", value))


class History(eqx.Module):
    """What the pulls of one task come down to: counts and sums of each base arm.

    Attributes:
        counts: pulls of each arm, ``(K,)``.
        sums: sum of the rewards of each arm, ``(K,)``.
        rounds: actions played so far.
    """

    counts: Float[Array, " K"]
    sums: Float[Array, " K"]
    rounds: Int[Array, ""]

    @staticmethod
    def empty(n_arms: int) -> History:
        """Nothing played yet."""
        return History(jnp.zeros(n_arms), jnp.zeros(n_arms), jnp.int32(0))

    def add(self, action: Bool[Array, " K"], rewards: Float[Array, " K"]) -> History:
        """The history after one more action (semi-bandit: a reward for each of its arms)."""
        return History(
            self.counts + action,
            self.sums + jnp.where(action, rewards, 0.0),
            self.rounds + 1,
        )

    @property
    def means(self) -> Float[Array, " K"]:
        """Empirical mean of each arm, 0 where it was never pulled."""
        return self.sums / jnp.maximum(self.counts, 1.0)

    def evidence(self, noise_std: Float[Array, ""]) -> Evidence:
        """``y^a`` the mean, ``σ^a = σ̂/√n^a``, ``m^a = 1[n^a > 0]``."""
        std = noise_std / jnp.sqrt(jnp.maximum(self.counts, 1.0))
        return Evidence(self.means, std, self.counts > 0)


class Policy(eqx.Module):
    """A bandit policy: each round it values the base arms, and plays the best action under that.

    All methods concern one task; the simulator maps them over tasks and scans them over rounds.
    """

    n_arms: eqx.AbstractVar[int]

    @abc.abstractmethod
    def init(self) -> State:
        """The state before the first round; it has an attribute ``history``."""

    @abc.abstractmethod
    def resume(self, history: History) -> State:
        """The state after a history of pulls that another policy may have made."""

    @abc.abstractmethod
    def values(self, key: KeyArray, state: State) -> Float[Array, " K"]:
        """The value of each base arm in this round: drawn, optimistic, as the policy has it."""

    @abc.abstractmethod
    def update(self, state: State, action: Bool[Array, " K"], rewards: Float[Array, " K"]) -> State:
        """The state after ``action`` gave ``rewards`` (read only where ``action`` is True)."""

    def select(self, key: KeyArray, state: State, actions: Actions) -> Bool[Array, " K"]:
        """The action to play."""
        return actions.best(self.values(key, state))

    def estimate(self, state: State) -> Float[Array, " K"]:
        """Values without exploration: the action that is best under them is recommended.

        By default the empirical means, and the least of them for arms that were never pulled.
        """
        history: History = state.history
        pulled = history.counts > 0
        least = jnp.min(jnp.where(pulled, history.means, jnp.inf))
        fallback = jnp.where(jnp.isfinite(least), least, 0.0)
        return jnp.where(pulled, history.means, fallback - 1e-3)


class HistoryState(eqx.Module):
    """The state of a policy that needs nothing but the history."""

    history: History


class HistoryPolicy(Policy):
    """A policy whose state is the history itself."""

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
