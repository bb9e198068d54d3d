"""The diffusion prior: what was learned from past tasks, given the pulls of this one."""

from __future__ import annotations

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from diffts.bandits.beliefs.belief import (
    HistoryBelief,
    HistoryState,
    moments_of,
    quantile_of,
)
from diffts.bandits.noise import Noise, NoiseLike, as_noise
from diffts.diffusion.observation import Marginals
from diffts.diffusion.posterior import VARIANCE_MODES, MergedSampler, PosteriorSampler
from diffts.diffusion.prior import DiffusionPrior
from diffts.errors import InvalidInputError
from diffts.seeding import KeyArray
from diffts.validation import one_of, whole_number


@final
class DiffusionBelief(HistoryBelief):
    """Posterior draws of a diffusion prior, each a reverse chain under the evidence so far.

    Means, quantiles and advice are those of draws; but a denoiser that takes evidence as noise
    (network 'arms') knows them from one pass, if its own sampler draws.
    """

    n_arms: int = eqx.field(static=True)
    prior: DiffusionPrior
    sampler: PosteriorSampler
    steps: int = eqx.field(static=True)
    variance: str = eqx.field(static=True)
    noise: Noise
    single_arm: bool = eqx.field(static=True)

    def __init__(
        self,
        prior: DiffusionPrior,
        noise: NoiseLike,
        *,
        steps: int | None = None,
        sampler: str | PosteriorSampler | None = None,
        variance: str = "calibrated",
        single_arm: bool = True,
    ) -> None:
        if not isinstance(prior, DiffusionPrior):
            raise InvalidInputError(
                f"prior: expected a DiffusionPrior, got {type(prior).__name__}; "
                "DiffusionPrior.load(folder) reads a saved one"
            )
        if steps is not None:
            steps = whole_number("steps", steps, 1, prior.schedule.n_steps)
        self.sampler, self.steps = prior.how_to_draw(sampler, steps)
        self.n_arms, self.prior = prior.n_arms, prior
        self.variance = one_of("variance", variance, VARIANCE_MODES)
        spread = jnp.full(prior.n_arms, prior.scale)
        self.noise = as_noise(noise).under(jnp.full(prior.n_arms, prior.shift), spread)
        self.single_arm = single_arm

    def draw_one(self, key: KeyArray, state: HistoryState) -> Float[Array, " K"]:
        """One draw of the mean rewards from their posterior."""
        evidence = state.history.evidence(self.noise_std(state))
        return self.prior.draw(
            key, evidence, sampler=self.sampler, steps=self.steps, variance=self.variance
        )

    def moments(
        self, state: HistoryState, draws: Float[Array, "n K"]
    ) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        """Those of the draws, if no pass gives them."""
        known = self._marginals(state)
        return moments_of(draws) if known is None else (self.within(known.mean), known.std)

    def quantile(
        self, state: HistoryState, level: Float[Array, ""], draws: Float[Array, "n K"]
    ) -> Float[Array, " K"]:
        """That of the draws, if no pass gives it."""
        known = self._marginals(state)
        if known is None or known.quantiles is None:  # mean and spread alone say too little
            return quantile_of(draws, level)
        return self.within(known.quantile(level))

    def normal_quantile(
        self, state: HistoryState, level: Float[Array, ""], draws: Float[Array, "n K"]
    ) -> Float[Array, " K"]:
        """By the moments; a denoiser that answers itself says what it doubts, too."""
        known = self._marginals(state)
        if known is None:
            return super().normal_quantile(state, level, draws)
        return self.within(known.normal_quantile(level))

    def _marginals(self, state: HistoryState) -> Marginals | None:
        """What one pass says of each arm."""
        if not isinstance(self.sampler, MergedSampler):
            return None
        return self.prior.marginals(state.history.evidence(self.noise_std(state)))

    def estimate(self, state: HistoryState, draws: Float[Array, "n K"]) -> Float[Array, " K"]:
        """Posterior mean."""
        return self.moments(state, draws)[0]

    @property
    def resolution(self) -> Float[Array, ""]:
        """What the denoiser errs by in the last step, ``τ_1``: root mean square over arms."""
        return self.prior.scale * jnp.sqrt(jnp.mean(self.prior.tau[0] ** 2))
