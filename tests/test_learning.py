import runpy
import signal
import subprocess
import sys
import textwrap

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffts import (
    ArtifactError,
    DiffusionPrior,
    Evidence,
    InvalidInputError,
    TrainingConfig,
    learn_prior,
)
from diffts.diffusion import Gaussian, Schedule, build_denoiser
from diffts.diffusion.exact_denoisers import GaussianDenoiser, gaussian_tau
from diffts.learning import calibrate, fit_gaussian
from diffts.learning.objectives import ExactTasks
from diffts.learning.training import initial_state, train
from diffts.storage import named_arrays

SMALL = {"width": 32, "n_blocks": 1}
COVARIANCE = np.array([[1.0, 0.8, 0.0], [0.8, 1.0, 0.0], [0.0, 0.0, 0.5]])


def gaussian_tasks(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.multivariate_normal([2.0, 3.0, 2.5], COVARIANCE, n)


def weights(denoiser):
    return named_arrays(denoiser)


def train_exact(denoiser, data, config, seed=0, state=None):
    """States of plain training on standardised tasks."""
    state = initial_state(denoiser, config) if state is None else state
    objective = ExactTasks(jnp.asarray(data, jnp.float32))
    blocks = train([state], [objective], config, Schedule.linear(), [seed], config.steps)
    return (state for [state] in blocks)


def assert_equal_weights(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


# --- calibration ---------------------------------------------------------------------------


def test_calibration_of_an_exact_denoiser_is_its_closed_form():
    exact = Gaussian(np.zeros(3), COVARIANCE)
    denoiser, n = GaussianDenoiser(exact), 4000
    data = np.random.default_rng(0).multivariate_normal(np.zeros(3), COVARIANCE, n)
    tau = np.asarray(calibrate(denoiser, data))
    expected = np.asarray(gaussian_tau(denoiser, Schedule.linear()))
    assert tau.shape == (100, 3)
    # The errors are Gaussian: the estimate of a variance has relative error √(2/n), of a root
    # half of that. 300 comparisons: 4.5 standard errors.
    assert np.abs(tau / expected - 1).max() < 4.5 * np.sqrt(0.5 / n)


@pytest.mark.slow
def test_calibration_averages_over_repeats():
    denoiser = GaussianDenoiser(Gaussian(np.zeros(3), COVARIANCE))
    data = np.random.default_rng(0).multivariate_normal(np.zeros(3), COVARIANCE, 300)
    runs = {
        repeats: np.std(
            [np.asarray(calibrate(denoiser, data, repeats=repeats, seed=s)) for s in range(4)], 0
        ).mean()
        for repeats in (1, 16)
    }
    assert runs[16] < 0.5 * runs[1]


@pytest.mark.parametrize(("before", "after"), [(256, 257), (100, 600)])
def test_calibration_does_not_depend_on_how_rows_are_batched(before, after):
    """Further tasks add their own squared errors, whatever batches they and the others fall into.

    So what they add must be the same after other first tasks. (Batches have up to 256 rows: the
    first tasks are one batch of their own size, and with the further ones it becomes several.)
    """
    denoiser = GaussianDenoiser(Gaussian(np.zeros(3), COVARIANCE))
    further = gaussian_tasks(after - before, seed=2)

    def sum_of_squares(tasks):
        return len(tasks) * np.asarray(calibrate(denoiser, tasks), np.float64) ** 2

    firsts = [gaussian_tasks(before, seed=seed) for seed in (0, 1)]
    without = [sum_of_squares(first) for first in firsts]
    with_them = [sum_of_squares(np.concatenate([first, further])) for first in firsts]
    added = [a - b for a, b in zip(with_them, without, strict=True)]
    # Four means and roots in float32, each rounded a few times: 20 units in the last place.
    rounding = 4 * 20 * np.finfo(np.float32).eps * with_them[0]
    assert (np.abs(added[0] - added[1]) < rounding).all()
    assert (added[0].sum(axis=0) > rounding.sum(axis=0)).all()
    # The errors of the first tasks are others: what they add could not be the same by chance.
    assert (np.abs(without[0] - without[1]) > rounding).all()


# --- training ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("predicts", ["clean", "noise", "velocity", "residual"])
def test_a_network_learns_the_exact_denoiser(predicts):
    """On Gaussian data the best denoiser is known: its error τ is the floor of every network."""
    config = TrainingConfig(steps=600, decay="cosine", learning_rate=2e-3)
    prior = learn_prior(
        gaussian_tasks(5000),
        gaussian_tasks(1000, seed=1),
        predicts=predicts,
        options=SMALL,
        config=config,
    )
    exact = DiffusionPrior.gaussian([2.0, 3.0, 2.5], COVARIANCE)
    ratio = prior.reconstruction_error / exact.reconstruction_error
    # Below 1 only by the Monte-Carlo error of 1000 tasks; above it by what is left to learn.
    assert ratio.min() > 1 - 4.5 * np.sqrt(0.5 / 1000)
    # (A noise-predicting network has its error divided by the tiny signal at the last steps.)
    assert np.median(ratio) < 1.05
    draws = prior.sample(2000)
    assert np.abs(draws.mean(0) - [2.0, 3.0, 2.5]).max() < 0.15
    assert np.abs(np.cov(draws.T) - COVARIANCE).max() < 0.2


def test_a_residual_network_starts_from_the_gaussian_denoiser():
    """With an output of 0 it is the exact denoiser of a Gaussian with the data's moments."""
    base = Gaussian([2.0, 3.0, 2.5], COVARIANCE)
    denoiser = build_denoiser("residual-mlp", 3, predicts="residual", base=base, **SMALL)
    silent = eqx.tree_at(
        lambda d: (d.network.outward.weight, d.network.outward.bias),
        denoiser,
        replace_fn=jnp.zeros_like,
    )
    exact = GaussianDenoiser(base)
    x = jnp.array([1.0, -2.0, 0.5])
    for step in (1, 40, 100):
        level = jax.tree.map(jnp.asarray, Schedule.linear().level(step))
        np.testing.assert_allclose(silent(x, level), exact(x, level), rtol=1e-5, atol=1e-5)
        # Where the Gaussian is off by its typical error, the target is of size one.
        x_0 = exact(x, level) + jnp.sqrt(jnp.mean(exact.error_std(level) ** 2))
        noise = (x - level.signal * x_0) / level.noise
        np.testing.assert_allclose(silent.target(x_0, noise, level), 1.0, rtol=1e-2)


@pytest.mark.slow
def test_the_gaussian_under_a_residual_network_is_not_trained():
    config = TrainingConfig(steps=20, batch_size=16)
    prior = learn_prior(gaussian_tasks(100), gaussian_tasks(20), predicts="residual",
                        options=SMALL, config=config)  # fmt: skip
    tasks = gaussian_tasks(100)
    fitted = GaussianDenoiser(fit_gaussian((tasks - tasks.mean()) / tasks.std()))
    np.testing.assert_allclose(prior.denoiser.base.eigenvalues, fitted.eigenvalues, rtol=1e-5)
    with pytest.raises(InvalidInputError, match="base"):
        build_denoiser("residual-mlp", 3, predicts="residual", **SMALL)
    with pytest.raises(InvalidInputError, match="base"):
        build_denoiser("residual-mlp", 3, base=Gaussian([0.0] * 3, COVARIANCE), **SMALL)


@pytest.mark.slow
def test_the_loop_is_a_generator_of_states():
    denoiser = build_denoiser("residual-mlp", 3, **SMALL)
    config = TrainingConfig(steps=25, batch_size=16, block=10)
    states = list(train_exact(denoiser, gaussian_tasks(100), config))
    assert [int(state.step) for state in states] == [10, 20, 25]
    assert all(np.isfinite(float(state.loss)) for state in states)


def test_training_goes_on_exactly_from_any_state():
    denoiser, data = build_denoiser("residual-mlp", 3, **SMALL), gaussian_tasks(100)
    config = TrainingConfig(steps=30, batch_size=16, block=10, ema_decay=0.9, decay="cosine")
    states = list(train_exact(denoiser, data, config, seed=5))
    *_, resumed = train_exact(denoiser, data, config, seed=5, state=states[0])
    assert_equal_weights(weights(resumed), weights(states[-1]))


@pytest.mark.slow
def test_seeds_decide_everything():
    config = TrainingConfig(steps=10, batch_size=16, block=10)
    runs = [
        learn_prior(gaussian_tasks(60), options=SMALL, config=config, seed=seed)
        for seed in (0, 0, 1)
    ]
    assert_equal_weights(named_arrays(runs[0]), named_arrays(runs[1]))
    assert not np.array_equal(runs[0].sample(1), runs[2].sample(1))


@pytest.mark.slow
def test_the_average_is_smoother_than_the_weights():
    denoiser = build_denoiser("residual-mlp", 3, **SMALL)
    config = TrainingConfig(steps=200, batch_size=16, ema_decay=0.99, ema_every=1, block=50)
    *_, before, last = train_exact(denoiser, gaussian_tasks(100), config)

    def moved(a, b):
        return sum(
            float(np.abs(x - y).sum())
            for x, y in zip(jax.tree.leaves(weights(a)), jax.tree.leaves(weights(b)), strict=True)
        )

    assert 0 < moved(before.average, last.average) < moved(before.denoiser, last.denoiser)


def test_without_an_average_the_weights_are_used():
    denoiser = build_denoiser("residual-mlp", 3, **SMALL)
    *_, last = train_exact(denoiser, gaussian_tasks(50), TrainingConfig(steps=5, batch_size=8))
    assert_equal_weights(weights(last.average), weights(last.denoiser))


@pytest.mark.slow
def test_standardisation_is_invisible():
    """Data in other units give the same prior in those units."""
    config = TrainingConfig(steps=30, batch_size=32, block=30)
    data = gaussian_tasks(200)
    a = learn_prior(data, options=SMALL, config=config)
    b = learn_prior(1000 * data - 500, options=SMALL, config=config)
    np.testing.assert_allclose(1000 * a.sample(5) - 500, b.sample(5), rtol=1e-2, atol=30)
    assert a.posterior_sample(Evidence.exact([2.0, 3.0, 2.0])) == pytest.approx([2, 3, 2], rel=1e-5)


# --- checkpoints ---------------------------------------------------------------------------

NEVER = 0
SCRIPT = """
    import os, signal, sys
    import numpy as np
    from diffts import TrainingConfig, learn_prior

    checkpoint, result, die_at = sys.argv[1], sys.argv[2], int(sys.argv[3])

    data = np.random.default_rng(0).normal(size=(120, 4))
    config = TrainingConfig(steps=120, batch_size=16, block=20, ema_decay=0.9, ema_every=3)
    def report(now):
        print(now.done, flush=True)
        if now.done == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
    learn_prior(
        data, options={"width": 16, "n_blocks": 1}, config=config, seed=3,
        checkpoint=checkpoint, checkpoint_every=40, on_progress=report,
    ).save(result)
"""


@pytest.mark.slow
def test_a_killed_training_resumes_to_the_same_weights(tmp_path, monkeypatch, capsys):
    """Killed by itself at a given step: from outside, the kill could come after the end."""
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(SCRIPT))

    def arguments(name, die_at):
        return [str(tmp_path / f"{name}-checkpoint"), str(tmp_path / name), str(die_at)]

    def train(name):
        monkeypatch.setattr(sys, "argv", ["train.py", *arguments(name, NEVER)])
        runpy.run_path(str(script))
        return [int(step) for step in capsys.readouterr().out.split()]

    command = [sys.executable, str(script), *arguments("killed", 60)]
    killed = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    assert (killed.returncode, killed.stdout.split()) == (-signal.SIGKILL, ["20", "40", "60"])
    assert not (tmp_path / "killed").exists()
    # Saved at 40: it goes on from there.
    assert train("killed") == [60, 80, 100, 120]
    assert train("whole") == [20, 40, 60, 80, 100, 120]
    whole, killed = (DiffusionPrior.load(tmp_path / name) for name in ("whole", "killed"))
    assert_equal_weights(named_arrays(whole), named_arrays(killed))


@pytest.mark.slow
def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    config = TrainingConfig(steps=4, batch_size=4, block=2)

    def learn(data, **changes):
        settings = {"options": SMALL, "config": config, "checkpoint": tmp_path, **changes}
        return learn_prior(data, **settings)

    learn(gaussian_tasks(30))
    learn(gaussian_tasks(30))  # finished already: nothing to do, no error
    with pytest.raises(ArtifactError, match="other data, settings or seed"):
        learn(gaussian_tasks(30, seed=9))
    with pytest.raises(ArtifactError, match="other data, settings or seed"):
        learn(gaussian_tasks(30), seed=1)
    with pytest.raises(ArtifactError, match="other data, settings or seed"):
        learn(gaussian_tasks(30), config=TrainingConfig(steps=6, batch_size=4, block=2))


# --- bad input -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tasks", "named"),
    [
        (np.zeros((10, 2)), "past.*equal"),
        (np.zeros((3, 2)), "past.*at least 6"),
        (np.zeros(10), "past"),
        (np.full((10, 2), np.nan), "past"),
    ],
)
def test_bad_tasks_are_refused(tasks, named):
    with pytest.raises(InvalidInputError, match=named):
        learn_prior(tasks, options=SMALL, config=TrainingConfig(steps=1))


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": 0}, {"batch_size": 0}, {"learning_rate": 0.0}, {"learning_rate": np.nan},
        {"ema_decay": 1.0}, {"decay": "steep"}, {"block": 0}, {"beta1": 1.0},
        {"warmup_steps": -1}, {"steps": 10, "warmup_steps": 11},
    ],
)  # fmt: skip
def test_bad_recipes_are_refused_by_name(changes):
    with pytest.raises(InvalidInputError, match=list(changes)[-1]):
        TrainingConfig(**changes)


def test_bad_networks_are_refused_by_name():
    with pytest.raises(InvalidInputError, match="network"):
        build_denoiser("transformer", 3)
    with pytest.raises(InvalidInputError, match="predicts"):
        build_denoiser("residual-mlp", 3, predicts="score")
    with pytest.raises(InvalidInputError, match="depth"):
        build_denoiser("residual-mlp", 3, depth=9)
    with pytest.raises(InvalidInputError, match="calibration"):
        learn_prior(gaussian_tasks(9), np.zeros((4, 2)), options=SMALL)
