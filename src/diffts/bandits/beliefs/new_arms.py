"""Arms that nobody has seen before, beside those that a belief knows."""

from __future__ import annotations

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from numpy.typing import ArrayLike

from diffts.bandits.beliefs.belief import Belief, State, gaussian_quantile
from diffts.bandits.history import History
from diffts.bandits.noise import Noise
from diffts.seeding import KeyArray


class NewArmsState(eqx.Module):
    """The state of such a belief.

    Attributes:
        history: the pulls of all K + J arms.
        known: what the belief keeps that knows the first K.
    """

    history: History
    known: State


@final
class NewArmsBelief(Belief):
    """A belief over K arms, and J more: ``μ^a ~ N(mean^a, (std^a)²)``, independent of all others.

    What is pulled of a new arm tells of that arm alone, and of the noise.

    Attributes:
        known: the belief over the first K arms.
        new_mean: of each of the others before it is pulled, ``(J,)``.
        new_std: likewise.
    """

    n_arms: int = eqx.field(static=True)
    single_arm: bool = eqx.field(static=True)
    noise: Noise
    known: Belief
    new_mean: Float[Array, " J"]
    new_std: Float[Array, " J"]

    def __init__(self, known: Belief, mean: ArrayLike, std: ArrayLike) -> None:
        self.known, self.noise, self.single_arm = known, known.noise, known.single_arm
        self.new_mean, self.new_std = jnp.asarray(mean, jnp.float32), jnp.asarray(std, jnp.float32)
        self.n_arms = known.n_arms + len(self.new_mean)

    def init(self) -> NewArmsState:
        """Nothing played yet."""
        return NewArmsState(History.empty(self.n_arms), self.known.init())

    def resume(self, history: History) -> NewArmsState:
        """The known arms' part of the history is for the belief that knows them."""
        return NewArmsState(history, self.known.resume(self._of_known(history)))

    def update(
        self, state: NewArmsState, action: Bool[Array, " K+J"], rewards: Float[Array, " K+J"]
    ) -> NewArmsState:
        """The belief over the known arms is told of them alone, and of an action with none nothing.

        (It may count on there being one.)
        """
        history = state.history.add(action, rewards)
        K = self.known.n_arms
        told = self.known.update(state.known, action[:K], rewards[:K])
        plays_known = jnp.any(action[:K])
        known = jax.tree.map(lambda new, old: jnp.where(plays_known, new, old), told, state.known)
        known = eqx.tree_at(lambda kept: kept.history.rounds, known, history.rounds)
        return NewArmsState(history, known)

    def draw_one(self, key: KeyArray, state: NewArmsState) -> Float[Array, " K+J"]:
        """One draw of the known arms, the same as without new ones; and one of each of those."""
        new_key = jax.random.fold_in(key, 2**31 - 1)
        mean, std = self._gaussians(state)
        new = mean + std * jax.random.normal(new_key, mean.shape)
        return jnp.concatenate([self.known.draw_one(key, state.known), new])

    def moments(
        self, state: NewArmsState, draws: Float[Array, "n K+J"]
    ) -> tuple[Float[Array, " K+J"], Float[Array, " K+J"]]:
        """Of the new arms in closed form."""
        known_mean, known_std = self.known.moments(state.known, draws[:, : self.known.n_arms])
        mean, std = self._gaussians(state)
        mean = jnp.concatenate([known_mean, self.within(mean)])
        return mean, jnp.concatenate([known_std, std])

    def quantile(
        self, state: NewArmsState, level: Float[Array, ""], draws: Float[Array, "n K+J"]
    ) -> Float[Array, " K+J"]:
        """Of the new arms in closed form."""
        known = self.known.quantile(state.known, level, draws[:, : self.known.n_arms])
        return jnp.concatenate([known, self._new_quantile(state, level)])

    def normal_quantile(
        self, state: NewArmsState, level: Float[Array, ""], draws: Float[Array, "n K+J"]
    ) -> Float[Array, " K+J"]:
        """Of the new arms the same: they are Gaussian."""
        known = self.known.normal_quantile(state.known, level, draws[:, : self.known.n_arms])
        return jnp.concatenate([known, self._new_quantile(state, level)])

    def _new_quantile(self, state: NewArmsState, level: Float[Array, ""]) -> Float[Array, " J"]:
        return self.within(gaussian_quantile(self._gaussians(state), level))

    def estimate(self, state: NewArmsState, draws: Float[Array, "n K+J"]) -> Float[Array, " K+J"]:
        """Of the new arms their means."""
        known = self.known.estimate(state.known, draws[:, : self.known.n_arms])
        return jnp.concatenate([known, self.within(self._gaussians(state)[0])])

    @property
    def resolution(self) -> Float[Array, ""]:
        """That of the known arms: any difference tells of the others."""
        return self.known.resolution

    @property
    def has_prior(self) -> bool:
        """If the known arms have one: the new ones do."""
        return self.known.has_prior

    def noise_std(self, state: NewArmsState) -> Float[Array, " K+J"]:
        """Of the known arms what their belief reckons with; of the others, from all pulls."""
        known = self.known.noise_std(state.known)
        return jnp.concatenate([known, self._new(self.noise.std(state.history))])

    def _gaussians(self, state: NewArmsState) -> tuple[Float[Array, " J"], Float[Array, " J"]]:
        """``v' = v σ² / (σ² + n v)`` and ``m' = (σ² m + v Σr) / (σ² + n v)``, safe for v = 0."""
        counts, sums = self._new(state.history.counts), self._new(state.history.sums)
        noise = self._new(self.noise.std(state.history)) ** 2
        variance = self.new_std**2
        total = noise + counts * variance
        mean = (noise * self.new_mean + variance * sums) / total
        return mean, jnp.sqrt(variance * noise / total)

    def _of_known(self, history: History) -> History:
        K = self.known.n_arms
        return History(history.counts[:K], history.sums[:K], history.squares[:K], history.rounds)

    def _new(self, values: Float[Array, " K+J"]) -> Float[Array, " J"]:
        return values[self.known.n_arms :]
