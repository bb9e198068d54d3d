"""Independent Gaussian priors: a pull of one arm says nothing of the others."""

from __future__ import annotations

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from diffts.bandits.beliefs.arm_by_arm import ArmByArmBelief
from diffts.bandits.beliefs.belief import HistoryState
from diffts.bandits.noise import Noise, NoiseLike, as_noise
from diffts.diffusion.exact import Gaussian


@final
class IndependentBelief(ArmByArmBelief):
    """``μ^a ~ N(m^a, v^a)``, one for each arm: the prior of GTS-diag."""

    n_arms: int = eqx.field(static=True)
    single_arm: bool = eqx.field(static=True)
    prior_mean: Float[Array, " K"]
    prior_variance: Float[Array, " K"]
    noise: Noise

    def __init__(self, prior: Gaussian, noise: NoiseLike) -> None:
        self.n_arms, self.single_arm = len(prior.mean), False
        self.prior_mean = jnp.asarray(prior.mean, jnp.float32)
        self.prior_variance = jnp.asarray(prior.std**2, jnp.float32)
        self.noise = as_noise(noise).under(prior.mean, prior.std)

    def estimate(self, state: HistoryState, draws: Float[Array, "n K"]) -> Float[Array, " K"]:
        """Posterior means."""
        return self.moments(state, draws)[0]

    def gaussians(self, state: HistoryState) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        """``v' = v σ² / (σ² + n v)`` and ``m' = (σ² m + v Σr) / (σ² + n v)``, safe for v = 0."""
        history, noise = state.history, self.noise_std(state) ** 2
        total = noise + history.counts * self.prior_variance
        mean = (noise * self.prior_mean + self.prior_variance * history.sums) / total
        return mean, jnp.sqrt(self.prior_variance * noise / total)
