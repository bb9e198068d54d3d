"""The exact diffusion prior of Popular and Niche, against the float64 enumeration and draws."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffts import Evidence
from diffts.diffusion.observation import Observation
from diffts.problems import PopularNiche
from diffts.problems.popular_niche_exact import ExactPopularNicheBelief
from diffts.problems.popular_niche_prior import exact_prior
from popular_niche_oracle import Enumerated, ExactThompson

PROBLEM = PopularNiche()
TASK = PROBLEM.development(1)[0].astype(np.float64)
TASKS_OF_TAU = 64
GIVEN = eqx.filter_jit(lambda denoiser, observation: denoiser.given(observation))
CALL = eqx.filter_jit(lambda denoiser, x, level: denoiser(x, level))
# An observation of precision p is 100 p rewards of noise 10: the enumeration asks for one at least.
ORACLE = ExactThompson(PROBLEM, 10.0)


@pytest.fixture(scope="module")
def prior():
    return exact_prior(draws=TASKS_OF_TAU)


def enumerated(mean, precision):
    """Moments in the user's units, given means with precisions in those units."""
    counts = 100.0 * np.asarray(precision, np.float64)
    return Enumerated(ORACLE, counts, counts * np.asarray(mean, np.float64)).moments()


def of_user(prior, marginals):
    scaled = marginals.scaled(prior.shift, prior.scale)
    return np.asarray(scaled.mean), np.asarray(scaled.std)


@pytest.mark.parametrize("step", [1, 20, 60, 95])
def test_the_estimate_from_a_latent_is_the_enumerations(prior, step):
    level = jax.tree.map(jnp.asarray, prior.schedule.level(step))
    noise = np.random.default_rng(step).standard_normal(200)
    x = level.signal * (TASK - float(prior.shift)) / float(prior.scale) + level.noise * noise
    x = jnp.asarray(x, jnp.float32)
    observation = Observation.of_latent(x, level)
    seen = float(prior.shift) + float(prior.scale) * np.asarray(observation.mean, np.float64)
    mean, std, _ = enumerated(seen, np.asarray(observation.precision) / float(prior.scale) ** 2)
    found_mean, found_std = of_user(prior, GIVEN(prior.denoiser, observation))
    np.testing.assert_allclose(found_mean, mean, atol=2e-4)
    np.testing.assert_allclose(found_std, std, atol=2e-4)
    estimate = float(prior.shift) + float(prior.scale) * np.asarray(CALL(prior.denoiser, x, level))
    np.testing.assert_allclose(estimate, mean, atol=2e-4)


def test_latent_and_evidence_are_one_observation(prior):
    """A latent of step 50 and 3 to 30 pulls of twenty arms, as the enumeration sees them."""
    rng = np.random.default_rng(0)
    pulls = np.where(rng.random(200) < 0.1, rng.integers(3, 31, 200), 0)
    values = TASK + 0.1 / np.sqrt(np.maximum(pulls, 1)) * rng.standard_normal(200)
    std = 0.1 / np.sqrt(np.maximum(pulls, 1))
    evidence = prior.units.standardise(Evidence(np.where(pulls > 0, values, np.nan), std))
    level = jax.tree.map(jnp.asarray, prior.schedule.level(50))
    noise = rng.standard_normal(200)
    x_0 = (TASK - float(prior.shift)) / float(prior.scale)
    latent = Observation.of_latent(
        jnp.asarray(level.signal * x_0 + level.noise * noise, jnp.float32), level
    )
    # In float64 and in the user's units: precisions add up, means are weighted by them.
    of_latent = np.asarray(latent.precision, np.float64) / float(prior.scale) ** 2
    total = of_latent + pulls / 0.01
    diffused = float(prior.shift) + float(prior.scale) * np.asarray(latent.mean, np.float64)
    mean, sd, _ = enumerated((of_latent * diffused + pulls / 0.01 * values) / total, total)
    both = latent.merged(Observation.of_evidence(evidence))
    found_mean, found_sd = of_user(prior, GIVEN(prior.denoiser, both))
    np.testing.assert_allclose(found_mean, mean, atol=5e-4)
    np.testing.assert_allclose(found_sd, sd, atol=5e-4)


def test_evidence_alone_gives_the_exact_beliefs_marginals(prior):
    belief = ExactPopularNicheBelief()
    state = belief.init()
    for arm, reward in ((3, 1.02), (3, 0.97), (70, 0.1)):
        state = belief.update(state, jnp.arange(200) == arm, jnp.full(200, reward))
    mean, std = belief.moments(state, jnp.zeros((0, 200)))
    marginals = eqx.filter_jit(prior.marginals)(state.history.evidence(jnp.full(200, 0.1)))
    np.testing.assert_allclose(marginals.mean, mean, atol=1e-4)
    np.testing.assert_allclose(marginals.std, std, atol=1e-4)


def test_the_calibrated_errors_are_those_of_fresh_tasks(prior):
    """τ² is the mean squared error of the estimate: of other tasks, but for chance."""
    tasks = PROBLEM.development(400, seed=1).astype(np.float64)
    x_0 = jnp.asarray((tasks - float(prior.shift)) / float(prior.scale), jnp.float32)
    noise = jax.random.normal(jax.random.key(0), x_0.shape)
    for step in (2, 40, 70):
        level = jax.tree.map(jnp.asarray, prior.schedule.level(step))
        latents = level.signal * x_0 + level.noise * noise
        estimates = jax.jit(jax.vmap(lambda x, lv=level: prior.denoiser(x, lv)))(latents)
        squared = np.asarray((x_0 - estimates) ** 2, np.float64).mean(1)  # of each task
        expected = np.mean(np.asarray(prior.tau[step - 1], np.float64) ** 2)
        # τ² itself is a mean over tasks, of a quantity that varies less.
        tolerance = 4.5 * squared.std() * np.sqrt(1 / 400 + 1 / TASKS_OF_TAU)
        assert abs(squared.mean() - expected) < tolerance


def test_units_are_those_of_the_law(prior):
    draws = prior.sample(200, seed=1, steps=20)
    tasks = PROBLEM.sample(4000, seed=2)
    of_task = tasks.mean(1)
    tolerance = 4.5 * of_task.std() / np.sqrt(200) + 0.01
    assert abs(draws.mean() - tasks.mean()) < tolerance
    assert (float(prior.low), float(prior.high)) == (-1.0, 2.0)
