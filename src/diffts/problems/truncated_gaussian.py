"""Gaussians cut off at both ends, in float32: mass, draws, mean and variance."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.special import log_ndtr, ndtri
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float


class Truncated(eqx.Module):
    """Standard Gaussians between two ends each, all worked out from the lighter side.

    Attributes:
        low, high: the ends.
        flip: whether the interval lies above 0, and is looked at from above.
        below, above: ``Φ`` at the ends, of the mirrored interval where it is flipped.
        log_mass: ``log(Φ(high) - Φ(low))``.
    """

    low: Float[Array, "*s"]
    high: Float[Array, "*s"]
    flip: Bool[Array, "*s"]
    below: Float[Array, "*s"]
    above: Float[Array, "*s"]
    log_mass: Float[Array, "*s"]

    @staticmethod
    def between(low: Float[Array, "*s"], high: Float[Array, "*s"]) -> Truncated:
        """Work it out.

        >>> far = Truncated.between(jnp.array([-30.0, 30.0]), jnp.array([0.0, 50.0]))
        >>> far.log_mass.round().tolist()
        [-1.0, -454.0]
        """
        flip = low > 0
        bottom = log_ndtr(jnp.where(flip, -high, low))
        top = log_ndtr(jnp.where(flip, -low, high))
        log_mass = top + jnp.log1p(-jnp.exp(jnp.minimum(bottom - top, -1e-6)))
        return Truncated(low, high, flip, jnp.exp(bottom), jnp.exp(top), log_mass)

    def at(self, uniform: Float[Array, "*s"]) -> Float[Array, "*s"]:
        """The inverse distribution function: a draw, if its argument is uniform.

        Beyond 12 or so float32 holds no tail; the end that is nearer to 0 stands for it.
        """
        upwards = jnp.where(self.flip, 1.0 - uniform, uniform)
        share = self.below + upwards * (self.above - self.below)
        z = ndtri(jnp.clip(share, 1e-37, 1.0 - 6e-8))
        return jnp.clip(jnp.where(self.flip, -z, z), self.low, self.high)

    def moments(self) -> tuple[Float[Array, "*s"], Float[Array, "*s"]]:
        """Mean ``a - b`` and variance ``1 + a·low - b·high - (a - b)²``.

        Here ``a = φ(low)/Z`` and ``b = φ(high)/Z``, with Z the mass between.
        """
        at_low = jnp.exp(norm.logpdf(self.low) - self.log_mass)
        at_high = jnp.exp(norm.logpdf(self.high) - self.log_mass)
        mean = at_low - at_high
        variance = 1.0 + at_low * self.low - at_high * self.high - mean**2
        return mean, jnp.maximum(variance, 0.0)
