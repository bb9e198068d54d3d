import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from diffts import InvalidInputError
from diffts.bandits.actions import BestArm, ShortestPath, TopK
from diffts.problems import Maze, get_problem
from diffts.problems.maze import EDGES, covering_paths

MAZE = Maze().actions


def scipy_distance(cost):
    """Length of the shortest path by SciPy's Dijkstra (which cannot tell 0 from no edge)."""
    graph = coo_array((np.maximum(cost, 1e-12), (EDGES[:, 0], EDGES[:, 1])), (100, 100))
    return dijkstra(graph.tocsr(), directed=False, indices=0)[99]


def is_simple_path(used):
    """Degrees of a simple path from cell 0 to cell 99, and nothing beside it."""
    degree = np.bincount(EDGES[used].ravel(), minlength=100)
    ends = degree[[0, 99]] == 1
    inner = np.isin(np.delete(degree, [0, 99]), [0, 2]).all()
    cell, edges, before = 0, EDGES[used].tolist(), len(EDGES[used])
    while edges:
        here = [edge for edge in edges if cell in edge]
        if not here:
            return False
        edges.remove(here[0])
        cell = here[0][0] + here[0][1] - cell
    return bool(ends.all() and inner and cell == 99 and before)


@pytest.mark.parametrize("kind", ["uniform", "sparse", "maze", "integers"])
def test_shortest_paths_equal_dijkstras(kind):
    rng = np.random.default_rng(0)
    costs = {
        "uniform": lambda: rng.random((64, 180)),
        "sparse": lambda: rng.random((64, 180)) * (rng.random((64, 180)) < 0.5),
        "maze": lambda: -Maze().sample(64, seed=1),
        "integers": lambda: rng.integers(0, 3, (64, 180)).astype(float),
    }[kind]()
    paths = np.asarray(jax.jit(jax.vmap(MAZE.best))(jnp.asarray(-costs, jnp.float32)))
    for cost, used in zip(costs, paths, strict=True):
        assert is_simple_path(used)
        assert cost[used].sum() == pytest.approx(scipy_distance(cost), rel=1e-5, abs=1e-5)


def test_values_above_zero_are_free():
    values = np.random.default_rng(2).normal(size=180)
    used = np.asarray(MAZE.best(jnp.asarray(values, jnp.float32)))
    cost = np.maximum(-values, 0)
    assert cost[used].sum() == pytest.approx(scipy_distance(cost), abs=1e-5)
    assert is_simple_path(used)


def test_the_way_through_a_maze_meets_no_wall():
    tasks = Maze().sample(50, seed=3)
    paths = np.asarray(jax.vmap(MAZE.best)(jnp.asarray(tasks)))
    assert (np.where(paths, tasks, 0).min(1) > -0.5).all()


def test_top_k_and_best_arm():
    values = jnp.array([0.3, 0.9, 0.1, 0.7])
    assert BestArm(4).best(values).tolist() == [False, True, False, False]
    assert TopK(4, 3).best(values).tolist() == [True, True, False, True]
    assert TopK(4, 4).best(values).all()
    assert int(TopK(4, 2).best(jnp.zeros(4)).sum()) == 2


@pytest.mark.parametrize("actions", [BestArm(7), TopK(7, 3), TopK(7, 7), MAZE])
def test_the_start_covers_every_arm(actions):
    cover = actions.cover()
    assert cover.any(0).all()
    if isinstance(actions, TopK):
        assert (cover.sum(1) == actions.k).all()


def test_bad_actions_are_refused():
    with pytest.raises(InvalidInputError, match="k"):
        TopK(3, 4)
    with pytest.raises(InvalidInputError, match="start"):
        ShortestPath(10, 10, start=covering_paths()[:1])
    assert get_problem("groups").actions.single_arm
