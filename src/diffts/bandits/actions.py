"""Actions that people know: one arm, one of those on offer, the best k; and paths."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy.typing import ArrayLike

from diffts.bandits.paths import ShortestPath
from diffts.bandits.playable import Actions
from diffts.validation import whole_number

__all__ = ["Actions", "BestArm", "BestOffered", "ShortestPath", "TopK"]


class BestArm(Actions):
    """Play one arm: the one of the largest value.

    >>> BestArm(3).best(jnp.array([0.1, 0.9, 0.5])).tolist()
    [False, True, False]
    """

    n_arms: int = eqx.field(static=True)

    @property
    def single_arm(self) -> bool:
        """It is."""
        return True

    @property
    def arm_by_arm(self) -> bool:
        """They do."""
        return True

    @property
    def offered(self) -> Bool[Array, " K"]:
        """All of them."""
        return jnp.ones(self.n_arms, bool)

    def best(self, values: Float[Array, " K"]) -> Bool[Array, " K"]:
        """The arm of the largest value, the first among equals."""
        # On a CPU an argmax of floats takes longer than these two steps.
        is_largest = values == jnp.max(values)
        return jnp.arange(self.n_arms) == jnp.argmax(is_largest)

    def nearly_best(
        self, values: Float[Array, " K"], tolerance: Float[Array, ""], favour: Float[Array, " K"]
    ) -> Bool[Array, " K"]:
        """The most favoured arm within the tolerance; of equals, the one of the largest value."""
        return _favoured(self.offered, values, tolerance, favour)

    def rivals(self, values: Float[Array, " K"]) -> Float[Array, " K"]:
        """The best of the others."""
        return _rivals(values, 1)

    def cover(self) -> Bool[Array, "n K"]:
        """Each arm once."""
        return jnp.eye(self.n_arms, dtype=bool)


class BestOffered(Actions):
    """Play one arm of those on offer: the one of the largest value.

    >>> BestOffered([True, False, True]).best(jnp.array([0.1, 0.9, 0.5])).tolist()
    [False, False, True]
    """

    n_arms: int = eqx.field(static=True)
    mask: Bool[Array, " K"]

    def __init__(self, offered: ArrayLike) -> None:
        self.mask = jnp.asarray(offered, bool)
        self.n_arms = len(self.mask)

    @property
    def offered(self) -> Bool[Array, " K"]:
        """Those given."""
        return self.mask

    @property
    def single_arm(self) -> bool:
        """It is."""
        return True

    @property
    def arm_by_arm(self) -> bool:
        """They do."""
        return True

    def best(self, values: Float[Array, " K"]) -> Bool[Array, " K"]:
        """The arm of the largest value on offer, the first among equals."""
        on_offer = jnp.where(self.offered, values, -jnp.inf)
        # Neither values of -∞ nor NaN must let an arm win that is not on offer.
        is_largest = self.offered & ~(on_offer < jnp.max(on_offer))
        return jnp.arange(self.n_arms) == jnp.argmax(is_largest)

    def nearly_best(
        self, values: Float[Array, " K"], tolerance: Float[Array, ""], favour: Float[Array, " K"]
    ) -> Bool[Array, " K"]:
        """The most favoured arm on offer within the tolerance; of equals, the best one."""
        return _favoured(self.offered, values, tolerance, favour)

    def rivals(self, values: Float[Array, " K"]) -> Float[Array, " K"]:
        """The best of the others on offer."""
        return _rivals(jnp.where(self.offered, values, -jnp.inf), 1)

    def cover(self) -> Bool[Array, "n K"]:
        """Each arm on offer once; nothing in the other rows."""
        return jnp.eye(self.n_arms, dtype=bool) & self.offered


class TopK(Actions):
    """Play ``k`` arms: those of the largest values.

    >>> TopK(4, 2).best(jnp.array([0.1, 0.9, 0.5, 0.6])).tolist()
    [False, True, False, True]
    """

    n_arms: int = eqx.field(static=True)
    k: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        whole_number("k", self.k, 1, self.n_arms)

    @property
    def single_arm(self) -> bool:
        """It is a set, even of one."""
        return False

    @property
    def arm_by_arm(self) -> bool:
        """They do, for k places."""
        return True

    @property
    def offered(self) -> Bool[Array, " K"]:
        """All of them."""
        return jnp.ones(self.n_arms, bool)

    def best(self, values: Float[Array, " K"]) -> Bool[Array, " K"]:
        """The ``k`` arms of the largest values (the first ones among equals)."""
        _, arms = jax.lax.top_k(values, self.k)
        return jnp.zeros(self.n_arms, bool).at[arms].set(True)

    def nearly_best(
        self, values: Float[Array, " K"], tolerance: Float[Array, ""], favour: Float[Array, " K"]
    ) -> Bool[Array, " K"]:
        """The last places go to the most favoured arms within the tolerance of the last one."""
        last = jax.lax.top_k(values, self.k)[0][-1]
        close = jnp.abs(values - last) <= tolerance
        # What is clearly better first, then what is close by favour, then by value.
        group = jnp.where(close, 1, jnp.where(values > last, 0, 2))
        by_favour = jnp.lexsort((-values, jnp.where(close, -favour, 0.0), group))
        return jnp.zeros(self.n_arms, bool).at[by_favour[: self.k]].set(True)

    def rivals(self, values: Float[Array, " K"]) -> Float[Array, " K"]:
        """For an arm inside, the best one outside; for one outside, the worst one inside."""
        return _rivals(values, self.k)

    def cover(self) -> Bool[Array, "n K"]:
        """Blocks of ``k`` arms, the last one overlapping."""
        starts = [*range(0, self.n_arms - self.k, self.k), self.n_arms - self.k]
        arms = np.arange(self.n_arms)
        return jnp.asarray([(arms >= start) & (arms < start + self.k) for start in starts])


def _favoured(
    offered: Bool[Array, " K"],
    values: Float[Array, " K"],
    tolerance: Float[Array, ""],
    favour: Float[Array, " K"],
) -> Bool[Array, " K"]:
    """The most favoured arm within the tolerance of the best; of equals, the better one.

    As for ``best``: neither values of -∞ nor NaN let an arm win that is not on offer.
    """
    close = _largest(offered, values, tolerance)
    finalists = _largest(close, favour)
    return jnp.arange(len(values)) == jnp.argmax(_largest(finalists, values))


def _largest(
    among: Bool[Array, " K"], values: Float[Array, " K"], tolerance: Float[Array, ""] | float = 0.0
) -> Bool[Array, " K"]:
    """Those among some arms whose value is within a tolerance of the largest among them."""
    largest = jnp.max(jnp.where(among, values, -jnp.inf))
    return among & ~(values < largest - tolerance)


def _rivals(values: Float[Array, " K"], k: int) -> Float[Array, " K"]:
    """The best value outside of the k largest for those inside, the k-th largest for the others.

    >>> _rivals(jnp.array([3.0, 1.0, 2.0]), 1).tolist()
    [2.0, 3.0, 3.0]
    """
    if k == len(values):  # nothing is outside
        return jnp.full(values.shape, -jnp.inf)
    largest = jax.lax.top_k(values, k + 1)[0]
    return jnp.where(values >= largest[k - 1], largest[k], largest[k - 1])
