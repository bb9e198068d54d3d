"""Exact denoisers under one observation of each arm, against closed forms in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffts import DiffusionPrior, Evidence
from diffts.diffusion import Gaussian, GaussianMixture, Schedule
from diffts.diffusion.exact_denoisers import GaussianDenoiser, MixtureDenoiser
from diffts.diffusion.factor_gaussian import FactorGaussian
from diffts.diffusion.networks import ArmDenoiser, build_denoiser
from diffts.diffusion.observation import Observation
from diffts.diffusion.sweeping import inverse_and_log_determinant
from diffts.errors import InvalidInputError
from oracles import assert_same_moments, paper_alpha_bar

ARMS = 8
RNG = np.random.default_rng(0)


def random_gaussian(rng):
    root = rng.standard_normal((ARMS, ARMS)) / np.sqrt(ARMS)
    return Gaussian(rng.standard_normal(ARMS), root @ root.T + 0.1 * np.eye(ARMS))


GAUSSIAN = random_gaussian(RNG)
PARTS = [random_gaussian(RNG) for _ in range(3)]
MIXTURE = GaussianMixture(
    [0.5, 0.3, 0.2], [part.mean for part in PARTS], [part.covariance for part in PARTS]
)
DENOISERS = {
    "gaussian": (GAUSSIAN, GaussianDenoiser(GAUSSIAN)),
    "mixture": (MIXTURE, MixtureDenoiser(MIXTURE)),
}
GIVEN = jax.jit(lambda denoiser, observation: denoiser.given(observation))
CALL = jax.jit(lambda denoiser, x, level: denoiser(x, level))

#: Precisions of the arms, standardised.
PRECISIONS = {
    "none": np.zeros(ARMS),
    "one arm pulled 10,000 times": np.eye(ARMS)[2] * 10_000 / 0.5**2,
    "weak and strong": np.array([0.0, 1e-4, 0.1, 1.0, 30.0, 1e4, 0.0, 1e10]),
    "all nearly exact": np.full(ARMS, 1e10),
}


@pytest.fixture(params=sorted(DENOISERS))
def exact(request):
    return DENOISERS[request.param]


def seen_with(precision, law=MIXTURE):
    task = law.sample(1, seed=3)[0]
    std = 1 / np.sqrt(np.where(precision > 0, precision, 1.0))
    noisy = task + std * np.random.default_rng(4).standard_normal(ARMS)
    return Evidence(np.where(precision > 0, noisy, np.nan), np.where(precision > 0, std, 0.0))


@pytest.mark.parametrize("name", PRECISIONS)
def test_marginals_are_those_of_the_exact_posterior(exact, name):
    """In float32: the mean to 3e-6 of a unit, the standard deviation to 1e-4 of itself.

    That of a mixture also counts how far the components' means are apart, which are rounded.
    """
    law, denoiser = exact
    evidence = seen_with(PRECISIONS[name])
    marginals = GIVEN(denoiser, Observation.of_evidence(evidence))
    expected = law.posterior(evidence)
    np.testing.assert_allclose(marginals.mean, expected.mean, atol=3e-6)
    rounding = 0.5 * np.spacing(np.abs(expected.mean).astype(np.float32)) ** 2 / expected.std
    assert (np.abs(marginals.std - expected.std) < 1e-4 * expected.std + rounding).all()


def test_no_evidence_leaves_the_prior(exact):
    law, denoiser = exact
    marginals = GIVEN(denoiser, Observation(jnp.zeros(ARMS), jnp.zeros(ARMS)))
    np.testing.assert_allclose(marginals.mean, law.mean, atol=1e-6)
    np.testing.assert_allclose(marginals.std, law.std, rtol=1e-5)


@pytest.mark.parametrize("step", [1, 5, 40, 100])
def test_a_latent_alone_is_the_denoiser_at_its_level(exact, step):
    _, denoiser = exact
    level = jax.tree.map(jnp.asarray, Schedule.linear().level(step))
    x_0 = MIXTURE.sample(1, seed=5)[0]
    x = level.signal * x_0 + level.noise * np.random.default_rng(6).standard_normal(ARMS)
    x = jnp.asarray(x, jnp.float32)
    marginals = GIVEN(denoiser, Observation.of_latent(x, level))
    np.testing.assert_allclose(marginals.mean, CALL(denoiser, x, level), atol=1e-5)
    if isinstance(denoiser, GaussianDenoiser):
        np.testing.assert_allclose(marginals.std, denoiser.error_std(level), rtol=1e-4)
    else:
        variance = denoiser.conditional_variance(x, level)
        np.testing.assert_allclose(marginals.std**2, variance, rtol=1e-3)


@pytest.mark.parametrize("name", ["one arm pulled 10,000 times", "weak and strong"])
def test_joint_noise_has_the_covariance_of_the_posterior(exact, name):
    law, denoiser = exact
    evidence, draws = seen_with(PRECISIONS[name]), 20_000
    posterior = law.posterior(evidence)
    joint = GIVEN(denoiser, Observation.of_evidence(evidence)).joint
    keys = jax.random.split(jax.random.key(0), draws)
    found = np.asarray(jax.jit(jax.vmap(joint.deviate))(keys), np.float64)
    mixture = GaussianMixture.of(posterior)
    apart = mixture.means - mixture.mean
    covariance = np.einsum("k,kij->ij", mixture.weights, mixture.covariances)
    covariance += np.einsum("k,ki,kj->ij", mixture.weights, apart, apart)
    correlation = covariance / np.outer(mixture.std, mixture.std)
    # Of normal deviates of correlation r, the mean product has the variance (1 + r²)/n.
    tolerance = 4.5 * np.sqrt((1 + correlation**2) / draws) + 1e-3
    assert (np.abs(found.T @ found / draws - correlation) < tolerance).all()
    assert np.abs(found.mean(0)).max() < 4.5 / np.sqrt(draws)


def test_inverse_and_determinant_of_badly_scaled_matrices():
    root = np.random.default_rng(1).standard_normal((6, 6))
    size = 10.0 ** np.array([0, 5, -4, 2, 0, 4])
    matrix = np.eye(6) + size[:, None] * (root @ root.T) * size
    found, log_determinant = inverse_and_log_determinant(jnp.asarray(matrix, jnp.float32))
    expected = np.linalg.inv(matrix)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    np.testing.assert_allclose(found / scale, expected / scale, atol=1e-3)
    np.testing.assert_allclose(log_determinant, np.linalg.slogdet(matrix)[1], rtol=1e-5)


# --- samplers that have the whole covariance -------------------------------------------------

CORRELATED = 0.1 * np.eye(5) + 0.9


def arms_that_learned_nothing():
    """The network 'arms' before training: its factor Gaussian, here of equal correlations."""
    base = FactorGaussian(np.zeros(5), np.full((5, 1), np.sqrt(0.9)), np.full(5, 0.1))
    denoiser = ArmDenoiser(base, width=4, n_blocks=0, code=1, own=1, hidden=2)
    tau = DiffusionPrior.gaussian(np.zeros(5), CORRELATED).tau
    return DiffusionPrior(denoiser, tau)


@pytest.mark.parametrize(
    ("sampler", "of", "steps"),
    [
        ("merged", "exact", 100),
        ("merged", "exact", 20),
        ("merged", "exact", 3),
        ("merged-late", "exact", 12),
        ("covariance", "exact", 20),
        ("covariance", "exact", 3),
        ("covariance", "arms", 3),
    ],
)
def test_samplers_with_the_whole_covariance_are_exact_at_any_length(sampler, of, steps):
    """But for their start: ``x_L ~ N(0, I)`` instead of the diffused prior (about 1% of an sd)."""
    exact_one = DiffusionPrior.gaussian(np.zeros(5), CORRELATED)
    prior = exact_one if of == "exact" else arms_that_learned_nothing()
    evidence, n = Evidence([1.0, 0.5, np.nan, 1.5, np.nan], [0.3, 0.01, 0.0, 3.0, 0.0]), 5000
    exact = Gaussian(np.zeros(5), CORRELATED).posterior(evidence)
    draws = prior.posterior_sample(evidence, n=n, steps=steps, sampler=sampler)
    error = np.abs(draws.astype(np.float64).mean(0) - exact.mean) / exact.std
    assert error.max() < 0.01 + 4.5 / np.sqrt(n)
    assert np.abs(draws.std(0) / exact.std - 1).max() < 0.002 + 4.5 / np.sqrt(2 * n)


def worst_deviation(kept, whole):
    """Largest error of a standard deviation after a chain of 'merged', by theory: no sampling.

    Steps are linear in the latent, so that its covariance can be carried along. With ``whole``,
    noise has the whole covariance of ``x_0`` given latent and evidence; else its diagonal.
    """
    alpha_bar, worst = paper_alpha_bar(), 0.0
    for std in (3.0, 1.0, 0.3, 0.1, 0.03):
        known = np.linalg.inv(CORRELATED) + np.diag([1 / std**2, 0, 0, 0, 0])
        law = np.eye(5)
        for upper, lower in zip(kept[:0:-1], kept[-2::-1], strict=True):
            above, here = alpha_bar[upper], alpha_bar[lower]
            alpha = above / here
            c0 = np.sqrt(here) * (1 - alpha) / (1 - above)
            c1 = np.sqrt(alpha) * (1 - here) / (1 - above)
            left = np.linalg.inv(known + above / (1 - above) * np.eye(5))
            move = c0 * np.sqrt(above) / (1 - above) * left + c1 * np.eye(5)
            noise = left if whole else np.diag(np.diag(left))
            variance = (1 - here) * (1 - alpha) / (1 - above)
            law = move @ law @ move.T + variance * np.eye(5) + c0**2 * noise
        exact = np.sqrt(np.diag(np.linalg.inv(known)))
        worst = max(worst, np.abs(np.sqrt(np.diag(law)) / exact - 1).max())
    return worst


def test_variances_alone_need_many_small_steps():
    """Wherever twenty steps are placed; with the whole covariance, one is enough."""
    alpha_bar = paper_alpha_bar()
    log_snr = np.log(alpha_bar[1:] / (1 - alpha_bar[1:]))
    wanted = np.linspace(log_snr[0], log_snr[-1], 24)
    by_snr = [0, *sorted({1 + int(np.argmin(np.abs(log_snr - one))) for one in wanted})]
    angles = np.arccos(np.sqrt(alpha_bar))
    wanted = np.linspace(0, angles[-1], 21)
    by_angle = sorted({int(np.argmin(np.abs(angles - one))) for one in wanted})
    assert len(by_snr) == len(by_angle) == 21
    evenly = list(range(0, 101, 5))
    for kept in (evenly, by_snr, by_angle):
        assert worst_deviation(kept, whole=False) > 0.05
    assert worst_deviation(list(range(101)), whole=False) < 0.013
    for kept in (evenly, [0, 100]):
        assert worst_deviation(kept, whole=True) < 0.001


def test_a_denoiser_without_a_covariance_says_what_is_missing():
    prior = DiffusionPrior(build_denoiser("residual-mlp", 3, width=4), np.ones((100, 3)))
    for sampler, missing in (("covariance", "the covariance"), ("merged", "evidence as noise")):
        with pytest.raises(InvalidInputError, match=f"'{sampler}' needs a denoiser .*{missing}"):
            prior.posterior_sample(Evidence.none(3), sampler=sampler, steps=2)


def test_the_gaussian_of_a_mixture_has_its_covariance():
    """Pushed by next to no evidence: the prior's own standard deviations."""
    denoiser = MixtureDenoiser(MIXTURE)
    marginals = denoiser.of_gaussian(jnp.zeros(ARMS), jnp.full(ARMS, 1e-6))
    np.testing.assert_allclose(marginals.std, MIXTURE.std, rtol=1e-4)
    np.testing.assert_allclose(marginals.mean, 0.0, atol=1e-6)


def test_factor_noise_has_the_covariance_of_its_gaussian():
    rng, draws = np.random.default_rng(2), 20_000
    loadings, own = rng.standard_normal((ARMS, 2)), rng.random(ARMS)
    precision = np.array([0.0, 1.0, 1e4, 0.1, 0.0, 10.0, 1e8, 3.0])
    seen = Observation(jnp.zeros(ARMS), jnp.asarray(precision, jnp.float32))
    noise = FactorGaussian(np.zeros(ARMS), loadings, own).given(seen).noise
    found = jax.vmap(noise.deviate)(jax.random.split(jax.random.key(0), draws))
    prior = np.linalg.inv(loadings @ loadings.T + np.diag(own))
    covariance = np.linalg.inv(prior + np.diag(precision))
    std = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(std, std)
    tolerance = 4.5 * np.sqrt((1 + correlation**2) / draws) + 1e-3
    found = np.asarray(found, np.float64)
    assert (np.abs(found.T @ found / draws - correlation) < tolerance).all()


def test_the_merged_sampler_finds_the_modes_of_a_mixture():
    """At 100 steps; few steps smear the modes, since each is Gaussian."""
    law = GaussianMixture([0.5, 0.5], [[-1.0, -1.0], [1.0, 1.0]], [0.25 * np.eye(2)] * 2)
    prior = DiffusionPrior.mixture(law.weights, law.means, law.covariances)
    evidence = Evidence([0.1, np.nan], 0.5)
    exact = law.posterior(evidence)
    draws = prior.posterior_sample(evidence, n=5000, sampler="merged")
    assert_same_moments(draws, exact.mean, exact.std)
