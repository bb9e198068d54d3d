"""2D Maze: find the way through a maze by walking it; the arms are the edges of a grid.

Geometry. Cells are numbered row by row, cell ``10 r + c`` at row ``r``, column ``c``. The 180
base arms are the edges between neighbouring cells: first 90 horizontal ones, edge ``9 r + c``
from ``(r, c)`` to ``(r, c+1)``, then 90 vertical ones, edge ``90 + 10 r + c`` from ``(r, c)`` to
``(r+1, c)``. In the image, cell ``(r, c)`` is the pixel ``(2r, 2c)`` and an edge is the pixel
between its two cells; the rest of the 19×19 pixels are pillars, and a row and a column of
padding make it 20×20.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffts.bandits.actions import ShortestPath
from diffts.bandits.rewards import GaussianRewards, RewardModel
from diffts.errors import InvalidInputError
from diffts.learning import ArmProcedure
from diffts.problems.problem import (
    Problem,
    SuggestedArms,
    SuggestedNetwork,
    Tasks,
    fixed_array,
)
from diffts.validation import float_array

SIDE = 10
N_CELLS = SIDE * SIDE
N_EDGES = 2 * SIDE * (SIDE - 1)
IMAGE_SIDE = 2 * SIDE
SOURCE = 0
DESTINATION = N_CELLS - 1
OPEN = -0.01
WALL = -1.0

_CELL = np.arange(N_CELLS).reshape(SIDE, SIDE)
_HORIZONTAL = np.stack([_CELL[:, :-1], _CELL[:, 1:]], axis=-1).reshape(-1, 2)
_VERTICAL = np.stack([_CELL[:-1], _CELL[1:]], axis=-1).reshape(-1, 2)
#: The two cells of each base arm, the lower first, ``(180, 2)``.
EDGES = fixed_array(np.concatenate([_HORIZONTAL, _VERTICAL]))
#: Position of each base arm in the flattened 20×20 image, ``(180,)``: twice its cells' midpoint.
PIXELS = fixed_array((IMAGE_SIDE * (EDGES // SIDE) + EDGES % SIDE).sum(axis=1))


def _neighbours() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Neighbour and edge on each cell's right, left, lower and upper side, both ``(100, 4)``.

    Outside the grid the neighbour is the number ``N_CELLS`` and the edge is 0.
    """
    neighbour = np.full((N_CELLS, 4), N_CELLS)
    edge = np.zeros((N_CELLS, 4), np.int64)
    for index, (low, high) in enumerate(EDGES):
        side = 0 if high == low + 1 else 2
        neighbour[low, side], edge[low, side] = high, index
        neighbour[high, side + 1], edge[high, side + 1] = low, index
    return neighbour, edge


_NEIGHBOUR, _EDGE_OF_SIDE = _neighbours()


@final
@dataclass(frozen=True)
class Maze(Problem):
    """A random maze of 10×10 cells; an edge has mean −0.01 if open and −1 if walled.

    A super-arm is a simple path from the first cell to the last one; every edge on it gives a
    reward. The generator walks from cell to cell with a stack. All walls stand; a uniform start
    cell is pushed. Pop a cell; if some of its neighbours were never *opened from their own side*,
    choose one of them uniformly, open it towards the popped cell, and push the popped cell and
    then the chosen one; end when the stack is empty. The start cell was not opened when the walk
    began, so it is entered once more: the passage is new in about 72% of the mazes, which then
    have exactly one loop, and already open in the others, which are trees. Every cell can be
    reached from every other.

    >>> Maze().sample(3, seed=0).shape
    (3, 180)
    """

    name: ClassVar[str] = "maze"
    n_arms: ClassVar[int] = N_EDGES
    noise_std: ClassVar[float] = 0.1
    horizon: ClassVar[int] = 300

    rewards: ClassVar[RewardModel] = GaussianRewards(std=0.1)  # of every edge of the path
    # Mazes are pictures: a network that sees them as such.
    suggested_network: ClassVar[SuggestedNetwork] = SuggestedNetwork(
        "unet-2d",
        options={"height": IMAGE_SIDE, "width": IMAGE_SIDE, "pixels": tuple(PIXELS.tolist())},
    )

    @property
    def suggested_arms(self) -> SuggestedArms:
        """Paths are played; a cell and its two edges, folded into one, are what the U-Net sees.

        It is small and looks around each cell alone: a larger one with attention learns the past
        mazes by heart. Training is short, so its averages are, too.
        """
        small = {"folds": 1, "channels": (16, 32), "attention": False}
        return SuggestedArms(
            {
                "actions": self.actions,
                "play_rounds": self.horizon,
                "most_factors": 16,
                "warmup_steps": 1000,
                "rounds": 2,
                "inner_steps": 1000,
                "score_every": 1000,
                "training": replace(ArmProcedure().training, ema_decay=0.98),
            },
            {"grid": {**self.suggested_network.options, **small}},
        )

    @property
    def actions(self) -> ShortestPath:
        """Paths from the first cell to the last one."""
        return ShortestPath(SIDE, SIDE, start=covering_paths())

    def _draw(self, n: int, rng: np.random.Generator) -> Tasks:
        return np.where(_open_edges(n, rng), np.float32(OPEN), np.float32(WALL))


def to_image(values: ArrayLike) -> NDArray[np.float64]:
    """Edge values, shape ``(*batch, 180)``, as images of shape ``(*batch, 20, 20)``.

    Behind the edges, cells are at −0.01, pillars and padding at −1.

    >>> bool((to_image(np.arange(180)).ravel()[PIXELS] == np.arange(180)).all())
    True
    """
    array = float_array("values", values)
    if array.ndim == 0 or array.shape[-1] != N_EDGES:
        raise InvalidInputError(f"values: expected shape (*batch, {N_EDGES}), got {array.shape}")
    image = np.full((*array.shape[:-1], IMAGE_SIDE, IMAGE_SIDE), WALL)
    image[..., ::2, ::2] = OPEN
    image[..., *np.divmod(PIXELS, IMAGE_SIDE)] = array
    return image


# A walk from the first cell to the last one that, with its mirror image at the main diagonal,
# uses every edge. Found once by integer programming (degree equations, cuts against cycles).
_COVERING_WALK = (
    "RRDLLDDDRUURRUURRRDLLDDRURDRDRUULUURDRDDDDDDDLUUUL"
    "DLLDLULURRRULLLULDDLLDDDDRRULUURDRDDRURDRUURDDRR"
)
_SIDE_OF_MOVE = {"R": 0, "L": 1, "D": 2, "U": 3}
_MIRROR = str.maketrans("RDLU", "DRUL")


def covering_paths() -> NDArray[np.bool_]:
    """Simple paths from source to destination that together use all 180 edges.

    They are the start of UCB: one pull of each shows every base arm once. Shape ``(2, 180)``,
    True for the edges on the path; each path has 98 edges.

    Two is the least possible, since the source has two edges and a path uses one of them. (The
    paper takes three: :func:`three_covering_paths`.)

    >>> covering_paths().any(axis=0).all(), covering_paths().sum(axis=1)
    (np.True_, array([98, 98]))
    """
    walks = (_COVERING_WALK, _COVERING_WALK.translate(_MIRROR))
    return np.stack([_edges_of_walk(walk) for walk in walks])


def three_covering_paths() -> NDArray[np.bool_]:
    """As many simple paths as the paper's UCB starts with, ``(3, 180)``; they use all edges.

    Row by row there and back, the same column by column, and the way around by the right and the
    lower side. The paper shows its three in a picture alone, so these may be others.

    >>> three_covering_paths().any(axis=0).all(), three_covering_paths().sum(axis=1)
    (np.True_, array([90, 90, 36]))
    """
    side = SIDE - 1
    there, back = "R" * side + "D", "L" * side + "D"
    by_rows = (there + back) * (side // 2) + "R" * side + "D"
    around = "R" * side + "D" * (side - 1) + "L" * side + "D" + "R" * side
    walks = (by_rows, by_rows.translate(_MIRROR), around)
    return np.stack([_edges_of_walk(walk) for walk in walks])


def _edges_of_walk(walk: str) -> NDArray[np.bool_]:
    used = np.zeros(N_EDGES, bool)
    cell: Any = SOURCE
    for move in walk:
        side = _SIDE_OF_MOVE[move]
        used[_EDGE_OF_SIDE[cell, side]] = True
        cell = _NEIGHBOUR[cell, side]
    return used


def _open_edges(n: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Open passages of ``n`` mazes, shape ``(n, 180)``; all mazes take each step together.

    Every cell, the start included, is opened exactly once. Each of these ``N_CELLS`` events pops
    one cell and pushes two, so that all stacks run empty after ``2 N_CELLS + 1`` pops.
    """
    maze = np.arange(n)
    stack = np.zeros((n, N_CELLS + 2), np.int64)
    stack[:, 0] = rng.integers(N_CELLS, size=n)
    height = np.ones(n, np.int64)
    opened = np.zeros((n, N_CELLS + 1), bool)
    opened[:, N_CELLS] = True  # what lies outside the grid is never chosen
    passage = np.zeros((n, N_EDGES), bool)
    for _ in range(2 * N_CELLS + 1):
        height -= 1
        current = stack[maze, height]
        neighbours = _NEIGHBOUR[current]
        candidates = ~opened[maze[:, None], neighbours]
        rank = candidates.cumsum(axis=1)
        n_candidates = rank[:, -1]
        # The first side whose rank exceeds a uniform draw from {0, …, n_candidates - 1}.
        drawn = (rng.random(n) * n_candidates).astype(np.int64)
        side = (rank > drawn[:, None]).argmax(axis=1)
        goes_on = np.flatnonzero(n_candidates)
        chosen = neighbours[goes_on, side[goes_on]]
        opened[goes_on, chosen] = True
        passage[goes_on, _EDGE_OF_SIDE[current[goes_on], side[goes_on]]] = True
        # The popped cell still lies at this height, so pushing it again is counting it again.
        stack[goes_on, height[goes_on] + 1] = chosen
        height[goes_on] += 2
    return passage
