"""Latents of the paper's posterior chains."""

import jax
import numpy as np
import pytest

from diffts import DiffusionPrior, Evidence, chunks
from diffts.diffusion.posterior import PaperSampler
from diffts.learning.paper import draw_latents, steps_to_keep
from gaussian_world import COVARIANCE, MEAN, gaussian_tasks, observed


@pytest.mark.slow
def test_kept_latents_have_the_law_of_their_step():
    """Without evidence the latents of N(0, I) tasks are N(0, I) at every step."""
    prior = DiffusionPrior.gaussian(np.zeros(6), np.eye(6))
    steps, latents = draw_latents(
        prior, jax.random.key(0), Evidence.none(6, (3000,)), kept=7, sampler=PaperSampler()
    )
    assert steps.shape == (3000, 7)
    assert latents.shape == (3000, 7, 6)
    assert steps.min() == 1
    assert steps.max() == 100
    assert all(len(set(row)) == 7 for row in steps[:50])
    # Latents of one chain hang together: the tasks are what is independent.
    for moment, expected in ((latents, 0.0), (latents**2, 1.0)):
        of_task = moment.astype(np.float64).mean(1)
        error = of_task.std(0) / np.sqrt(len(of_task))
        assert (np.abs(of_task.mean(0) - expected) < 4.5 * error).all()


@pytest.mark.slow
def test_kept_latents_do_not_depend_on_chunks(monkeypatch):
    prior = DiffusionPrior.gaussian(MEAN, COVARIANCE)
    evidence = observed(gaussian_tasks(9))

    def latents():
        return draw_latents(prior, jax.random.key(0), evidence, kept=3, sampler=PaperSampler())

    together = latents()
    monkeypatch.setattr(chunks, "CHUNK_ENTRIES", {"cpu": 200})
    apart = latents()
    np.testing.assert_array_equal(together[0], apart[0])
    np.testing.assert_allclose(together[1], apart[1], atol=1e-5)


def test_memory_does_not_grow_with_steps_times_tasks():
    kept = steps_to_keep(59_000, 784, 100, 3000 * 128)
    assert 4 * 59_000 * 784 * kept <= 2**30
