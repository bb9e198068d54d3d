"""Actions: which sets of base arms may be played, and the best one under given values.

An action is a mask over the K base arms. Its value is the sum of its arms' values.
"""

from __future__ import annotations

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy.typing import ArrayLike, NDArray

from diffts.errors import InvalidInputError
from diffts.validation import whole_number


class Actions(eqx.Module):
    """The actions of a problem; its methods are functions of one task, for use inside ``jit``."""

    n_arms: eqx.AbstractVar[int]

    @property
    @abc.abstractmethod
    def single_arm(self) -> bool:
        """Whether an action is one arm."""

    @abc.abstractmethod
    def best(self, values: Float[Array, " K"]) -> Bool[Array, " K"]:
        """The action of the largest total value."""

    @property
    @abc.abstractmethod
    def arm_by_arm(self) -> bool:
        """Whether an action is a number of arms on offer, whichever: arms then compete one by one."""

    @property
    @abc.abstractmethod
    def offered(self) -> Bool[Array, " K"]:
        """The arms that some action plays."""

    @abc.abstractmethod
    def nearly_best(
        self, values: Float[Array, " K"], tolerance: Float[Array, ""], favour: Float[Array, " K"]
    ) -> Bool[Array, " K"]:
        """Of the actions whose value is within a tolerance of the best, the most favoured one."""

    @abc.abstractmethod
    def rivals(self, values: Float[Array, " K"]) -> Float[Array, " K"]:
        """The value at which an arm, all others as they are, would enter or leave the best action.

        Only where arms compete one by one.
        """

    @abc.abstractmethod
    def cover(self) -> Bool[Array, "n K"]:
        """A few actions ``(n, K)`` that together play every base arm on offer: the start of UCB.

        A row without any arm is no action, and is never played.
        """


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
        return _favoured(values, tolerance, favour)

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
    offered: Bool[Array, " K"]

    def __init__(self, offered: ArrayLike) -> None:
        self.offered = jnp.asarray(offered, bool)
        self.n_arms = len(self.offered)

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
        return _favoured(jnp.where(self.offered, values, -jnp.inf), tolerance, favour)

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


class ShortestPath(Actions):
    """Play a path from a source to a destination of a grid: the cheapest with costs ``-value``.

    Costs below 0 count as 0, as in the paper. Bellman and Ford's method, all cells at once, until
    nothing changes; then the predecessors are followed back. A predecessor is only replaced for
    a strictly smaller distance, so that costs of 0 never close a circle.

    Attributes:
        height, width: cells of the grid, numbered row by row; source first, destination last.
            Edges: horizontal ones row by row, then vertical ones row by row.
        start: actions that cover all edges, for policies that must see every arm once.
    """

    height: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    n_arms: int = eqx.field(static=True)
    start: Bool[Array, "n K"]

    def __init__(self, height: int, width: int, start: ArrayLike) -> None:
        self.height = whole_number("height", height, 2)
        self.width = whole_number("width", width, 2)
        self.n_arms = height * (width - 1) + (height - 1) * width
        paths = np.asarray(start, dtype=bool)
        if paths.ndim != 2 or paths.shape[1] != self.n_arms or not paths.any(0).all():
            raise InvalidInputError(
                f"start: expected paths (n, {self.n_arms}) that cover all edges"
            )
        self.start = jnp.asarray(paths)

    @property
    def single_arm(self) -> bool:
        """It is a path."""
        return False

    @property
    def arm_by_arm(self) -> bool:
        """Edges do not: a path needs others beside it."""
        return False

    @property
    def offered(self) -> Bool[Array, " K"]:
        """All edges."""
        return jnp.ones(self.n_arms, bool)

    def best(self, values: Float[Array, " K"]) -> Bool[Array, " K"]:
        """The edges of the cheapest path."""
        predecessor = self._predecessors(self._costs_by_side(jnp.maximum(-values, 0.0)))
        neighbour, edge = (jnp.asarray(table) for table in self._tables())

        def follow(state: tuple[Array, Array]) -> tuple[Array, Array]:
            cell, used = state
            side = predecessor[cell]
            return neighbour[cell, side], used.at[edge[cell, side]].set(True)

        destination = jnp.int32(self.height * self.width - 1)
        unused = jnp.zeros(self.n_arms, bool)
        _, used = jax.lax.while_loop(lambda state: state[0] != 0, follow, (destination, unused))
        return used

    def nearly_best(
        self, values: Float[Array, " K"], tolerance: Float[Array, ""], favour: Float[Array, " K"]
    ) -> Bool[Array, " K"]:
        """The best path when favoured edges have a bonus: the whole tolerance, on a shortest path.

        Paths cannot be gone through one by one. So this is not quite the most favoured path within
        the tolerance; but it is within it, if it has no detour.
        """
        edges = self.height + self.width - 2
        share = favour / jnp.maximum(jnp.max(favour), 1.0)
        return self.best(values + tolerance / edges * share)

    def rivals(self, values: Float[Array, " K"]) -> Float[Array, " K"]:
        """Not for paths."""
        raise InvalidInputError("actions: the edges of a path do not compete one by one")

    def cover(self) -> Bool[Array, "n K"]:
        """The given paths."""
        return self.start

    def _costs_by_side(self, cost: Float[Array, " K"]) -> Float[Array, "4 H W"]:
        """Cost of entering each cell from its left, right, upper and lower neighbour."""
        split = self.height * (self.width - 1)
        across = cost[:split].reshape(self.height, self.width - 1)
        down = cost[split:].reshape(self.height - 1, self.width)
        outside = jnp.inf
        return jnp.stack(
            [
                jnp.pad(across, ((0, 0), (1, 0)), constant_values=outside),
                jnp.pad(across, ((0, 0), (0, 1)), constant_values=outside),
                jnp.pad(down, ((1, 0), (0, 0)), constant_values=outside),
                jnp.pad(down, ((0, 1), (0, 0)), constant_values=outside),
            ]
        )

    def _predecessors(self, costs: Float[Array, "4 H W"]) -> Array:
        """The side from which the cheapest path enters each cell, flat ``(H·W,)``."""
        far = jnp.full((self.height, self.width), jnp.inf).at[0, 0].set(0.0)
        nowhere = jnp.zeros((self.height, self.width), jnp.int32)

        def relax(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            distance, predecessor, _ = state
            framed = jnp.pad(distance, 1, constant_values=jnp.inf)
            beside = jnp.stack(
                [framed[1:-1, :-2], framed[1:-1, 2:], framed[:-2, 1:-1], framed[2:, 1:-1]]
            )
            through = beside + costs
            cheapest = through.min(0)
            better = cheapest < distance
            return (
                jnp.where(better, cheapest, distance),
                jnp.where(better, through.argmin(0).astype(jnp.int32), predecessor),
                better.any(),
            )

        state = (far, nowhere, jnp.bool_(True))
        _, predecessor, _ = jax.lax.while_loop(lambda state: state[2], relax, state)
        return predecessor.reshape(-1)

    def _tables(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Neighbour and edge of each cell to its left, right, above and below, ``(H·W, 4)``."""
        cell = np.arange(self.height * self.width).reshape(self.height, self.width)
        row, column = np.divmod(cell, self.width)
        split = self.height * (self.width - 1)
        across, down = row * (self.width - 1) + column, split + cell
        neighbour = np.stack([cell - 1, cell + 1, cell - self.width, cell + self.width], -1)
        edge = np.stack([across - 1, across, down - self.width, down], -1)
        return (
            neighbour.reshape(-1, 4).astype(np.int32),
            np.clip(edge, 0, self.n_arms - 1).reshape(-1, 4).astype(np.int32),
        )


def _favoured(
    values: Float[Array, " K"], tolerance: Float[Array, ""], favour: Float[Array, " K"]
) -> Bool[Array, " K"]:
    """The most favoured arm within the tolerance of the best; of equals, the better one."""
    close = values >= jnp.max(values) - tolerance
    favoured = jnp.where(close, favour, -1.0)
    finalist = close & (favoured == jnp.max(favoured))
    best = jnp.argmax(jnp.where(finalist, values, -jnp.inf))
    return jnp.arange(len(values)) == best


def _rivals(values: Float[Array, " K"], k: int) -> Float[Array, " K"]:
    """The best value outside of the k largest for those inside, the k-th largest for the others.

    >>> _rivals(jnp.array([3.0, 1.0, 2.0]), 1).tolist()
    [2.0, 3.0, 3.0]
    """
    if k == len(values):  # nothing is outside
        return jnp.full(values.shape, -jnp.inf)
    largest = jax.lax.top_k(values, k + 1)[0]
    return jnp.where(values >= largest[k - 1], largest[k], largest[k - 1])
