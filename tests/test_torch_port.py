"""The PyTorch port that speed is compared with computes the same maths."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffts.diffusion.networks import ResidualConv, build_denoiser
from diffts.diffusion.schedule import Schedule
from diffts.learning.objectives import denoising_loss

torch = pytest.importorskip("torch", reason="PyTorch is needed only for `make bench`")
sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks import torch_port  # noqa: E402


@pytest.fixture(scope="module")
def twins():
    ours = build_denoiser("residual-conv", 40, length=32, seed=1)
    assert isinstance(ours.network, ResidualConv)
    return ours, torch_port.TorchResidualConv(ours.network)


@pytest.mark.parametrize("shared_step", [True, False])
def test_same_weights_same_output(twins, shared_step):
    ours, theirs = twins
    rng = np.random.default_rng(0)
    x = rng.normal(size=(9, 40)).astype(np.float32)
    step = np.full(9, 63) if shared_step else rng.integers(1, 101, size=9)
    expected = jax.vmap(ours.network)(x, jnp.asarray(step))
    with torch.no_grad():
        given = theirs(torch.tensor(x), torch.tensor(step[:1] if shared_step else step))
    assert np.ptp(expected) > 0.1  # the outputs are not all alike
    np.testing.assert_allclose(given.numpy(), expected, atol=1e-4)


def test_same_training_loss(twins):
    ours, theirs = twins
    schedule = Schedule.linear()
    rng = np.random.default_rng(1)
    x_0, noise = rng.normal(size=(2, 16, 40)).astype(np.float32)
    step = rng.integers(1, 101, size=16)
    expected = jax.vmap(denoising_loss, in_axes=(None, 0, 0, 0))(
        ours, x_0, noise, schedule.level(step)
    ).mean()
    trainer = torch_port.Trainer(theirs, torch.tensor(x_0), schedule)
    with torch.no_grad():
        given = trainer.loss(torch.tensor(x_0), torch.tensor(step), torch.tensor(noise))
    assert float(given) == pytest.approx(float(expected), abs=1e-4)


def test_training_lowers_the_loss():
    torch.manual_seed(0)
    data = torch.randn(500, 1) * torch.ones(40)  # one direction: easy to learn
    network = torch_port.TorchResidualConv(
        ResidualConv(40, length=16, n_blocks=2, key=jax.random.key(0))
    )
    trainer = torch_port.Trainer(network, data, Schedule.linear())
    losses = [float(trainer.step()) for _ in range(150)]
    assert np.mean(losses[-20:]) < 0.6 * np.mean(losses[:20])


def law_of_the_sampler(y, sigma, observed):
    """Mean and sd of the algorithm's ``x_0`` for the prior N(0, 1), in float64.

    The exact denoiser is ``h(x, ℓ) = √ᾱ_ℓ x`` with ``τ_ℓ² = 1-ᾱ_ℓ``: each step is linear in the
    latent plus Gaussian noise, so the law follows in closed form. Written from the algorithm,
    with its two draws ``x'`` and ``ỹ`` apart, and sharing nothing with the library.
    """
    beta = np.linspace(1e-4, 0.1, 100)
    bar = np.concatenate([[1.0], np.cumprod(1 - beta)])
    mean, var = 0.0, 1.0
    for level in range(99, -1, -1):
        before, after, b = bar[level + 1], bar[level], beta[level]
        tau2 = 1 - before
        h = np.sqrt(before)  # x̂_0 = h · x
        c0 = np.sqrt(after) * b / (1 - before)
        c1 = np.sqrt(1 - b) * (1 - after) / (1 - before)
        slope_x = c0 * h + c1
        var_x = (1 - after) * b / (1 - before) + c0**2 * tau2
        weight, slope_y, offset_y, var_y = 1.0, 0.0, 0.0, 0.0
        if observed:
            slope_y = np.sqrt(1 - after) * (1 - np.sqrt(before) * h) / np.sqrt(1 - before)
            offset_y = np.sqrt(after) * y
            var_y = after * (sigma**2 + before * (1 - after) / (after * (1 - before)) * tau2)
            weight = (1 / var_x) / (1 / var_x + 1 / var_y)
        slope = weight * slope_x + (1 - weight) * slope_y
        mean = slope * mean + (1 - weight) * offset_y
        var = slope**2 * var + weight**2 * var_x + (1 - weight) ** 2 * var_y
    return mean, np.sqrt(var)


def test_the_reference_law_has_the_published_values():
    # 0.914 and 0.627 were measured by Monte Carlo: good to about three thousandths.
    np.testing.assert_allclose(law_of_the_sampler(1.0, 1.0, True), (0.914, 0.627), atol=4e-3)


@pytest.mark.parametrize("sigma", [3.0, 1.0, 0.1])
def test_the_sampler_has_the_law_of_the_algorithm(sigma):
    draws = 200_000
    schedule = Schedule.linear()
    signal = torch.tensor(np.sqrt(schedule.alpha_bar), dtype=torch.float32)
    tau = np.sqrt(1 - np.asarray(schedule.alpha_bar[1:]))[:, None] * np.ones(2)
    samples = torch_port.posterior_sample(
        lambda x, step: signal[step.long()] * x,
        torch_port.reverse_chain(schedule, tau),
        torch.tensor([1.0, 0.0]).expand(draws, 2),
        torch.full((draws, 2), sigma),
        torch.tensor([True, False]).expand(draws, 2),
        torch.Generator().manual_seed(int(10 * sigma)),
    ).numpy()
    for arm, observed in enumerate([True, False]):
        mean, sd = law_of_the_sampler(1.0, sigma, observed)
        # Five standard errors of the mean, and of the sd of a Gaussian sample.
        assert samples[:, arm].mean() == pytest.approx(mean, abs=5 * sd / np.sqrt(draws))
        assert samples[:, arm].std() == pytest.approx(sd, abs=5 * sd / np.sqrt(2 * draws))
