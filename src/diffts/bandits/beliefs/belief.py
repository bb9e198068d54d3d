"""What a belief is: what is thought of one task's mean rewards, as pure functions of a state.

All methods concern one task; the simulator maps them over tasks and scans them over rounds.
"""

from __future__ import annotations

import abc
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import ndtri
from jaxtyping import Array, Bool, Float

from diffts.bandits.history import History
from diffts.bandits.noise import Noise
from diffts.seeding import KeyArray

#: Draws that stand for a distribution where nothing is known in closed form.
DRAWS = 32

#: What a belief keeps of a task: a pytree with an attribute ``history``, the pulls.
State: TypeAlias = Any


class Belief(eqx.Module):
    """A distribution over the mean rewards ``μ ∈ R^K`` of a task, given its pulls.

    Attributes:
        n_arms: number of base arms ``K``.
        noise: the assumed noise of one reward.
        single_arm: whether it was made for actions of one arm, and serves no others.
    """

    n_arms: eqx.AbstractVar[int]
    noise: eqx.AbstractVar[Noise]
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
        """One draw of the mean rewards; :meth:`draw` keeps it within the bounds of a reward."""

    @abc.abstractmethod
    def moments(
        self, state: State, draws: Float[Array, "n K"]
    ) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        """Mean and standard deviation of each arm's mean reward; a function of the state alone.

        In closed form where there is one, else those of ``draws``, what :meth:`sample` gave: a
        rule that uses draws for other things, too, makes them once. (Compiled, draws that nobody
        reads are not made.)
        """

    @abc.abstractmethod
    def quantile(
        self, state: State, level: Float[Array, ""], draws: Float[Array, "n K"]
    ) -> Float[Array, " K"]:
        """The quantile of each arm's mean reward, likewise."""

    def normal_quantile(
        self, state: State, level: Float[Array, ""], draws: Float[Array, "n K"]
    ) -> Float[Array, " K"]:
        """``mean + Φ⁻¹(level) std``: what an arm of a set counts, likewise.

        A sum of many arms is nearly normal whatever the law of each. An arm that is 1 or 0 has a
        quantile of 1 or 0, and tells nothing of how likely it is either; its moments do.
        """
        return self.within(gaussian_quantile(self.moments(state, draws), level))

    @abc.abstractmethod
    def estimate(self, state: State, draws: Float[Array, "n K"]) -> Float[Array, " K"]:
        """Values whose best action is advised: the means, but for arms that nothing is known of."""

    @property
    @abc.abstractmethod
    def resolution(self) -> Float[Array, ""]:
        """A difference of drawn values below which it cannot tell two arms apart."""

    @property
    def has_prior(self) -> bool:
        """Whether it expects anything of an arm before its first pull."""
        return True

    def draw(self, key: KeyArray, state: State, n: int) -> Float[Array, "n K"]:
        """``n`` draws, by the key itself if it is one, else by ``split(key, n)``."""
        if n == 1:
            return self.within(self.draw_one(key, state))[None]
        drawn = jax.vmap(lambda one: self.draw_one(one, state))(jax.random.split(key, n))
        return self.within(drawn)

    def sample(self, state: State, n: int) -> Float[Array, "n K"]:
        """``n`` draws by a key that the state itself gives: the same ones while nothing changes.

        So what is computed from many draws is a function of the state alone, as a closed form
        would be. The next round's are others: an error of one round does not last.
        """
        history = state.history
        bits = jax.lax.bitcast_convert_type(jnp.sum(history.sums), jnp.uint32)
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(0), history.rounds), bits)
        return self.draw(key, state, n)

    def mean(self, state: State, n: int = DRAWS) -> Float[Array, " K"]:
        """The mean of each arm's mean reward, if need be of ``n`` draws."""
        return self.moments(state, self.sample(state, n))[0]

    def within(self, values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Mean rewards as they can be: between the bounds of one reward, where it has any."""
        bounds = self.noise.bounds
        return values if bounds is None else jnp.clip(values, *bounds)

    def noise_std(self, state: State) -> Float[Array, " K"]:
        """The assumed standard deviation ``σ̂^a`` of one reward of each arm."""
        return self.noise.std(state.history)


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


def moments_of(draws: Float[Array, "n K"]) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
    """Mean and standard deviation of each arm in some draws."""
    return jnp.mean(draws, axis=0), jnp.std(draws, axis=0, ddof=1)


def gaussian_quantile(
    moments: tuple[Float[Array, " K"], Float[Array, " K"]], level: Float[Array, ""]
) -> Float[Array, " K"]:
    """The quantile of Gaussians of these means and standard deviations."""
    mean, std = moments
    return mean + ndtri(level) * std


def quantile_of(draws: Float[Array, "n K"], level: Float[Array, ""]) -> Float[Array, " K"]:
    """The quantile of each arm in some draws, as ``numpy.quantile`` has it.

    On a CPU by counting what is smaller: nine times faster than to sort along this axis. (A GPU
    sorts: counting takes XLA minutes to compile for it.)
    """
    n = len(draws)
    place = level * (n - 1)
    below = jnp.floor(place)
    if jax.default_backend() != "cpu":
        ordered = jnp.sort(draws, axis=0)
        at = below.astype(jnp.int32)
        low, high = ordered[at], ordered[jnp.minimum(at + 1, n - 1)]
        return low + (place - below) * (high - low)
    number = jnp.arange(n)
    one, other = draws[:, None], draws[None]
    first = (one == other) & (number[:, None] < number)[..., None]
    rank = jnp.sum((one < other) | first, axis=0)  # (n, K); each number from 0 to n-1 once
    low, high = (
        jnp.sum(jnp.where(rank == at, draws, 0.0), axis=0)
        for at in (below, jnp.minimum(below + 1, n - 1))
    )
    return low + (place - below) * (high - low)
