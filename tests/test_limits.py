"""No sampler leaves the range that a prior can explain, however badly the prior was trained."""

import jax
import numpy as np
import pytest

from diffts import DiffusionPrior, Evidence, TrainingConfig, learn_prior
from diffts.diffusion import SAMPLERS
from diffts.diffusion.posterior import ASK_FOR_MORE, REFERENCES
from diffts.diffusion.units import Units
from diffts.priors import builtin_prior
from diffts.problems import Groups, get_problem

K, DRAWS, STEPS = 24, 150, 8


def low_rank(rng):
    return 0.5 + 0.2 * rng.normal(size=(200, 2)) @ rng.normal(size=(2, K))


def on_or_off(rng):
    return np.repeat(rng.random((200, K // 4)) < 0.3, 4, axis=1).astype(float)


def bad_prior(law, predicts, steps):
    tasks = law(np.random.default_rng(0))
    config = TrainingConfig(steps=steps, learning_rate=3e-3)
    prior = learn_prior(tasks, options={"width": 16}, predicts=predicts, config=config, seed=1)
    return prior, tasks


BAD = [
    (low_rank, "clean", 1),
    (on_or_off, "clean", 50),
    (low_rank, "velocity", 50),
    (on_or_off, "noise", 1),
    (on_or_off, "residual", 50),
]


def pairs():
    """Every sampler with both priors of clean means, which share a program, and one other.

    The others are compiled for each sampler anew. They go round: each of them has its samplers.
    """
    others = pytest.mark.long(reason="a program for each sampler and each thing that is predicted")
    for i, sampler in enumerate(sorted(set(SAMPLERS) - set(ASK_FOR_MORE))):
        for j, given in enumerate(BAD):
            marks = () if given[1] == "clean" or j - 2 == i % 3 else others
            name = f"{given[0].__name__}-{given[1]}-{given[2]}-{sampler}"
            yield pytest.param(given, sampler, marks=marks, id=name)


@pytest.fixture(scope="module")
def badly_trained(request):
    """A prior after one or fifty gradient steps, its data, and draws without evidence."""
    prior, tasks = bad_prior(*request.param)
    return prior, tasks, prior.sample(DRAWS, steps=STEPS, seed=5)


@pytest.mark.slow
@pytest.mark.parametrize(("badly_trained", "sampler"), [*pairs()], indirect=["badly_trained"])
def test_draws_stay_where_prior_and_evidence_are(badly_trained, sampler):
    """Finite, within the range, and (our own) no further from the evidence than the prior."""
    prior, tasks, without = badly_trained
    rng = np.random.default_rng(2)
    low, high = float(prior.low), float(prior.high)
    cases = []
    for share in (0.05, 0.5, 1.0):
        for noise in (0.0, 1e-3, 0.1, 10.0, 1e20, 1e30):
            mask = rng.random(K) < share
            mask[0] = True
            value = tasks[7] + min(noise, 1.0) * rng.normal(size=K)
            cases.append(Evidence(value, noise, mask))
    # What nobody has ever seen, exactly or nearly so: beyond the range, and far beyond it.
    for value in (5.0, 1e3, -1e6):
        for noise in (0.0, 0.1):
            cases.append(Evidence(np.where(np.arange(K) < 2, value, 0.5), noise, np.arange(K) < 3))
    evidence = Evidence.stack(cases)
    draws = prior.posterior_sample(evidence, n=DRAWS, sampler=sampler, steps=STEPS, seed=3)
    assert np.isfinite(draws).all()
    mask, seen = np.asarray(evidence.mask), np.asarray(evidence.mean)
    lowest = np.where(mask, np.minimum(low, seen), low)
    highest = np.where(mask, np.maximum(high, seen), high)
    rounding = 1e-5 * (np.abs(lowest) + np.abs(highest))
    assert (draws >= lowest - rounding).all()
    assert (draws <= highest + rounding).all()
    if sampler in REFERENCES:
        return  # it follows the network's gradient, which a badly trained one has wrong
    for i, of_case in enumerate(cases):
        here = mask[i]
        missed = np.square(draws[:, i][:, here] - seen[i, here]).mean(1)
        before = np.square(without[:, here] - seen[i, here]).mean(1)
        error = np.hypot(missed.std(), before.std()) / np.sqrt(DRAWS)
        assert missed.mean() <= before.mean() + 4.5 * error, (of_case.std.max(), here.sum())


def test_a_learned_prior_knows_its_range(tmp_path):
    prior, tasks = bad_prior(low_rank, "clean", 1)
    width = tasks.max() - tasks.min()
    # A sixth of the tasks is kept back for calibration, and the range is that of the others.
    assert tasks.min() - 1.01 * width < float(prior.low) < tasks.min() - 0.5 * width
    assert tasks.max() + 0.5 * width < float(prior.high) < tasks.max() + 1.01 * width
    prior.save(tmp_path)
    again = DiffusionPrior.load(tmp_path)
    assert (again.low, again.high) == (prior.low, prior.high)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["popular-niche", "labeled-arms-common", "bidding"])
def test_limits_change_nothing_of_a_sound_chain(name):
    """On histories as play makes them, the built-in priors draw the same with and without."""
    prior, problem = builtin_prior(name), get_problem(name)
    assert np.isfinite(prior.low)
    assert np.isfinite(prior.high)
    tasks = problem.development(4, seed=11)
    rng = np.random.default_rng(0)
    counts = np.where(rng.random(tasks.shape) < 0.2, rng.integers(1, 40, tasks.shape), 0)
    noise = problem.noise_std / np.sqrt(np.maximum(counts, 1))
    evidence = Evidence(tasks + noise * rng.standard_normal(tasks.shape), noise, counts > 0)
    unlimited = DiffusionPrior(
        prior.denoiser, prior.tau, schedule=prior.schedule, units=Units(*prior.units[:2])
    )
    for sampler in ("paper", "moment-damped"):
        drawn = [
            p.posterior_sample(evidence, n=8, sampler=sampler, steps=20, seed=1)
            for p in (prior, unlimited)
        ]
        np.testing.assert_allclose(*drawn, atol=1e-4)


@pytest.mark.slow
def test_the_solve_of_moment_matching_holds_on_20_groups():
    """Its entries once reached 1e6 there, with a network that is well trained."""
    tasks = Groups().split(400, 100, 5, seed=0)
    config = TrainingConfig(steps=300, learning_rate=2e-3)
    prior = learn_prior(tasks.train, tasks.calibration, options={"width": 64}, config=config)
    mask = np.random.default_rng(0).random(tasks.test.shape) < 0.5
    evidence = Evidence(tasks.test, 0.0, mask)
    draws = prior.posterior_sample(evidence, n=20, sampler="moment", steps=20)
    assert draws.min() >= -1  # once the range of the tasks, 0 to 1, beyond it
    assert draws.max() <= 2
    hidden = np.broadcast_to(~mask, draws.shape)
    missed = np.abs(draws - tasks.test)[hidden].mean()
    blind = np.abs(prior.sample(100, steps=20)[:, None] - tasks.test)[:, ~mask].mean()
    assert missed < 0.7 * blind  # what is seen of a group tells of the rest


@pytest.mark.slow
def test_exact_observations_win_over_a_prior_without_doubt():
    """A contradiction: handled alike by the closed forms and by every sampler of our own."""
    mean, covariance = np.array([0.0, 1.0, 2.0]), np.diag([0.0, 1.0, 0.0])
    evidence = Evidence([5.0, 1.5, 0.0], 0.0, [True, True, False])
    gaussian = DiffusionPrior.gaussian(mean, covariance)
    mixture = DiffusionPrior.mixture([0.5, 0.5], [mean, mean], [covariance, covariance])
    for sampler in set(SAMPLERS) - set(REFERENCES):
        for prior in (gaussian, mixture):
            draws = prior.posterior_sample(evidence, n=20, sampler=sampler)
            np.testing.assert_allclose(draws[:, :2], [[5.0, 1.5]] * 20, atol=1e-3)
            np.testing.assert_allclose(draws[:, 2], 2.0, atol=1e-3)
    from diffts.diffusion import Gaussian, GaussianMixture

    exact = Gaussian(mean, covariance)
    assert exact.log_evidence(evidence) == -np.inf
    np.testing.assert_allclose(exact.posterior(evidence).mean, [5.0, 1.5, 2.0])
    two = GaussianMixture([0.3, 0.7], [mean, mean + 1], [covariance, covariance])
    posterior = two.posterior(evidence)
    np.testing.assert_allclose(posterior.weights, [0.3, 0.7])
    np.testing.assert_allclose(posterior.means[:, :2], [[5.0, 1.5]] * 2)
    possible = Evidence([1.0, 1.5, 0.0], 0.0, [True, True, False])  # only the second made it
    np.testing.assert_allclose(two.posterior(possible).weights, [0.0, 1.0])
    assert jax.numpy.isfinite(gaussian.tau).all()
