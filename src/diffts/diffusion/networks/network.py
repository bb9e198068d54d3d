"""What a network is, and how its output becomes an estimate of ``x_0``."""

from __future__ import annotations

import abc
import json
from typing import Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from diffts.diffusion.denoiser import Denoiser
from diffts.diffusion.schedule import NoiseLevel

Prediction = Literal["clean", "noise", "velocity"]
PREDICTIONS = ("clean", "noise", "velocity")


class Network(eqx.Module):
    """A function ``R^K × {1 … L} → R^K`` with parameters; one vector at a time."""

    n_arms: eqx.AbstractVar[int]

    @abc.abstractmethod
    def __call__(self, x: Float[Array, " K"], step: Int[Array, ""]) -> Float[Array, " K"]:
        """The raw output for the latent ``x = x_ℓ`` at step ``ℓ`` of the full schedule."""

    def evaluate(self, x: Float[Array, " K"], step: Int[Array, ""]) -> Float[Array, " K"]:
        """The same, in the form that is fastest to evaluate; a call is fastest to train."""
        return self(x, step)


class NetworkDenoiser(Denoiser):
    """A network and what it was trained to predict.

    ================ ========================== =======================================
    ``predicts``     training target            estimate ``x̂_0``
    ================ ========================== =======================================
    ``'clean'``      ``x_0``                    ``f``
    ``'noise'``      ``z``                      ``(x - √(1-ᾱ) f) / √ᾱ``
    ``'velocity'``   ``√ᾱ z - √(1-ᾱ) x_0``      ``√ᾱ x - √(1-ᾱ) f``
    ================ ========================== =======================================
    """

    network: Network
    predicts: Prediction = eqx.field(static=True)
    options: str = eqx.field(static=True)  # JSON: the name and the options it was built with
    n_arms: int = eqx.field(static=True)

    def __call__(self, x: Float[Array, " K"], level: NoiseLevel) -> Float[Array, " K"]:
        """``x̂_0`` from the network's output ``f(x_ℓ, ℓ)``."""
        return self._estimate(x, self.network.evaluate(x, level.step), level)

    def trainable(self, x: Float[Array, " K"], level: NoiseLevel) -> Float[Array, " K"]:
        """The same estimate, in the form that is fastest to differentiate."""
        return self._estimate(x, self.network(x, level.step), level)

    def error_weight(self, level: NoiseLevel) -> Float[Array, ""]:
        """Squared error of the network's own output for a unit of squared error of ``x̂_0``."""
        if self.predicts == "clean":
            return jnp.ones_like(level.noise)
        if self.predicts == "noise":
            return (level.signal / level.noise) ** 2
        return 1.0 / level.noise**2

    def _estimate(
        self, x: Float[Array, " K"], output: Float[Array, " K"], level: NoiseLevel
    ) -> Float[Array, " K"]:
        if self.predicts == "clean":
            return output
        if self.predicts == "noise":
            return (x - level.noise * output) / level.signal
        return level.signal * x - level.noise * output

    def target(
        self, x_0: Float[Array, " K"], noise: Float[Array, " K"], level: NoiseLevel
    ) -> Float[Array, " K"]:
        """What the network should have said for ``x_ℓ = √ᾱ x_0 + √(1-ᾱ) noise``."""
        if self.predicts == "clean":
            return x_0
        if self.predicts == "noise":
            return noise
        return level.signal * noise - level.noise * x_0

    def recipe(self) -> dict[str, object]:
        """Name and options of the network; the arrays hold the weights."""
        recipe: dict[str, object] = {
            "kind": "network",
            "n_arms": self.n_arms,
            "predicts": self.predicts,
            **json.loads(self.options),
        }
        return recipe


def sinusoidal_embedding(step: Int[Array, ""], size: int) -> Float[Array, " size"]:
    """Sines and cosines of the step, at ``size/2`` frequencies from 1 down to 1e-4."""
    frequency = jnp.exp(-jnp.log(10_000.0) * jnp.arange(size // 2) / (size // 2 - 1))
    angle = step.astype(jnp.float32) * frequency
    return jnp.concatenate([jnp.sin(angle), jnp.cos(angle)])
