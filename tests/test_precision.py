"""Matrix products on a GPU run in TF32 unless told otherwise: what cancels must not notice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffts import DiffusionPrior, Evidence
from diffts.bandits.policies import MixtureTS
from diffts.diffusion import Gaussian, GaussianMixture, Schedule
from reduced_precision import round_products, tf32

K, NOISE, ROUNDS = 180, 0.1, 200


MATCHING = ("moment", "moment-diagonal", "moment-damped")


@pytest.fixture(scope="module")
def in_full():
    """What is the same with full and with rounded products: by sampler, and of the denoisers."""
    return {**{sampler: matched(sampler) for sampler in MATCHING}, "denoisers": denoised()}


@pytest.fixture(scope="module")
def rounded(in_full):
    """Products as a GPU takes them; compiled programs are forgotten before and after.

    Once for all tests: they have to be compiled again, and those of other files after them.
    """
    with pytest.MonkeyPatch.context() as patch:
        round_products(patch)
        yield in_full
    jax.clear_caches()


def a_prior(rng):
    """Edges of a maze, roughly: few directions explain most, and means and scales as there."""
    loadings = rng.standard_normal((K, 12)) / 6
    return Gaussian(np.full(K, -0.5), loadings @ loadings.T + 0.02 * np.eye(K))


@pytest.mark.usefixtures("rounded")
def test_products_are_rounded_as_said():
    a = jnp.full((2, 2), 1 + 2**-12, jnp.float32)
    assert float(tf32(a)[0, 0]) == 1.0
    assert float((a @ jnp.eye(2))[0, 0]) == 1.0
    assert float(jnp.matmul(a, jnp.eye(2), precision="highest")[0, 0]) == float(a[0, 0])
    with jax.default_matmul_precision("highest"):
        assert float((a @ jnp.eye(2))[0, 0]) == float(a[0, 0])


@pytest.mark.slow
@pytest.mark.usefixtures("rounded")
@pytest.mark.parametrize("components", [1, 3])
def test_posteriors_of_sets_of_arms_are_exact_after_many_pulls(components):
    """K = 180, 200 actions of twenty arms each, as in a maze: variances far below the prior's."""
    rng = np.random.default_rng(0)
    exact = a_prior(rng)
    weights = np.full(components, 1 / components)
    shifts = 0.3 * np.arange(components)[:, None]
    prior = GaussianMixture(weights, exact.mean + shifts, [exact.covariance] * components)
    truth = exact.mean + 0.3 * rng.standard_normal(K)
    policy = MixtureTS(prior, NOISE, single_arm=False)
    action = np.zeros((ROUNDS, K), bool)
    for row in action:  # mostly the same edges, as a policy that has found its way plays
        row[rng.choice(60 if rng.random() < 0.9 else K, 20, replace=False)] = True
    rewards = np.where(action, truth + NOISE * rng.standard_normal((ROUNDS, K)), 0.0)

    @jax.jit
    def play(actions, rewards):
        def step(state, played):
            return policy.update(state, *played), None

        return jax.lax.scan(step, policy.init(), (actions, rewards))[0]

    state = play(jnp.asarray(action), jnp.asarray(rewards, jnp.float32))
    counts = action.sum(0)
    seen = counts > 0
    evidence = Evidence(
        np.where(seen, rewards.sum(0) / np.maximum(counts, 1), 0.0),
        NOISE / np.sqrt(np.maximum(counts, 1)),
        seen,
    )
    expected = prior.posterior(evidence)
    for k in range(components):
        got = np.asarray(policy.belief.component_covariances(state)[k], np.float64)
        sd = expected.components[k].std
        assert np.abs(np.diag(got) / sd**2 - 1).max() < 0.02
        assert np.linalg.eigvalsh(got)[0] > -1e-5
    sd = expected.components[0].std
    mean, _ = policy.belief.moments(state, jnp.full((2, K), jnp.nan))  # no draws are read
    np.testing.assert_allclose(mean, expected.mean, atol=0.05 * sd.min())
    draws = policy.belief.draw(jax.random.key(0), state, 1000)
    # A sample's standard deviation is off by 1/√(2n); of 180 of them none by five times that.
    spread = np.asarray(draws, np.float64).std(0) / expected.std - 1
    assert np.abs(spread).max() < 5 / np.sqrt(2 * 1000) + 0.01


def matched(sampler):
    rng = np.random.default_rng(1)
    gaussian = a_prior(rng)
    prior = DiffusionPrior.gaussian(gaussian.mean, gaussian.covariance)
    evidence = Evidence(gaussian.mean + 0.3, NOISE, rng.random(K) < 0.3)
    return prior.posterior_sample(evidence, n=3, sampler=sampler, steps=10)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", MATCHING)
def test_moment_matching_takes_its_scalar_products_in_full(sampler, rounded):
    """The exact denoiser asks for full precision itself; so must the solve on top of it."""
    np.testing.assert_allclose(matched(sampler), rounded[sampler], atol=1e-5)


def denoised():
    gaussian = a_prior(np.random.default_rng(2))
    two = ([0.5, 0.5], np.stack([gaussian.mean, gaussian.mean + 1]), [gaussian.covariance] * 2)
    exact = DiffusionPrior.gaussian(gaussian.mean, gaussian.covariance)
    mixture = DiffusionPrior.mixture(*two, Schedule(Schedule.linear().alpha_bar[:4]))
    level = exact.schedule.level(3)
    x = jnp.asarray(np.random.default_rng(0).standard_normal(K), jnp.float32)
    return exact.tau, mixture.tau, exact.denoiser(x, level), mixture.denoiser(x, level)


@pytest.mark.slow
def test_exact_denoisers_and_their_errors_take_full_products(rounded):
    for a, b in zip(denoised(), rounded["denoisers"], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
