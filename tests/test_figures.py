"""Pictures are drawn without a display and are not empty; what they show is for eyes."""

import numpy as np
import pytest

from diffts import DiffusionPrior, Evidence
from diffts.bandits.policies import UCB1, Uniform
from diffts.bandits.simulate import simulate
from diffts.figures import draw_evolution, draw_prior, draw_regret, draw_tasks
from diffts.figures.style import COLOURS, colour_of, label_of
from diffts.problems import GaussianRewards

PRIOR = DiffusionPrior.gaussian(np.zeros(6), np.eye(6))


def regret(path):
    tasks = np.random.default_rng(0).random((4, 6))
    runs = {
        name: simulate(policy, tasks, GaussianRewards(std=0.1), horizon=30)
        for name, policy in {"ucb1": UCB1(6, 0.1), "uniform": Uniform(6)}.items()
    }
    draw_regret(runs, path, title="a title")


def tasks(path):
    rows = np.random.default_rng(0).random((8, 6))
    draw_tasks({"data": rows, "draws": rows[::-1]}, path, order=[5, 4, 3, 2, 1, 0])


def evolution(path):
    seen = {0: Evidence.none(6), 3: Evidence([0.5] + [np.nan] * 5, 0.1)}
    draw_evolution(PRIOR, np.zeros(6), seen, path, draws=20)


@pytest.mark.slow
@pytest.mark.parametrize("draw", [regret, tasks, evolution, lambda path: draw_prior(PRIOR, path)])
def test_pictures_are_written(draw, tmp_path):
    draw(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000


def test_policies_have_colours_of_their_own():
    assert len(set(COLOURS.values())) == len(COLOURS)
    assert colour_of("diffts") == COLOURS["diffts"]
    assert colour_of("gmmts-7") == colour_of("gmmts-7")
    assert [label_of(name) for name in ("diffts", "gts-full", "gmmts-25", "ucb1")] == [
        "DiffTS", "GTS-full", "GMMTS-25", "UCB1",
    ]  # fmt: skip
