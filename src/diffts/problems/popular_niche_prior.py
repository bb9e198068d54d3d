"""The exact diffusion prior of Popular and Niche: what a network could learn at best.

A latent is one Gaussian observation of every arm, and so is the evidence. So the posterior of
``popular_niche_exact.py`` answers ``E[x_0 | x_ℓ]`` and ``E[x_0 | x_ℓ, y]`` for this law. It is far
from Gaussian: discrete choices of groups, and arms at exactly 0 or at a cap.
"""

from __future__ import annotations

from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffts.diffusion.denoiser import Vector
from diffts.diffusion.exact import Gaussian
from diffts.diffusion.exact_denoisers import GaussianDenoiser, mean_error_std
from diffts.diffusion.observation import ConditionalDenoiser, Marginals, Observation
from diffts.diffusion.prior import DiffusionPrior
from diffts.diffusion.schedule import NoiseLevel, Schedule
from diffts.diffusion.units import Units, explainable
from diffts.problems.popular_niche import PopularNiche
from diffts.problems.popular_niche_exact import ExactPopularNicheBelief
from diffts.seeding import Seed, as_generator

#: Tasks that units and covariance are taken from; the first of them give τ.
TASKS = 20_000


@final
class PopularNicheDenoiser(ConditionalDenoiser):
    """``E[x_0 | m]`` and the standard deviations, given means ``m`` with a precision of each arm.

    Exact, arm by arm; ``x_0`` is the standardised ``(μ - shift)/scale``. As a network would, it
    tells mean and standard deviation of each arm, and not how arms go together.

    Attributes:
        law: the exact posterior, in the user's units.
        shift, scale: the standardisation.
        below: the Gaussian with the law's mean and covariance, standardised; None if not needed.
    """

    n_arms: int = eqx.field(static=True)
    law: ExactPopularNicheBelief
    shift: Float[Array, ""]
    scale: Float[Array, ""]
    below: GaussianDenoiser | None

    def __init__(self, units: Units, below: GaussianDenoiser | None = None) -> None:
        self.law = ExactPopularNicheBelief()
        self.n_arms = self.law.n_arms
        self.shift, self.scale = jnp.float32(units.shift), jnp.float32(units.scale)
        self.below = below

    def given(self, observation: Observation) -> Marginals:
        """By the sums over groups; a precision p is ``p/scale²`` in the user's units."""
        seen = self.shift + self.scale * observation.mean
        posterior = self.law.given(seen, observation.precision / self.scale**2)
        mean, std = self.law.moments_of(posterior)
        return Marginals((mean - self.shift) / self.scale, std / self.scale)

    def of_gaussian(self, push: Vector, precision: Vector) -> Marginals | None:
        """Of the Gaussian with this law's covariance."""
        return None if self.below is None else self.below.of_gaussian(push, precision)

    def conditional_variance(self, x: Vector, level: NoiseLevel) -> Vector:
        """``Var[x_0^a | x_ℓ]`` of each arm."""
        return self.given(Observation.of_latent(x, level)).std ** 2

    def recipe(self) -> dict[str, object]:
        """Its kind. Folders of it cannot be loaded: :func:`exact_prior` makes it anew."""
        return {"kind": "popular-niche-exact", "n_arms": self.n_arms}


def exact_prior(
    schedule: Schedule | None = None, draws: int = 128, seed: Seed = 7
) -> DiffusionPrior:
    """The diffusion prior of the law itself, τ by Monte Carlo.

    ``τ_ℓ² = E[Var(x_0 | x_ℓ)]``: the variance inside is exact; the mean is over ``draws`` tasks and
    the 100 arms of a kind, niche or popular, which all have the same law.
    """
    schedule = Schedule.linear() if schedule is None else schedule
    generator = as_generator(seed)
    tasks = PopularNiche().sample(TASKS, seed=generator).astype(np.float64)
    units = Units(float(tasks.mean()), float(tasks.std()), *explainable(tasks))
    x_0 = units.standard(tasks)
    below = GaussianDenoiser(Gaussian(x_0.mean(0), np.cov(x_0.T)))
    denoiser = PopularNicheDenoiser(units, below)
    some = jnp.asarray(x_0[:draws], jnp.float32)
    noise = jnp.asarray(generator.standard_normal(some.shape), jnp.float32)
    squared = np.square(mean_error_std(denoiser.conditional_variance, some, noise, schedule))
    niche = PopularNiche.is_niche
    of_kinds = [squared[:, kind].mean(1, keepdims=True) for kind in (niche, ~niche)]
    tau = np.sqrt(np.where(niche, *of_kinds))
    return DiffusionPrior(denoiser, tau, schedule=schedule, units=units)
