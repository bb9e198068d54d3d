"""Gaussians and mixtures from incomplete, noisy data: the baselines' fits."""

import numpy as np
import pytest

from diffts import Evidence
from diffts.diffusion import Gaussian, GaussianMixture
from diffts.diffusion.exact import draw_posterior
from diffts.errors import InvalidInputError
from diffts.learning.fits import fit_diagonal, fit_factor_gaussian, fit_gaussian, fit_mixture
from diffts.learning.fits.gaussian import pairwise_moments
from diffts.learning.fits.mixture import fit_by_em
from diffts.problems import Corruption
from gaussian_world import COVARIANCE, MEAN, gaussian_tasks, observed


def test_pairwise_moments_of_complete_data_are_the_sample_moments():
    tasks = gaussian_tasks(300)
    mean, covariance = pairwise_moments(Evidence(tasks, 0.2))
    np.testing.assert_allclose(mean, tasks.mean(0), rtol=1e-5)
    expected = np.cov(tasks.T, bias=True) - 0.04 * np.eye(6)
    np.testing.assert_allclose(covariance, expected, atol=1e-5)


def test_the_baselines_fits_have_the_papers_floors():
    tasks = gaussian_tasks(30)
    full = fit_gaussian(Evidence(tasks, 1.5))
    assert np.linalg.eigvalsh(full.covariance).min() == pytest.approx(1e-4, rel=1e-3)
    diagonal = fit_diagonal(Evidence(tasks, 1.5))
    assert np.diag(diagonal.covariance).min() == 0.0
    assert np.count_nonzero(diagonal.covariance - np.diag(np.diag(diagonal.covariance))) == 0


@pytest.mark.slow
def test_the_factor_gaussian_finds_rank_and_covariance():
    evidence, other = observed(gaussian_tasks(4000)), observed(gaussian_tasks(1000, seed=7))
    fit = fit_factor_gaussian(evidence, other)
    assert fit.rank == 2
    error = np.linalg.norm(fit.gaussian.covariance - COVARIANCE) / np.linalg.norm(COVARIANCE)
    # About 1000 tasks hold a pair of arms: each covariance is off by some 5% of unit variances.
    assert error < 0.1
    assert np.abs(fit.mean - MEAN).max() < 0.1
    pairwise = fit_gaussian(evidence).covariance
    assert error < np.linalg.norm(pairwise - COVARIANCE) / np.linalg.norm(COVARIANCE)


def test_noise_that_differs_from_task_to_task_is_weighed():
    rng = np.random.default_rng(0)
    tasks = gaussian_tasks(4000)
    std = np.where(rng.random(tasks.shape) < 0.5, 0.1, 3.0)
    evidence = Evidence(tasks + std * rng.standard_normal(tasks.shape), std)
    fitted = fit_factor_gaussian(evidence, observed(gaussian_tasks(500, seed=3))).gaussian
    naive = pairwise_moments(evidence)[1]
    error = [np.linalg.norm(c - COVARIANCE) for c in (fitted.covariance, naive)]
    assert error[0] < 0.6 * error[1]


def test_posterior_draws_of_a_gaussian_have_its_exact_moments():
    prior, n = Gaussian(MEAN, COVARIANCE), 20_000
    evidence = Evidence([[2.5, np.nan, 1.0, np.nan, np.nan, 3.0], [np.nan] * 5 + [1.0]], 0.3)
    draws = draw_posterior(prior, evidence, n, seed=0)
    for i in range(2):
        exact = prior.posterior(Evidence(evidence.mean[i], evidence.std[i], evidence.mask[i]))
        error = (draws[:, i].mean(0) - exact.mean) / exact.std
        assert np.abs(error).max() < 4.5 / np.sqrt(n)
        scale = np.outer(exact.std, exact.std)
        gap = (np.cov(draws[:, i].T) - exact.covariance) / scale
        assert np.abs(gap).max() < 4.5 * np.sqrt(2 / n)


def test_arms_far_apart_are_drawn_and_fitted_as_finely_as_others():
    """Their spread is the unit of the work in float32, not the distance between their means."""
    means, spread = np.array([0.0, 100.0, 200.0, 300.0]), 0.05
    covariance = spread**2 * (0.5 * np.eye(4) + 0.5)
    tasks = np.random.default_rng(0).multivariate_normal(means, covariance, 600)
    known = Evidence.exact(tasks)
    draws = draw_posterior(Gaussian(means, covariance), known, 1, seed=0)[0]
    # An exact observation counts as one with a thousandth of the spread as its noise.
    assert np.abs(draws - np.asarray(known.mean)).max() < 5e-3 * spread
    start = GaussianMixture([1.0], means[None], 4 * covariance[None])
    fitted = fit_by_em(known, start, iterations=30, tolerance=1e-7)
    error = np.abs(fitted.covariances[0] - np.cov(tasks.T, bias=True)) / spread**2
    assert error.max() < 0.02


def test_posterior_draws_of_a_mixture_take_components_by_their_weight():
    mixture = GaussianMixture([0.5, 0.5], [[0.0, 0.0], [2.0, 2.0]], [0.1 * np.eye(2)] * 2)
    evidence = Evidence([[1.2, np.nan]], 0.5)
    exact = mixture.posterior(Evidence(evidence.mean[0], evidence.std[0], evidence.mask[0]))
    draws = draw_posterior(mixture, evidence, 20_000, seed=0)[:, 0]
    share = (draws[:, 1] > 1).mean()
    # The two clusters of the unobserved arm are six standard deviations apart.
    bound = 4.5 * np.sqrt(exact.weights[1] * exact.weights[0] / 20_000)
    assert abs(share - exact.weights[1]) < bound + 2e-3


@pytest.mark.slow
def test_em_raises_the_likelihood_and_finds_two_groups():
    rng = np.random.default_rng(0)
    truth = GaussianMixture([0.3, 0.7], [[0, 0, 0, 0], [2, 2, 2, 2]], [0.2 * np.eye(4)] * 2)
    tasks = truth.sample(1500, seed=1)
    evidence = Corruption(0.5, 0.3).observe(tasks, 2)
    off = GaussianMixture([0.5, 0.5], rng.normal(1, 0.5, (2, 4)), [np.eye(4)] * 2)
    history = []
    fitted = fit_by_em(
        evidence, off, iterations=40, tolerance=1e-6, on_iteration=lambda _, s: history.append(s)
    )
    assert np.diff(history).min() > -1e-5
    order = np.argsort(fitted.means.mean(1))
    np.testing.assert_allclose(fitted.weights[order], [0.3, 0.7], atol=0.06)
    np.testing.assert_allclose(fitted.means[order], [[0] * 4, [2] * 4], atol=0.15)


def test_em_on_complete_exact_data_is_the_sample_covariance():
    tasks = gaussian_tasks(400)
    sample = fit_gaussian(tasks)
    start = GaussianMixture([1.0], [np.zeros(6)], [np.eye(6)])
    fitted = fit_by_em(Evidence.exact(tasks), start, iterations=30, tolerance=1e-7)
    np.testing.assert_allclose(fitted.means[0], sample.mean, atol=2e-3)
    np.testing.assert_allclose(fitted.covariances[0], sample.covariance, atol=0.02)


@pytest.mark.slow
def test_a_mixture_is_fitted_to_imperfect_tasks():
    truth = GaussianMixture([0.5, 0.5], [[0] * 6, [2] * 6], [0.2 * np.eye(6)] * 2)
    evidence = Corruption(0.5, 0.3).observe(truth.sample(900, seed=1), 2)
    fitted = fit_mixture(evidence, 2, seed=0)
    assert np.abs(np.sort(fitted.means.mean(1)) - [0, 2]).max() < 0.2


def two_groups(n=400):
    truth = GaussianMixture([0.3, 0.7], [[0] * 4, [5] * 4], [0.2 * np.eye(4)] * 2)
    return truth.sample(n, seed=1)


def test_a_mixtures_diagonals_are_regularised_by_a_share_of_the_datas_variance():
    tasks = two_groups()
    plain, regularised = (
        fit_mixture(tasks, 1, regularisation=share).covariances[0] for share in (0.0, 0.05)
    )
    np.testing.assert_allclose(plain, np.cov(tasks.T, bias=True), atol=1e-9)
    np.testing.assert_allclose(regularised - plain, 0.05 * tasks.var() * np.eye(4), atol=1e-9)


def test_a_mixtures_covariances_are_drawn_towards_that_of_all_exact_tasks():
    tasks = two_groups()
    plain, drawn = fit_mixture(tasks, 2), fit_mixture(tasks, 2, prior_tasks=50)
    np.testing.assert_array_equal(drawn.means, plain.means)
    for k in range(2):
        of_component = plain.weights[k] * len(tasks)
        whole = of_component * plain.covariances[k] + 50 * np.cov(tasks.T, bias=True)
        np.testing.assert_allclose(drawn.covariances[k], whole / (of_component + 50), rtol=1e-9)
    np.testing.assert_array_equal(
        fit_mixture(tasks, 2, prior_tasks=0).covariances, plain.covariances
    )


def test_em_is_drawn_towards_a_gaussian_by_as_many_tasks_as_are_asked_for():
    tasks = gaussian_tasks(400)
    sample = fit_gaussian(tasks)
    start = GaussianMixture([1.0], sample.mean[None], sample.covariance[None])
    towards = Gaussian(sample.mean, 3 * sample.covariance)

    def times_the_sample(**how):
        evidence = Evidence.exact(tasks)
        fitted = fit_by_em(evidence, start, towards=towards, iterations=2, **how).covariances[0]
        return np.trace(fitted) / np.trace(sample.covariance)

    for tasks_worth in (0, 400, 1200):
        expected = (400 + tasks_worth * 3) / (400 + tasks_worth)
        assert times_the_sample(prior_tasks=tasks_worth) == pytest.approx(expected, rel=2e-2)
    assert times_the_sample() == times_the_sample(prior_tasks=tasks.shape[1])


@pytest.mark.parametrize("how", [{"regularisation": -0.1}, {"prior_tasks": -1}])
def test_a_mixtures_bad_options_are_named(how):
    with pytest.raises(InvalidInputError, match=next(iter(how))):
        fit_mixture(two_groups(50), 2, **how)
