"""The oracles themselves, against brute-force integration on a grid."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from diffts import DiffusionPrior, Evidence, InvalidInputError
from diffts.diffusion import Gaussian, GaussianMixture, Schedule
from diffts.diffusion.exact_denoisers import GaussianDenoiser, MixtureDenoiser, gaussian_tau

GAUSSIAN = Gaussian([0.3, -0.2], [[1.0, 0.6], [0.6, 0.8]])
MIXTURE = GaussianMixture(
    [0.3, 0.7],
    [[1.0, -1.0], [-0.5, 0.5]],
    [[[0.2, 0.1], [0.1, 0.3]], [[0.4, -0.1], [-0.1, 0.2]]],
)


def grid(centre=(0.0, 0.0), half_width=7.0):
    axes = [np.linspace(middle - half_width, middle + half_width, 561) for middle in centre]
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)


def density(distribution, points):
    if isinstance(distribution, Gaussian):
        return multivariate_normal(distribution.mean, distribution.covariance).pdf(points)
    return sum(
        weight * density(component, points)
        for weight, component in zip(distribution.weights, distribution.components, strict=True)
    )


def integrate(weights, points):
    """Mean and variance of each coordinate under unnormalised weights on the grid."""
    weights = weights / weights.sum()
    mean = weights @ points
    return mean, weights @ (points - mean) ** 2


@pytest.mark.parametrize("step", [1, 10, 40, 100])
@pytest.mark.parametrize(
    ("distribution", "make"), [(GAUSSIAN, GaussianDenoiser), (MIXTURE, MixtureDenoiser)]
)
def test_denoisers_agree_with_integration(distribution, make, step):
    level, denoiser = Schedule.linear().level(step), make(distribution)
    for x in ([0.5, -0.3], [-1.2, 0.8], [0.0, 0.0]):
        x = np.asarray(x) * level.signal + 0.1 * level.noise
        # The likelihood confines x_0 to a few noise widths around x / signal.
        width = min(10.0, 8 * level.noise / level.signal)
        points = grid(x / level.signal, width)
        likelihood = np.exp(-((x - level.signal * points) ** 2).sum(-1) / (2 * level.noise**2))
        mean, variance = integrate(density(distribution, points) * likelihood, points)
        np.testing.assert_allclose(denoiser(jnp.asarray(x, jnp.float32), level), mean, atol=1e-5)
        if isinstance(denoiser, GaussianDenoiser):
            np.testing.assert_allclose(denoiser.error_std(level) ** 2, variance, rtol=1e-4)
        else:
            got = denoiser.conditional_variance(jnp.asarray(x, jnp.float32), level)
            np.testing.assert_allclose(got, variance, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("distribution", [GAUSSIAN, MIXTURE])
@pytest.mark.parametrize("std", [3.0, 0.5, 0.1])
def test_posteriors_agree_with_integration(distribution, std):
    evidence = Evidence([0.7, np.nan], std)
    posterior = distribution.posterior(evidence)
    points = grid()
    likelihood = np.exp(-((0.7 - points[:, 0]) ** 2) / (2 * std**2))
    mean, variance = integrate(density(distribution, points) * likelihood, points)
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-6)
    np.testing.assert_allclose(posterior.std**2, variance, rtol=1e-5)


def test_posterior_of_exact_observations_is_the_data():
    posterior = GAUSSIAN.posterior(Evidence.exact([0.4, 0.1]))
    np.testing.assert_allclose(posterior.mean, [0.4, 0.1], atol=1e-6)
    np.testing.assert_allclose(posterior.std, 0, atol=1e-6)


def test_tau_of_the_gaussian_prior_is_its_mean_squared_error():
    """Closed form against the definition, over the joint law of ``x_0`` and ``x_ℓ``."""
    denoiser, schedule, n = GaussianDenoiser(GAUSSIAN), Schedule.linear(), 40_000
    rng = np.random.default_rng(0)
    x_0 = rng.multivariate_normal(GAUSSIAN.mean, GAUSSIAN.covariance, n)
    tau = gaussian_tau(denoiser, schedule)
    for step in (1, 20, 100):
        level = schedule.level(step)
        x = level.signal * x_0 + level.noise * rng.standard_normal(x_0.shape)
        estimate = jax.vmap(denoiser, in_axes=(0, None))(jnp.asarray(x, jnp.float32), level)
        squared = (x_0 - np.asarray(estimate)) ** 2
        error = 4.5 * squared.std(0) / np.sqrt(n)
        np.testing.assert_array_less(np.abs(squared.mean(0) - tau[step - 1] ** 2), error)


def test_tau_of_the_mixture_prior_is_its_mean_squared_error():
    prior = DiffusionPrior.mixture(MIXTURE.weights, MIXTURE.means, MIXTURE.covariances)
    n, scale, shift = 40_000, float(prior.scale), float(prior.shift)
    rng = np.random.default_rng(1)
    x_0 = (MIXTURE.sample(n, rng) - shift) / scale
    for step in (1, 20, 60, 100):
        level = prior.schedule.level(step)
        x = level.signal * x_0 + level.noise * rng.standard_normal(x_0.shape)
        estimate = jax.vmap(prior.denoiser, in_axes=(0, None))(jnp.asarray(x, jnp.float32), level)
        squared = (x_0 - np.asarray(estimate)) ** 2
        # 8192 draws stand behind τ itself: its error is at most √(40000/8192) times this one.
        error = 4.5 * squared.std(0) * np.sqrt(1 / n + 1 / 8192)
        np.testing.assert_array_less(np.abs(squared.mean(0) - prior.tau[step - 1] ** 2), error)


def test_mixture_draws_have_the_mixtures_moments():
    draws = MIXTURE.sample(50_000, seed=3)
    np.testing.assert_array_less(
        np.abs(draws.mean(0) - MIXTURE.mean), 4.5 * MIXTURE.std / np.sqrt(50_000)
    )


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (([0, 0], [[1, 0.5], [0.4, 1]]), "covariance: not symmetric"),
        (([0, 0], [[1, 2], [2, 1]]), "covariance: indefinite"),
        (([0, 0], [[1, np.nan], [np.nan, 1]]), "covariance"),
        (([0, 0], [[1.0]]), "covariance: expected shape"),
        (([np.inf, 0], np.eye(2)), "mean"),
        (([[0, 0]], np.eye(2)), "mean"),
    ],
)
def test_what_is_no_gaussian_is_refused(arguments, named):
    with pytest.raises(InvalidInputError, match=named):
        DiffusionPrior.gaussian(*arguments)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (([0.5, 0.6], np.zeros((2, 1)), np.ones((2, 1, 1))), "weights"),
        (([-0.5, 1.5], np.zeros((2, 1)), np.ones((2, 1, 1))), "weights"),
        (([1.0], np.zeros((2, 1)), np.ones((2, 1, 1))), "components"),
        (([1.0], np.zeros((1, 1)), -np.ones((1, 1, 1))), "component 0: covariance: indefinite"),
    ],
)
def test_what_is_no_mixture_is_refused(arguments, named):
    with pytest.raises(InvalidInputError, match=named):
        DiffusionPrior.mixture(*arguments)
