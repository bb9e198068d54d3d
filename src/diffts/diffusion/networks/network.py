"""What a network is, and how its output becomes an estimate of ``x_0``."""

from __future__ import annotations

import abc
import json
from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from diffts.diffusion.denoiser import Denoiser
from diffts.diffusion.exact_denoisers import GaussianDenoiser
from diffts.diffusion.schedule import NoiseLevel
from diffts.errors import InvalidInputError
from diffts.seeding import KeyArray
from diffts.validation import whole_number

Prediction = Literal["clean", "noise", "velocity", "residual"]
PREDICTIONS = ("clean", "noise", "velocity", "residual")
Compute = Literal["float32", "bfloat16"]
COMPUTE = ("float32", "bfloat16")


class Network(eqx.Module):
    """A function ``R^K × {1 … L} → R^K`` with parameters; one vector at a time."""

    n_arms: eqx.AbstractVar[int]

    @abc.abstractmethod
    def __call__(self, x: Float[Array, " K"], step: Int[Array, ""]) -> Float[Array, " K"]:
        """The raw output for the latent ``x = x_ℓ`` at step ``ℓ`` of the full schedule."""

    @abc.abstractmethod
    def evaluate(self, x: Float[Array, " K"], step: Int[Array, ""]) -> Float[Array, " K"]:
        """The same, in the form that is fastest to evaluate; a call is fastest to train.

        ``evaluate = __call__`` where one form serves both.
        """


class NetworkDenoiser(Denoiser):
    """A network and what it was trained to predict.

    With ``compute='bfloat16'`` the network's arithmetic is done in 16 bits, by weights that are
    kept in 32: about twice as fast on a GPU, and with errors of half a percent.

    ================ ========================== =======================================
    ``predicts``     training target            estimate ``x̂_0``
    ================ ========================== =======================================
    ``'clean'``      ``x_0``                    ``f``
    ``'noise'``      ``z``                      ``(x - √(1-ᾱ) f) / √ᾱ``
    ``'velocity'``   ``√ᾱ z - √(1-ᾱ) x_0``      ``√ᾱ x - √(1-ᾱ) f``
    ``'residual'``   ``(x_0 - g(x)) / s``       ``g(x) + s f``
    ================ ========================== =======================================

    In the last row ``g`` is the exact denoiser of a Gaussian with the data's mean and covariance
    (``base``) and ``s`` the root mean square of its error: the network learns only what a Gaussian
    does not know, and that at the same scale at every noise level.
    """

    network: Network
    predicts: Prediction = eqx.field(static=True)
    options: str = eqx.field(static=True)  # JSON: the name and the options it was built with
    n_arms: int = eqx.field(static=True)
    compute: Compute = eqx.field(static=True, default="float32")
    base: GaussianDenoiser | None = None

    def __check_init__(self) -> None:
        if (self.predicts == "residual") != (self.base is not None):
            raise InvalidInputError("base: a Gaussian denoiser goes with predicts='residual'")

    def __call__(self, x: Float[Array, " K"], level: NoiseLevel) -> Float[Array, " K"]:
        """``x̂_0`` from the network's output ``f(x_ℓ, ℓ)``."""
        return self._estimate(x, self.output(x, level, training=False), level)

    def trainable(self, x: Float[Array, " K"], level: NoiseLevel) -> Float[Array, " K"]:
        """The same estimate, in the form that is fastest to differentiate."""
        return self._estimate(x, self.output(x, level), level)

    def output(
        self, x: Float[Array, " K"], level: NoiseLevel, training: bool = True
    ) -> Float[Array, " K"]:
        """What the network says of ``x_ℓ``; with ``training`` in the form to differentiate."""
        # In the type to compute in; the weights themselves stay float32.
        network, x = jax.tree.map(
            lambda leaf: leaf.astype(self.compute) if eqx.is_inexact_array(leaf) else leaf,
            (self.network, x),
        )
        form = network if training else network.evaluate
        return form(x, level.step).astype(jnp.float32)

    def error_weight(self, level: NoiseLevel) -> Float[Array, ""]:
        """Squared error of the network's own output for a unit of squared error of ``x̂_0``."""
        if self.predicts == "clean":
            return jnp.ones_like(level.noise)
        if self.predicts == "noise":
            return (level.signal / level.noise) ** 2
        if self.predicts == "velocity":
            return 1.0 / level.noise**2
        return 1.0 / self._base_error(level) ** 2

    def _estimate(
        self, x: Float[Array, " K"], output: Float[Array, " K"], level: NoiseLevel
    ) -> Float[Array, " K"]:
        if self.predicts == "clean":
            return output
        if self.predicts == "noise":
            return (x - level.noise * output) / level.signal
        if self.predicts == "velocity":
            return level.signal * x - level.noise * output
        return self._fixed_base()(x, level) + self._base_error(level) * output

    def _fixed_base(self) -> GaussianDenoiser:
        """The Gaussian's denoiser, which is not trained."""
        fixed: GaussianDenoiser = jax.tree.map(jax.lax.stop_gradient, self.base)
        return fixed

    def _base_error(self, level: NoiseLevel) -> Float[Array, ""]:
        """Root mean square error of the Gaussian's denoiser over the arms."""
        error = self._fixed_base().error_std(level)
        return jnp.maximum(jnp.sqrt(jnp.mean(error**2)), 1e-4)

    def target(
        self, x_0: Float[Array, " K"], noise: Float[Array, " K"], level: NoiseLevel
    ) -> Float[Array, " K"]:
        """What the network should have said for ``x_ℓ = √ᾱ x_0 + √(1-ᾱ) noise``."""
        if self.predicts == "clean":
            return x_0
        if self.predicts == "noise":
            return noise
        if self.predicts == "velocity":
            return level.signal * noise - level.noise * x_0
        x = level.signal * x_0 + level.noise * noise
        return (x_0 - self._fixed_base()(x, level)) / self._base_error(level)

    def recipe(self) -> dict[str, object]:
        """Name and options of the network; the arrays hold the weights."""
        recipe: dict[str, object] = {
            "kind": "network",
            "n_arms": self.n_arms,
            "predicts": self.predicts,
            "compute": self.compute,
            **json.loads(self.options),
        }
        return recipe


Layers = tuple[eqx.nn.Linear, eqx.nn.Linear]


def embedding_layers(size: int, keys: Array | Sequence[KeyArray], growth: int = 1) -> Layers:
    """The layers of :func:`embed_step`, from ``size`` sines and cosines to ``growth · size``."""
    if whole_number("embedding_size", size, 4) % 2:
        raise InvalidInputError(f"embedding_size: must be even, got {size}")
    outputs = growth * size
    return (
        eqx.nn.Linear(size, outputs, key=keys[0]),
        eqx.nn.Linear(outputs, outputs, key=keys[1]),
    )


def embed_step(layers: Layers, step: Int[Array, ""], like: Array) -> Float[Array, " E"]:
    """The step as a network's blocks see it, in the type of ``like``."""
    embedding = sinusoidal_embedding(step, layers[0].weight.shape[1]).astype(like.dtype)
    for layer in layers:
        embedding = jax.nn.silu(layer(embedding))
    return embedding


def sinusoidal_embedding(step: Int[Array, ""], size: int) -> Float[Array, " size"]:
    """Sines and cosines of the step, at ``size/2`` frequencies from 1 down to 1e-4."""
    frequency = jnp.exp(-jnp.log(10_000.0) * jnp.arange(size // 2) / (size // 2 - 1))
    angle = step.astype(jnp.float32) * frequency
    return jnp.concatenate([jnp.sin(angle), jnp.cos(angle)])
