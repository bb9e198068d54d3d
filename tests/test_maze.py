"""The maze: its graph, its images, and the law of its mazes."""

import random
import sys

import numpy as np
import pytest

from diffts.errors import InvalidInputError
from diffts.problems import get_problem
from diffts.problems.maze import (
    DESTINATION,
    EDGES,
    IMAGE_SIDE,
    OPEN,
    PIXELS,
    SIDE,
    SOURCE,
    WALL,
    covering_paths,
    to_image,
)

STANDARD_ERRORS = 5.0  # of a normal statistic, passed by chance once in 1.7 million checks


def reference_maze(rng):
    """The generator's rule word by word, one maze at a time: the set of open passages."""
    opened, passages = set(), set()
    stack = [(rng.randrange(SIDE), rng.randrange(SIDE))]
    while stack:
        row, column = stack.pop()
        sides = [(row, column + 1), (row, column - 1), (row + 1, column), (row - 1, column)]
        fresh = [
            cell
            for cell in sides
            if 0 <= cell[0] < SIDE and 0 <= cell[1] < SIDE and cell not in opened
        ]
        if fresh:
            chosen = rng.choice(fresh)
            opened.add(chosen)
            passages.add(frozenset([(row, column), chosen]))
            stack += [(row, column), chosen]
    return passages


def lines_run(work):
    """How many lines of Python ``work`` runs; another turn of a loop counts, on one line, too."""
    count = 0

    def trace(_frame, event, _argument):
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


class TestMaze:
    problem = get_problem("maze")
    tasks = problem.sample(6000, seed=0)
    is_open = tasks == np.float32(OPEN)

    def test_edges_join_neighbouring_cells_once(self):
        assert EDGES.shape == (180, 2)
        assert len(np.unique(EDGES, axis=0)) == 180
        (row_0, column_0), (row_1, column_1) = (np.divmod(end, SIDE) for end in EDGES.T)
        assert (np.abs(row_0 - row_1) + np.abs(column_0 - column_1) == 1).all()
        assert (row_0[:90] == row_1[:90]).all()
        assert (column_0[90:] == column_1[90:]).all()

    def test_an_edge_is_open_or_a_wall(self):
        assert set(np.unique(self.tasks)) == {np.float32(OPEN), np.float32(WALL)}

    def test_every_cell_can_be_reached(self):
        reached = np.zeros((len(self.tasks), SIDE * SIDE), bool)
        reached[:, SOURCE] = True
        for _ in range(SIDE * SIDE):
            before = reached.copy()
            for edge, (low, high) in enumerate(EDGES):
                either = (reached[:, low] | reached[:, high]) & self.is_open[:, edge]
                reached[:, low] |= either
                reached[:, high] |= either
            if (before == reached).all():
                break
        assert reached.all()

    def test_trees_or_one_loop_in_the_known_share(self):
        # A connected graph on 100 cells is a tree with 99 edges; each further edge is a loop.
        passages = self.is_open.sum(axis=1)
        assert set(np.unique(passages)) == {99, 100}
        # 0.718 ± 0.002 was measured on 40,000 mazes, 0.720 ± 0.004 with the reference above.
        error = np.hypot(np.sqrt(0.72 * 0.28 / len(passages)), 0.0022)
        assert abs((passages == 100).mean() - 0.718) < 4 * error

    def test_same_law_as_the_rule_taken_word_by_word(self):
        rng = random.Random(0)
        number_of = {frozenset(map(tuple, np.stack(np.divmod(edge, SIDE), 1).tolist())): index
                     for index, edge in enumerate(EDGES)}  # fmt: skip
        n = 1500
        reference = np.zeros((n, 180), bool)
        for maze in range(n):
            reference[maze, [number_of[passage] for passage in reference_maze(rng)]] = True

        def statistics(passages):
            degree = np.zeros((len(passages), SIDE * SIDE))
            for edge, (low, high) in enumerate(EDGES):
                degree[:, low] += passages[:, edge]
                degree[:, high] += passages[:, edge]
            corners = degree[:, [0, 9, 90, 99]].mean(axis=1)
            border = passages[:, :9].mean(axis=1)
            loops = passages.sum(axis=1) - 99
            ends, forks = (degree == 1).mean(axis=1), (degree >= 3).mean(axis=1)
            return np.stack([corners, border, loops, ends, forks], axis=1)

        ours, theirs = statistics(self.is_open), statistics(reference)
        error = np.sqrt(ours.var(axis=0) / len(ours) + theirs.var(axis=0) / len(theirs))
        assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < STANDARD_ERRORS * error).all()

    def test_a_thousand_mazes_take_as_many_steps_of_python_as_ten(self):
        """All mazes take each step together: only NumPy's work grows with their number."""
        few, many = (lines_run(lambda n=n: self.problem.sample(n, seed=0)) for n in (10, 1000))
        assert few == many

    def test_image_round_trip_and_background(self):
        images = to_image(self.tasks[:6].reshape(2, 3, 180))
        assert images.shape == (2, 3, 20, 20)
        edges = images.reshape(2, 3, 400)[..., PIXELS]
        np.testing.assert_array_equal(edges, self.tasks[:6].reshape(2, 3, 180))
        assert np.allclose(images[..., :19:2, :19:2], OPEN)  # cells
        assert (images[..., 1:19:2, 1:19:2] == WALL).all()  # pillars
        assert (images[..., 19, :] == WALL).all()
        assert (images[..., :, 19] == WALL).all()
        row, column = 3, 4
        one_edge = np.zeros(180)
        one_edge[9 * row + column] = 5.0  # from (3, 4) to (3, 5)
        assert np.argwhere(to_image(one_edge) == 5.0).tolist() == [[6, 9]]

    def test_network_hint_fits_the_image(self):
        options = self.problem.suggested_network.options
        image = to_image(self.tasks[0])
        assert image.shape == (options["height"], options["width"]) == (IMAGE_SIDE, IMAGE_SIDE)
        np.testing.assert_array_equal(image.ravel()[list(options["pixels"])], self.tasks[0])
        np.testing.assert_array_equal(options["pixels"], PIXELS)

    def test_images_of_other_shapes_are_refused(self):
        with pytest.raises(InvalidInputError, match=r"^values: "):
            to_image(np.zeros(181))

    def test_covering_paths_are_simple_paths_that_use_every_edge(self):
        paths = covering_paths()
        assert paths.shape == (2, 180)
        assert paths.dtype == bool
        assert paths.any(axis=0).all()
        for used in paths:
            ends_at = {}
            for low, high in EDGES[used].tolist():
                ends_at.setdefault(low, []).append(high)
                ends_at.setdefault(high, []).append(low)
            visited = [SOURCE]
            while visited[-1] != DESTINATION:
                onward = [cell for cell in ends_at[visited[-1]] if cell not in visited[-2:-1]]
                assert len(onward) == 1
                visited.append(onward[0])
            assert len(visited) == len(set(visited)) == used.sum() + 1
