"""What two beliefs share: each arm by itself, as a Gaussian."""

from __future__ import annotations

import abc

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diffts.bandits.beliefs.belief import HistoryBelief, HistoryState, gaussian_quantile
from diffts.seeding import KeyArray


class ArmByArmBelief(HistoryBelief):
    """A belief that is one Gaussian for each arm, independent of the others."""

    @abc.abstractmethod
    def gaussians(self, state: HistoryState) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        """Mean and standard deviation of each arm."""

    def draw_one(self, key: KeyArray, state: HistoryState) -> Float[Array, " K"]:
        """One draw of each arm."""
        mean, std = self.gaussians(state)
        return mean + std * jax.random.normal(key, mean.shape)

    def moments(
        self, state: HistoryState, draws: Float[Array, "n K"]
    ) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        """In closed form."""
        del draws
        mean, std = self.gaussians(state)
        return self.within(mean), std

    def quantile(
        self, state: HistoryState, level: Float[Array, ""], draws: Float[Array, "n K"]
    ) -> Float[Array, " K"]:
        """In closed form."""
        del draws
        return self.within(gaussian_quantile(self.gaussians(state), level))

    @property
    def resolution(self) -> Float[Array, ""]:
        """Any difference tells."""
        return jnp.float32(0.0)
