"""τ from incomplete and noisy tasks."""

import numpy as np
import pytest

from diffts import Evidence, InvalidInputError
from diffts.diffusion import Gaussian, Schedule
from diffts.diffusion.exact import draw_posterior
from diffts.diffusion.exact_denoisers import GaussianDenoiser, gaussian_tau
from diffts.learning import calibrate_imperfect
from gaussian_world import COVARIANCE, MEAN, gaussian_tasks, observed


@pytest.mark.slow
@pytest.mark.parametrize("anchor", [1.0, 0.5, 0.0])
def test_imperfect_calibration_of_an_exact_denoiser_is_its_closed_form(anchor):
    n, sigma = 6000, 0.4
    prior = Gaussian(np.zeros(6), COVARIANCE)
    denoiser = GaussianDenoiser(prior)
    evidence = observed(gaussian_tasks(n) - MEAN, noise=sigma)
    draws = draw_posterior(prior, evidence, 1, seed=4)
    result = calibrate_imperfect(denoiser, evidence, draws, anchor=anchor)
    expected = np.asarray(gaussian_tau(denoiser, Schedule.linear())) ** 2
    # y - h has variance τ² + σ²; of n/2 tasks the mean square is off by √(2/(n/2)) of that.
    count = n / 2 if anchor else n
    spread = np.sqrt(2 / count) * (expected + (anchor > 0) * sigma**2)
    gap = np.asarray(result.tau, np.float64) ** 2 - expected
    assert np.abs(gap / spread).max() < 4.8  # 600 comparisons
    assert len(result.seldom) == 0


def test_arms_seen_too_seldom_are_named_and_get_the_others_error():
    mask = np.ones((50, 6), bool)
    mask[:, 2] = False
    mask[5:, 4] = False
    evidence = Evidence(gaussian_tasks(50) - MEAN, 0.1, mask)
    denoiser = GaussianDenoiser(Gaussian(np.zeros(6), COVARIANCE))
    result = calibrate_imperfect(denoiser, evidence, evidence.mean, anchor=0.0)
    assert result.seldom.tolist() == [2, 4]
    assert result.observations.tolist() == [50, 50, 0, 50, 5, 50]
    rest = np.delete(np.asarray(result.tau), [2, 4], axis=1)
    np.testing.assert_allclose(result.tau[:, 2] ** 2, (rest**2).mean(1), rtol=1e-3)


def test_where_all_arms_are_rare_they_share_one_error():
    evidence = observed(gaussian_tasks(8) - MEAN)
    denoiser = GaussianDenoiser(Gaussian(np.zeros(6), COVARIANCE))
    result = calibrate_imperfect(denoiser, evidence, np.zeros((8, 6)))
    assert result.seldom.tolist() == list(range(6))
    assert (np.asarray(result.tau).std(1) < 1e-6).all()


def test_the_floor_holds():
    """Observations noisier than they are said to be precise leave a negative variance."""
    denoiser = GaussianDenoiser(Gaussian(np.zeros(6), COVARIANCE))
    tasks = gaussian_tasks(40) - MEAN
    evidence = Evidence(tasks, 3.0)
    result = calibrate_imperfect(denoiser, evidence, tasks, floor=0.02)
    assert float(result.tau.min()) == pytest.approx(0.02)


def test_calibration_refuses_what_it_cannot_use():
    denoiser = GaussianDenoiser(Gaussian(np.zeros(6), COVARIANCE))
    with pytest.raises(InvalidInputError, match="draws"):
        calibrate_imperfect(denoiser, observed(gaussian_tasks(20)), np.zeros((3, 6)))
    with pytest.raises(InvalidInputError, match="no task has any observation"):
        calibrate_imperfect(denoiser, Evidence.none(6, (20,)), np.zeros((20, 6)))
