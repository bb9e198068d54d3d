"""Evidence as noise: a latent and the evidence are both Gaussian observations of a task.

The latent ``x_ℓ = √ᾱ x_0 + √(1-ᾱ) z`` says that ``x_0`` is about ``x_ℓ/√ᾱ``, with the precision
``ᾱ/(1-ᾱ)`` in every arm. The evidence says that it is about ``y``, with the precision ``1/σ²`` in
the arms that were observed. Together they are one observation, whose precisions add up arm by arm.
"""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from jaxtyping import Array, Float

from diffts.diffusion.denoiser import Denoiser, Vector
from diffts.diffusion.schedule import NoiseLevel
from diffts.evidence import Evidence
from diffts.seeding import KeyArray

#: No observation is more precise, standardised: an exact one counts as this.
MOST_PRECISE = 1e10
#: Beyond the outermost quantiles, a deviate moves a value by this share of the standard deviation.
FLATTEST = 0.05


class Observation(eqx.Module):
    """``mean^a ~ N(x_0^a, 1/precision^a)``, independent arm by arm; standardised.

    Attributes:
        mean: what was seen of each arm, ``(K,)``; 0 where nothing was.
        precision: one over the variance of that; 0 where nothing was seen.
    """

    mean: Float[Array, " K"]
    precision: Float[Array, " K"]

    @staticmethod
    def of_latent(x: Vector, level: NoiseLevel) -> Observation:
        """What a latent ``x = x_ℓ`` says of ``x_0``."""
        precision = jnp.broadcast_to((level.signal / level.noise) ** 2, x.shape)
        return Observation(x / level.signal, precision)

    @staticmethod
    def of_evidence(evidence: Evidence) -> Observation:
        """What standardised evidence says of ``x_0``."""
        known = 1.0 / jnp.maximum(evidence.std**2, 1.0 / MOST_PRECISE)
        mean = jnp.where(evidence.mask, evidence.mean, 0.0)
        return Observation(mean, jnp.where(evidence.mask, known, 0.0))

    def merged(self, other: Observation) -> Observation:
        """Both as one: precisions add up, means are weighted by them."""
        total = self.precision + other.precision
        weighted = self.precision * self.mean + other.precision * other.mean
        return Observation(weighted / jnp.where(total > 0, total, 1.0), total)


class JointNoise(eqx.Module):
    """How the arms' errors ``x_0 - E[x_0]`` go together, where that is known: Gaussian noise."""

    std: eqx.AbstractVar[Float[Array, " K"]]

    @abc.abstractmethod
    def error(self, key: KeyArray) -> Vector:
        """A draw with the covariance of ``x_0``, around 0; its standard deviations are ``std``."""

    def deviate(self, key: KeyArray) -> Vector:
        """The same in standard deviations: the same in all units."""
        return self.error(key) / jnp.where(self.std > 0, self.std, 1.0)


class Doubt(eqx.Module):
    """Another law of each arm, a Gaussian, that may be right with some probability.

    Attributes:
        mean, std: ``(K,)``.
        weight: the probability.
    """

    mean: Float[Array, " K"]
    std: Float[Array, " K"]
    weight: float = eqx.field(static=True)

    def scaled(self, shift: Any, scale: Any) -> Doubt:
        """That of ``shift + scale · x_0``; both may be of each arm."""
        return Doubt(shift + scale * self.mean, scale * self.std, self.weight)

    def widened(self, value: Vector, level: Float[Array, ""]) -> Vector:
        """The quantile ``value``, or this law's own if that lies further out.

        A mixture has at least ``weight`` of this law beyond any value: its quantile of level u is
        at least this law's of level ``1 - (1-u)/weight``, and so on the other side.
        """
        tail = jnp.minimum(level, 1.0 - level) / self.weight
        deviate = ndtri(jnp.clip(tail, 1e-7, 0.5))  # beyond its median it says nothing
        upper, says = level > 0.5, tail < 0.5
        out = jnp.where(upper, self.mean - self.std * deviate, self.mean + self.std * deviate)
        further = jnp.where(upper, jnp.maximum(value, out), jnp.minimum(value, out))
        return jnp.where(says, further, value)


class Marginals(eqx.Module):
    """What is thought of each arm's ``x_0``: mean, standard deviation, and quantiles if known.

    Attributes:
        mean, std: ``(K,)``.
        quantiles: at ``levels``, ``(K, Q)``, not decreasing; None where the law is a Gaussian.
        levels: the levels of the quantiles, as standard normal deviates.
        joint: how the arms go together; None where only each arm's own law is known.
        doubts: laws that may be right instead. They widen both kinds of quantile, no more.
    """

    mean: Float[Array, " K"]
    std: Float[Array, " K"]
    quantiles: Float[Array, "K Q"] | None = None
    levels: tuple[float, ...] = eqx.field(static=True, default=())
    joint: JointNoise | None = None
    doubts: tuple[Doubt, ...] = ()

    def quantile(self, level: Float[Array, ""]) -> Vector:
        """The quantile of each arm; between two levels, interpolated on the scale of a normal."""
        return self._doubted(self.at(jnp.broadcast_to(ndtri(level), self.mean.shape)), level)

    def normal_quantile(self, level: Float[Array, ""]) -> Vector:
        """``mean + Φ⁻¹(level) std``: what an arm counts in a sum of many, whatever its own law."""
        return self._doubted(self.mean + ndtri(level) * self.std, level)

    def _doubted(self, value: Vector, level: Float[Array, ""]) -> Vector:
        for doubt in self.doubts:
            value = doubt.widened(value, level)
        return value

    def scaled(self, shift: Any, scale: Any) -> Marginals:
        """Those of ``shift + scale · x_0``."""
        quantiles = None if self.quantiles is None else shift + scale * self.quantiles
        doubts = tuple(doubt.scaled(shift, scale) for doubt in self.doubts)
        mean, std = shift + scale * self.mean, scale * self.std
        return Marginals(mean, std, quantiles, self.levels, self.joint, doubts)

    def shifted(self, by: Vector) -> Marginals:
        """Those of ``x_0 + by``."""
        quantiles = None if self.quantiles is None else self.quantiles + by[:, None]
        doubts = tuple(doubt.scaled(by, 1.0) for doubt in self.doubts)
        return Marginals(self.mean + by, self.std, quantiles, self.levels, self.joint, doubts)

    def clipped(self, low: Any, high: Any) -> Marginals:
        """With means and quantiles within limits, of each arm or of all."""
        low, high = (jnp.broadcast_to(jnp.asarray(one), self.mean.shape) for one in (low, high))
        quantiles = self.quantiles
        if quantiles is not None:
            quantiles = jnp.clip(quantiles, low[:, None], high[:, None])
        mean = jnp.clip(self.mean, low, high)
        return Marginals(mean, self.std, quantiles, self.levels, self.joint, self.doubts)

    def at(self, deviate: Vector) -> Vector:
        """Each arm's value at a standard normal deviate of its own (a random one: a draw)."""
        if self.quantiles is None:
            return self.mean + self.std * deviate
        levels = jnp.asarray(np.asarray(self.levels, np.float32))
        right = jnp.clip(jnp.searchsorted(levels, deviate), 1, len(self.levels) - 1)
        low, high = (
            jnp.take_along_axis(self.quantiles, (right + i)[:, None], axis=1)[:, 0] for i in (-1, 0)
        )
        inside = jnp.clip(deviate, levels[0], levels[-1])
        share = (inside - levels[right - 1]) / (levels[right] - levels[right - 1])
        # Beyond the outermost levels it goes on as it did before them, but never flat: no value is
        # out of reach for ever; and no wider than a Gaussian.
        slope = (high - low) / (levels[right] - levels[right - 1])
        slope = jnp.clip(slope, FLATTEST * self.std, self.std)
        return low + share * (high - low) + slope * (deviate - inside)


class ConditionalDenoiser(Denoiser):
    """A denoiser that takes a noise level of each arm: it answers ``E[x_0 | x_ℓ, y]`` itself."""

    @abc.abstractmethod
    def given(self, observation: Observation) -> Marginals:
        """What is thought of ``x_0``, given one observation of each arm."""

    def of_gaussian(self, push: Vector, precision: Vector) -> Marginals | None:
        """``N(C push, C)`` with ``C = (Σ⁻¹ + diag(precision))⁻¹`` and Σ the prior's covariance.

        What a centred Gaussian would think, given means ``push / precision`` (precisions above 0).
        None where the covariance is not known.
        """
        del push, precision
        return None

    def __call__(self, x: Vector, level: NoiseLevel) -> Vector:
        """``E[x_0 | x_ℓ]``: the same noise level in every arm."""
        return self.given(Observation.of_latent(x, level)).mean
