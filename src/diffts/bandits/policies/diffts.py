"""DiffTS: Thompson sampling with a diffusion prior (the paper's Algorithm DiffTS)."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from diffts.bandits.policies.policy import HistoryPolicy, HistoryState
from diffts.diffusion.denoiser import Denoiser
from diffts.diffusion.posterior import (
    PosteriorSampler,
    ReverseStep,
    as_sampler,
    draw,
    reverse_steps,
)
from diffts.diffusion.posterior.batched import Units
from diffts.diffusion.prior import DiffusionPrior
from diffts.seeding import KeyArray


class DiffTS(HistoryPolicy):
    """Each round one posterior draw, and the best action under it.

    The recommended arm is the one pulled most: a posterior mean would take many draws, and
    Thompson sampling pulls an arm as often as it holds it for the best.
    """

    n_arms: int = eqx.field(static=True)
    denoiser: Denoiser
    steps: ReverseStep
    sampler: PosteriorSampler
    units: Units
    noise_std: Float[Array, ""]

    def __init__(
        self,
        prior: DiffusionPrior,
        noise_std: float,
        *,
        steps: int | None = None,
        sampler: str | PosteriorSampler = "paper",
        variance: str = "calibrated",
    ) -> None:
        self.n_arms = prior.n_arms
        self.denoiser = prior.denoiser
        self.steps = reverse_steps(prior.schedule, prior.tau, steps, variance)
        self.sampler = as_sampler(sampler)
        self.units = Units(prior.shift, prior.scale)
        self.noise_std = jnp.float32(noise_std)

    def values(self, key: KeyArray, state: HistoryState) -> Float[Array, " K"]:
        """One draw of the mean rewards from their posterior."""
        evidence = self.units.standardise(state.history.evidence(self.noise_std))
        return self.units.restore(draw(self.sampler, key, self.denoiser, self.steps, evidence))

    def estimate(self, state: HistoryState) -> Float[Array, " K"]:
        """How often each arm was pulled, and its mean among equals."""
        history = state.history
        return history.counts + 1e-3 * jnp.tanh(history.means)
