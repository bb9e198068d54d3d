"""What a denoiser is: ``h(x_ℓ, ℓ)``, an estimate of ``x_0`` from the latent ``x_ℓ``."""

from __future__ import annotations

import abc
from typing import ClassVar

import equinox as eqx
from jaxtyping import Array, Float

from diffts.diffusion.schedule import NoiseLevel

Vector = Float[Array, " K"]  # a value for each arm


class Denoiser(eqx.Module):
    """A function of one latent and its noise level; batches are ``jax.vmap``'s business.

    Latents and estimates are in standardised units (the prior holds shift and scale).
    """

    n_arms: eqx.AbstractVar[int]

    #: The sampler that suits it, and the length of its chain (None: all L steps).
    default_sampler: ClassVar[str] = "paper"
    default_steps: ClassVar[int | None] = None

    @abc.abstractmethod
    def __call__(self, x: Float[Array, " K"], level: NoiseLevel) -> Float[Array, " K"]:
        """Estimate ``x̂_0 = h(x_ℓ, ℓ)`` from ``x = x_ℓ``."""

    @abc.abstractmethod
    def recipe(self) -> dict[str, object]:
        """What a file must hold, beside the arrays, to build this denoiser again."""
