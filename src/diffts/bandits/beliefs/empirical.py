"""No prior at all: what the pulls of an arm say of that arm."""

from __future__ import annotations

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from diffts.bandits.beliefs.arm_by_arm import ArmByArmBelief
from diffts.bandits.beliefs.belief import HistoryState
from diffts.bandits.noise import Noise, NoiseLike, as_noise

#: What is known of an arm without pulls: its mean, give or take so many noise levels.
VAGUE = 1e3


@final
class EmpiricalBelief(ArmByArmBelief):
    """``N(mean of the rewards, σ̂²/n)`` for each arm by itself.

    Attributes:
        unseen: what an arm is worth that was never pulled.
    """

    n_arms: int = eqx.field(static=True)
    single_arm: bool = eqx.field(static=True)
    noise: Noise
    unseen: Float[Array, ""]

    def __init__(self, n_arms: int, noise: NoiseLike = 1.0, unseen: float = 0.0) -> None:
        self.n_arms, self.single_arm = n_arms, False
        self.noise, self.unseen = as_noise(noise), jnp.float32(unseen)

    @property
    def has_prior(self) -> bool:
        """What it says of an arm without pulls is a placeholder."""
        return False

    def estimate(self, state: HistoryState, draws: Float[Array, "n K"]) -> Float[Array, " K"]:
        """Empirical means, and less than the least of them for arms that were never pulled."""
        del draws
        history = state.history
        pulled = history.counts > 0
        least = jnp.min(jnp.where(pulled, history.means, jnp.inf))
        fallback = jnp.where(jnp.isfinite(least), least, 0.0)
        return jnp.where(pulled, history.means, fallback - 1e-3)

    def gaussians(self, state: HistoryState) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        """Empirical means and their standard errors."""
        history = state.history
        pulled = history.counts > 0
        std = self.noise_std(state) / jnp.sqrt(jnp.maximum(history.counts, 1.0))
        return jnp.where(pulled, history.means, self.unseen), jnp.where(pulled, std, VAGUE * std)
