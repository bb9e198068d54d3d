"""Posterior samplers: against independent implementations, exact posteriors and their limits."""

import inspect

import numpy as np
import pytest

from diffts import DiffusionPrior, Evidence
from diffts import chunks as chunks_module
from diffts.diffusion import SAMPLERS, Gaussian, MomentSampler, PaperSampler
from diffts.diffusion.posterior import REFERENCES, as_sampler
from diffts.diffusion.units import Units
from oracles import (
    assert_same_moments,
    dps_sampler,
    gaussian_gain,
    gaussian_tau,
    moment_law,
    paper_alpha_bar,
    paper_sampler,
)

NOISE_STDS = (3.0, 1.0, 0.3, 0.1, 0.03)


def correlated(size, correlation=0.9):
    return (1 - correlation) * np.eye(size) + correlation * np.ones((size, size))


def first_arm(size, std):
    return Evidence([1.0] + [np.nan] * (size - 1), std)


def independent_draws(covariance, evidence, draws, seed, **options):
    return paper_sampler(
        lambda x, level: x @ gaussian_gain(covariance, level).T,
        lambda level: gaussian_tau(covariance, level),
        np.asarray(evidence.mean, np.float64),
        np.asarray(evidence.std, np.float64),
        np.asarray(evidence.mask),
        draws,
        np.random.default_rng(seed),
        **options,
    )


def assert_same_law(ours, theirs):
    """Two independent samples agree in mean and sd: tolerance from both Monte-Carlo errors."""
    sd, n = theirs.std(0), 1 / (1 / len(ours) + 1 / len(theirs))
    assert (np.abs(ours.mean(0) - theirs.mean(0)) < 4.5 * sd / np.sqrt(n)).all()
    assert (np.abs(ours.std(0) - sd) < 4.5 * sd / np.sqrt(2 * n)).all()


# --- the paper's sampler -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["predicted", "sampled"])
@pytest.mark.parametrize("variance", ["calibrated", "plain", "partial"])
def test_paper_sampler_agrees_with_an_independent_implementation(noise, variance):
    covariance = correlated(3)
    prior = DiffusionPrior.gaussian(np.zeros(3), covariance)
    evidence = Evidence([1.0, np.nan, -0.5], [0.3, 0.0, 1.0])
    ours = prior.posterior_sample(
        evidence, n=10_000, sampler=PaperSampler(noise=noise), variance=variance
    )
    theirs = independent_draws(covariance, evidence, 10_000, 1, noise=noise, variance=variance)
    assert_same_law(ours.astype(np.float64), theirs)


def test_paper_sampler_known_figures():
    """One arm, noise 1: mean 0.914, sd 0.627, where the exact posterior has 0.500 and 0.707."""
    prior = DiffusionPrior.gaussian([0.0], [[1.0]])
    draws = prior.posterior_sample(Evidence([1.0], 1.0), n=30_000)
    # Half a unit of the last digit that is known, and 4.5 standard errors.
    assert abs(draws.mean() - 0.914) < 5e-4 + 4.5 * 0.627 / np.sqrt(30_000)
    assert abs(draws.std() - 0.627) < 5e-4 + 4.5 * 0.627 / np.sqrt(60_000)


# --- the moment sampler --------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("steps", [100, 20, 7])
@pytest.mark.parametrize("observed", [[0], [0, 1, 2, 3]])
def test_moment_sampler_has_the_law_that_theory_gives_it(steps, observed):
    covariance = correlated(5)
    prior = DiffusionPrior.gaussian(np.zeros(5), covariance)
    values = np.full(5, np.nan)
    values[observed] = np.array([1.0, 0.5, 1.5, 0.8])[: len(observed)]
    draws = prior.posterior_sample(Evidence(values, 0.3), n=10_000, steps=steps, sampler="moment")
    kept = list(prior.schedule.strided(steps))
    mean, sd = moment_law(covariance, values, 0.3, ~np.isnan(values), kept)
    assert_same_moments(draws, mean, sd)


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize(("steps", "bound"), [(100, 0.02), (20, 0.07)])
def test_moment_law_is_near_the_exact_posterior(size, steps, bound):
    """No sampling: with one observed arm, within 2% of the exact sd (7% at 20 steps)."""
    kept = np.round(np.linspace(0, 100, steps + 1)).astype(int).tolist()
    for std in NOISE_STDS:
        evidence = first_arm(size, std)
        exact = Gaussian(np.zeros(size), correlated(size)).posterior(evidence)
        y, mask = np.asarray(evidence.mean), np.asarray(evidence.mask)
        mean, sd = moment_law(correlated(size), y, std, mask, kept)
        assert np.abs((mean - exact.mean) / exact.std).max() < bound
        assert np.abs((sd - exact.std) / exact.std).max() < bound


#: Few draws of five arms are enough here: that the sampler has its law is tested above.
MANY = [
    pytest.param(size, 100_000, marks=pytest.mark.long(reason="2% of an sd needs 100,000 draws"))
    for size in (1, 2, 5)
]


@pytest.mark.slow
@pytest.mark.parametrize(("size", "n"), [(5, 3000), *MANY])
@pytest.mark.parametrize(("steps", "bound"), [(100, 0.02), (20, 0.07)])
def test_moment_draws_are_near_the_exact_posterior(size, steps, bound, n):
    """The same of the sampler itself: the bound, plus four standard errors of the estimate."""
    covariance = correlated(size)
    prior = DiffusionPrior.gaussian(np.zeros(size), covariance)
    for std in NOISE_STDS:
        evidence = first_arm(size, std)
        exact = Gaussian(np.zeros(size), covariance).posterior(evidence)
        draws = prior.posterior_sample(evidence, n=n, steps=steps, sampler="moment")
        draws = draws.astype(np.float64)
        assert np.abs((draws.mean(0) - exact.mean) / exact.std).max() < bound + 4 / np.sqrt(n)
        assert np.abs((draws.std(0) - exact.std) / exact.std).max() < bound + 4 / np.sqrt(2 * n)


@pytest.mark.slow
def test_the_cheap_moment_sampler_over_counts_correlated_observations():
    """Why the solve is there: without it four correlated observations count as independent."""
    covariance = correlated(5)
    prior = DiffusionPrior.gaussian(np.zeros(5), covariance)
    evidence = Evidence([1.0, 0.5, 1.5, 0.8, np.nan], 1.0)
    exact = Gaussian(np.zeros(5), covariance).posterior(evidence)

    def error(sampler):
        draws = prior.posterior_sample(evidence, n=6000, sampler=sampler)
        return np.abs((draws.mean(0) - exact.mean) / exact.std).max()

    assert error(MomentSampler(iterations=4)) < 0.05 < error(MomentSampler(iterations=0))


@pytest.mark.slow
@pytest.mark.parametrize("rank", [1, 3])
def test_damping_holds_the_chain_where_many_arms_say_the_same(rank):
    rng = np.random.default_rng(0)
    loadings = rng.standard_normal((100, rank)) / np.sqrt(rank)
    covariance = loadings @ loadings.T + 0.01 * np.eye(100)
    prior = DiffusionPrior.gaussian(np.zeros(100), covariance)
    task = rng.multivariate_normal(np.zeros(100), covariance)
    seen = np.where(np.arange(100) < 50, task + 0.3 * rng.standard_normal(100), np.nan)
    exact = Gaussian(np.zeros(100), covariance).posterior(Evidence(seen, 0.3))

    # The same prior without its limits, which would hide most of the harm.
    unlimited = DiffusionPrior(prior.denoiser, prior.tau, units=Units(0.0, prior.scale))

    def error(prior, sampler):
        draws = prior.posterior_sample(Evidence(seen, 0.3), n=1000, steps=10, sampler=sampler)
        return np.sqrt(np.mean(((draws.mean(0) - exact.mean) / exact.std) ** 2))

    assert error(prior, "moment-damped") < 0.1
    assert error(unlimited, "moment-damped") < 0.1
    for undamped in ("moment-learned", "moment-diagonal"):
        assert error(unlimited, undamped) > 10
        assert error(prior, undamped) < 2


# --- diffusion posterior sampling, the reference ---------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("observed", [[0], [0, 1, 2, 3]])
def test_dps_agrees_with_an_independent_implementation(observed):
    covariance, values = correlated(5), np.full(5, np.nan)
    values[observed] = np.array([1.0, 0.5, 1.5, 0.8])[: len(observed)]
    sigma, mask = np.array([0.3, 1.0, 0.1, 0.5, 1.0]), ~np.isnan(values)
    prior = DiffusionPrior.gaussian(np.zeros(5), covariance)
    ours = prior.posterior_sample(Evidence(values, sigma), n=20_000, sampler="dps")
    theirs = dps_sampler(covariance, values, sigma, mask, 20_000, np.random.default_rng(1))
    assert_same_law(ours.astype(np.float64), theirs)


@pytest.mark.slow
@pytest.mark.parametrize("std", [1.0, 0.3])
def test_dps_trusts_the_estimate_too_much(std):
    """Its bias: too near to the evidence and too narrow, though less so than 'paper' is."""
    prior = DiffusionPrior.gaussian([0.0], [[1.0]])
    exact = Gaussian([0.0], [[1.0]]).posterior(Evidence([1.0], std))

    def error(sampler):
        draws = prior.posterior_sample(Evidence([1.0], std), n=20_000, sampler=sampler)
        return (draws.mean() - exact.mean[0]) / exact.std[0], draws.std() / exact.std[0] - 1

    (mean, spread), (paper_mean, _) = error("dps"), error("paper")
    assert 0.1 < mean < paper_mean
    assert -0.25 < spread < -0.04


# --- what every sampler must do ------------------------------------------------------------


# Where the length of a chain does not matter it has 4 steps, and mostly 6 rows: one program.


@pytest.fixture(params=sorted(SAMPLERS))
def sampler(request):
    return request.param


@pytest.fixture(params=sorted(set(SAMPLERS) - set(REFERENCES)))
def exact_sampler(request):
    return request.param


PRIOR_MEAN, PRIOR_COVARIANCE = np.array([3.0, 5.0, 4.0]), 4.0 * correlated(3, 0.5)


@pytest.fixture(scope="module")
def prior():
    return DiffusionPrior.gaussian(PRIOR_MEAN, PRIOR_COVARIANCE)


@pytest.mark.slow
def test_no_evidence_gives_the_prior(prior, sampler):
    """Up to the chain's own error: ``x_L`` starts at N(0, I), not at the diffused prior."""
    draws = prior.posterior_sample(Evidence.none(3), n=10_000, sampler=sampler)
    sd = np.sqrt(np.diag(PRIOR_COVARIANCE))
    assert np.abs((draws.mean(0) - PRIOR_MEAN) / sd).max() < 0.015 + 4.5 / np.sqrt(10_000)
    assert np.abs((draws.std(0) - sd) / sd).max() < 0.01 + 4.5 / np.sqrt(20_000)
    correlation = np.corrcoef(draws.T)[np.triu_indices(3, 1)]
    assert np.abs(correlation - 0.5).max() < 0.01 + 4.5 * 0.75 / np.sqrt(10_000)


def test_noiseless_evidence_gives_the_data(prior, exact_sampler):
    data = np.array([[2.0, 6.0, 3.0], [4.0, 4.5, 5.0]])
    draws = prior.posterior_sample(Evidence.exact(data), sampler=exact_sampler)
    np.testing.assert_allclose(draws, data, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("variance", ["calibrated", "plain", "partial"])
def test_noiseless_evidence_wins_whatever_the_variance(prior, exact_sampler, variance):
    data, evidence = np.array([2.0, 6.0, 3.0]), Evidence.exact([2.0, 6.0, 3.0])
    options = {"sampler": exact_sampler, "variance": variance}
    draws = prior.posterior_sample(evidence, n=6, steps=4, **options)
    np.testing.assert_allclose(draws, np.tile(data, (6, 1)), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("reference", REFERENCES)
def test_a_reference_misses_noiseless_evidence_by_what_its_last_step_adds(prior, reference):
    """Why it is no posterior sampler, and no worse than that: sd ``τ_1`` around the data."""
    data = np.array([2.0, 6.0, 3.0])
    draws = prior.posterior_sample(Evidence.exact(data), n=20_000, sampler=reference)
    assert_same_moments(draws, data, prior.reconstruction_error[0])


@pytest.mark.slow
def test_more_evidence_narrows_the_draws(prior, sampler):
    spread = [
        prior.posterior_sample(Evidence([4.0] + [np.nan] * 2, std), n=1000, sampler=sampler).std(0)
        for std in (5.0, 0.5, 0.05)
    ]
    assert spread[0][0] > spread[1][0] > spread[2][0]


@pytest.mark.slow
def test_units_do_not_matter(sampler):
    """The same problem in other units gives the same draws in those units."""
    metres = DiffusionPrior.gaussian([1.0, 2.0, 1.5], correlated(3))
    centimetres = DiffusionPrior.gaussian([100.0, 200.0, 150.0], 1e4 * correlated(3))
    seen, options = np.array([1.5, np.nan, np.nan]), {"n": 6, "steps": 4, "sampler": sampler}
    a = metres.posterior_sample(Evidence(seen, 0.2), **options)
    b = centimetres.posterior_sample(Evidence(100 * seen, 20.0), **options)
    np.testing.assert_allclose(100 * a, b, rtol=2e-3, atol=0.05)


@pytest.mark.slow
def test_seeds(prior, sampler):
    evidence = Evidence([2.0, np.nan, np.nan], 0.5)

    def draw(seed):
        return prior.posterior_sample(evidence, n=6, sampler=sampler, seed=seed, steps=4)

    np.testing.assert_array_equal(draw(1), draw(1))
    assert not np.array_equal(draw(1), draw(2))
    generator = np.random.default_rng(0)
    assert not np.array_equal(draw(generator), draw(generator))


@pytest.mark.slow
def test_draws_do_not_depend_on_the_batch_they_are_in(prior, sampler, monkeypatch):
    tasks = Evidence([[2.0, np.nan, 1.0], [np.nan, 3.0, np.nan], [1.0, 1.0, 1.0]], 0.5)
    together = prior.posterior_sample(tasks, n=11, steps=4, sampler=sampler)
    fewer = prior.posterior_sample(tasks, n=2, steps=4, sampler=sampler)
    np.testing.assert_allclose(together[:2], fewer, atol=1e-5)
    # Of six rows each, the last ones of which are beyond the 33 that are asked for.
    monkeypatch.setattr(chunks_module, "CHUNK_ENTRIES", {"cpu": 3 * 6})
    in_chunks = prior.posterior_sample(tasks, n=11, steps=4, sampler=sampler)
    np.testing.assert_allclose(together, in_chunks, atol=1e-5)


@pytest.mark.slow
def test_shapes(prior, sampler):
    one, batch = Evidence.none(3), Evidence.none(3, (2, 3))
    assert prior.posterior_sample(one, sampler=sampler, steps=4).shape == (3,)
    assert prior.posterior_sample(one, n=6, sampler=sampler, steps=4).shape == (6, 3)
    assert prior.posterior_sample(batch, sampler=sampler, steps=4).shape == (2, 3, 3)
    chains = prior.posterior_sample(batch, sampler=sampler, steps=4, chain=True)
    assert chains.shape == (2, 3, 5, 3)


@pytest.mark.slow
def test_a_chain_ends_in_the_draw(prior, sampler):
    evidence = Evidence([2.0, np.nan, np.nan], 0.5)
    draws = prior.posterior_sample(evidence, n=6, steps=4, sampler=sampler)
    chains = prior.posterior_sample(evidence, n=6, steps=4, sampler=sampler, chain=True)
    np.testing.assert_allclose(chains[:, 0], draws, atol=1e-5)
    assert chains.shape == (6, 5, 3)
    # The other end is the start x_L ~ N(0, I), in the user's units.
    start = (chains[:, -1] - float(prior.shift)) / float(prior.scale)
    assert np.abs(start).max() < 5


def test_one_compilation_serves_nearby_batch_sizes():
    sizes = {chunks_module.padded_size(rows) for rows in range(1, 1025)}
    assert len(sizes) <= 40
    assert all(
        rows <= chunks_module.padded_size(rows) <= 1.25 * rows + 1 for rows in range(1, 2000)
    )


def test_a_sampler_is_one_file_with_one_documented_class(sampler):
    kind = type(as_sampler(sampler))
    module = inspect.getmodule(kind)
    samplers = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__
    ]
    assert samplers == [kind]
    assert kind.__doc__


def test_the_sub_schedule_reaches_the_network_with_full_steps():
    """A strided chain asks the denoiser at steps of the full schedule."""
    prior = DiffusionPrior.gaussian([0.0], [[1.0]])
    steps = prior.schedule.transitions(4).source.step
    assert steps.tolist() == [100, 75, 50, 25]
    np.testing.assert_allclose(
        prior.schedule.level(25).signal ** 2, paper_alpha_bar()[25], rtol=1e-6
    )
