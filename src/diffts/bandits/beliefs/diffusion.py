"""The diffusion prior: what was learned from past tasks, given the pulls of this one."""

from __future__ import annotations

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diffts.bandits.beliefs.belief import HistoryBelief, HistoryState, as_noise_std
from diffts.diffusion.posterior import VARIANCE_MODES, PosteriorSampler, as_sampler
from diffts.diffusion.prior import DiffusionPrior
from diffts.errors import InvalidInputError
from diffts.seeding import KeyArray
from diffts.validation import one_of, whole_number

#: Draws that mean and standard deviation are taken of.
MOMENT_DRAWS = 8


@final
class DiffusionBelief(HistoryBelief):
    """Posterior draws of a diffusion prior, each a reverse chain under the evidence so far.

    The recommended arm is the one pulled most: a posterior mean would take many draws, and
    Thompson sampling pulls an arm as often as it holds it for the best. Counts say nothing of the
    best set of arms, though: there, the mean of ``MOMENT_DRAWS`` posterior draws is taken.
    """

    n_arms: int = eqx.field(static=True)
    prior: DiffusionPrior
    sampler: PosteriorSampler
    steps: int = eqx.field(static=True)
    variance: str = eqx.field(static=True)
    noise_std: Float[Array, ""]
    single_arm: bool = eqx.field(static=True)

    def __init__(
        self,
        prior: DiffusionPrior,
        noise_std: float,
        *,
        steps: int | None = None,
        sampler: str | PosteriorSampler = "paper",
        variance: str = "calibrated",
        single_arm: bool = True,
    ) -> None:
        if not isinstance(prior, DiffusionPrior):
            raise InvalidInputError(
                f"prior: expected a DiffusionPrior, got {type(prior).__name__}; "
                "DiffusionPrior.load(folder) reads a saved one"
            )
        longest = prior.schedule.n_steps
        self.steps = whole_number("steps", longest if steps is None else steps, 1, longest)
        self.n_arms, self.prior = prior.n_arms, prior
        self.variance = one_of("variance", variance, VARIANCE_MODES)
        self.sampler = as_sampler(sampler)
        self.noise_std = as_noise_std(noise_std)
        self.single_arm = single_arm

    def draw_one(self, key: KeyArray, state: HistoryState) -> Float[Array, " K"]:
        """One draw of the mean rewards from their posterior."""
        evidence = state.history.evidence(self.noise_std)
        return self.prior.draw(
            key, evidence, sampler=self.sampler, steps=self.steps, variance=self.variance
        )

    def moments(self, state: HistoryState) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        """Of ``MOMENT_DRAWS`` draws, by the same keys every time."""
        draws = self.draw(jax.random.key(0), state, MOMENT_DRAWS)
        return jnp.mean(draws, axis=0), jnp.std(draws, axis=0, ddof=1)

    def estimate(self, state: HistoryState) -> Float[Array, " K"]:
        """How often each arm was pulled, and its mean among equals; for sets, a posterior mean."""
        history = state.history
        if self.single_arm:
            return history.counts + 1e-3 * jnp.tanh(history.means)
        return self.mean(state)
