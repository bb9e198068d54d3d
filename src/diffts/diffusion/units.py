"""Units: the user's values, and the standardised ones that denoisers work with."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy.typing import NDArray

from diffts.diffusion.schedule import NoiseLevel
from diffts.errors import InvalidInputError
from diffts.evidence import Evidence

AnyValues = TypeVar("AnyValues", bound=Any)

#: An observation with a larger standard deviation, standardised, tells nothing; its square and
#: the products of squares would be too large for float32.
WEAKEST = 1e4


class Past(NamedTuple):
    """What is known of past tasks, on the host and in double precision, all ``(N, K)``.

    Exact means are a ``Past`` without noise or gaps.
    """

    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    mask: Bool[np.ndarray, "N K"]

    def rows(self, which: Any) -> Past:
        """Some of the tasks."""
        return Past(*(leaf[which] for leaf in self))


class Limits(NamedTuple):
    """The smallest and the largest mean reward that a prior can explain, standardised.

    They lie far outside of what is likely, so that they change nothing of a sound chain.
    """

    low: Float[Array, ""]
    high: Float[Array, ""]

    def of_estimate(self, x_0: Float[Array, " K"]) -> Float[Array, " K"]:
        """``x_0`` within the limits."""
        return jnp.clip(x_0, self.low, self.high)

    def of_latent(self, x: Float[Array, " K"], level: NoiseLevel) -> Float[Array, " K"]:
        """``x_ℓ`` within what such an ``x_0`` can be diffused to (8 standard deviations)."""
        spread = 8.0 * level.noise
        return jnp.clip(x, level.signal * self.low - spread, level.signal * self.high + spread)

    def of_draw(self, x_0: Float[Array, " K"], evidence: Evidence) -> Float[Array, " K"]:
        """``x_0`` within the limits; an arm that was observed beyond them, up to what was seen."""
        return jnp.clip(x_0, *self.around(evidence))

    def around(self, evidence: Evidence) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        """The limits of each arm: wide enough for what was seen of it."""
        low = jnp.where(evidence.mask, jnp.minimum(self.low, evidence.mean), self.low)
        high = jnp.where(evidence.mask, jnp.maximum(self.high, evidence.mean), self.high)
        return low, high


class Units(NamedTuple):
    """A user's value is ``shift + scale ·`` the standardised one; it lies in ``[low, high]``."""

    shift: Any
    scale: Any
    low: Any = -np.inf
    high: Any = np.inf

    @staticmethod
    def of_past(past: Past) -> Units:
        """Units in which past tasks have about mean 0 and variance 1, their noise taken out."""
        values, std = past.mean[past.mask], past.std[past.mask]
        total = float(values.var())
        if total == 0.0:
            raise InvalidInputError("past: all observations are equal; there is nothing to learn")
        # Where noise is nearly all there is, its estimated share must not leave next to nothing.
        scale = float(np.sqrt(max(total - float((std**2).mean()), 0.01 * total)))
        telling = std <= 10.0 * scale
        limits = explainable(values[telling] if telling.any() else values)
        return Units(float(values.mean()), scale, *limits)

    @property
    def limits(self) -> Limits:
        """The smallest and the largest value, standardised."""
        return Limits((self.low - self.shift) / self.scale, (self.high - self.shift) / self.scale)

    def standardise(self, evidence: Evidence) -> Evidence:
        """The same evidence in standardised units (for use inside ``jit``)."""
        std = evidence.std / self.scale
        tells = evidence.mask & (std < WEAKEST)
        mean = jnp.where(tells, (evidence.mean - self.shift) / self.scale, 0.0)
        return Evidence(mean, jnp.where(tells, std, 0.0), tells)

    def standard_past(self, past: Past) -> Evidence:
        """Past tasks in standardised units."""
        return Evidence(self.standard(past.mean), past.std / self.scale, past.mask)

    def standard(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """A user's values, standardised on the host."""
        standardised: NDArray[np.float64] = (
            np.asarray(values, np.float64) - float(self.shift)
        ) / float(self.scale)
        return standardised

    def restore(self, values: AnyValues) -> AnyValues:
        """Standardised values in the user's units, on host or device."""
        restored: AnyValues = self.shift + self.scale * values
        return restored


def explainable(values: NDArray[np.floating[Any]]) -> tuple[float, float]:
    """The limits of a prior learned from these values: once their range beyond it.

    Wide enough for the draws of a network that is only roughly right: half of the range would be
    met now and then by the built-in prior of Popular and Niche.

    >>> explainable(np.array([0.0, 1.0, 0.25]))
    (-1.0, 2.0)
    """
    lowest, highest = float(values.min()), float(values.max())
    width = max(highest - lowest, 1e-5 * max(abs(lowest), abs(highest)), 1e-30)
    return lowest - width, highest + width
