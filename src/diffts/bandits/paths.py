"""Paths of a grid as actions: a base arm is an edge."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy.typing import ArrayLike, NDArray

from diffts.bandits.playable import Actions
from diffts.errors import InvalidInputError
from diffts.validation import whole_number


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
        del values
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
