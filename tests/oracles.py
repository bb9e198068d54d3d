"""Independent references for the tests: NumPy in float64, written from the algorithm's text."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray


def paper_alpha_bar(n_steps: int = 100) -> Array:
    """``ᾱ_0 … ᾱ_L`` of the paper's schedule."""
    return np.concatenate([[1.0], np.cumprod(1.0 - np.linspace(1e-4, 0.1, n_steps))])


def gaussian_gain(covariance: Array, alpha_bar: float) -> Array:
    """``A`` with ``E[x_0 | x_ℓ] = A x_ℓ`` for a centred Gaussian."""
    size = len(covariance)
    marginal = alpha_bar * covariance + (1 - alpha_bar) * np.eye(size)
    return np.sqrt(alpha_bar) * covariance @ np.linalg.inv(marginal)


def gaussian_tau(covariance: Array, alpha_bar: float) -> Array:
    """``τ_ℓ`` for a centred Gaussian."""
    gain = gaussian_gain(covariance, alpha_bar)
    return np.sqrt(np.diag(covariance - np.sqrt(alpha_bar) * gain @ covariance))


def paper_sampler(
    denoise: Callable[[Array, float], Array],
    tau: Callable[[float], Array],
    y: Array,
    sigma: Array,
    mask: Array,
    draws: int,
    rng: np.random.Generator,
    noise: str = "predicted",
    variance: str = "calibrated",
) -> Array:
    """Algorithm 'Posterior Sampling with Diffusion Prior', line by line, two draws a step.

    Args:
        denoise: ``(x_ℓ of shape (draws, K), ᾱ_ℓ) → x̂_0``.
        tau: ``ᾱ_ℓ → τ_ℓ``.
        y, sigma, mask: the evidence of one task.
        draws: how many chains.
        rng: source of randomness.
        noise: 'predicted' or 'sampled'.
        variance: 'calibrated', 'plain' or 'partial'.
    """
    alpha_bar = paper_alpha_bar()
    x = rng.standard_normal((draws, len(y)))
    for step in range(len(alpha_bar) - 2, -1, -1):
        here, above = alpha_bar[step], alpha_bar[step + 1]
        alpha = above / here
        x0_hat, t = denoise(x, above), tau(above)
        z = (x - np.sqrt(above) * x0_hat) / np.sqrt(1 - above)
        if noise == "sampled":
            z = rng.standard_normal(x.shape)
        c0 = np.sqrt(here) * (1 - alpha) / (1 - above)
        c1 = np.sqrt(alpha) * (1 - here) / (1 - above)
        v = (1 - here) * (1 - alpha) / (1 - above)
        calibrated = variance == "calibrated" or (variance == "partial" and step == 0)
        var_x = v + calibrated * c0**2 * t**2
        unconditional = c0 * x0_hat + c1 * x + np.sqrt(var_x) * rng.standard_normal(x.shape)
        var_y = here * (sigma**2 + above * (1 - here) / (here * (1 - above)) * t**2)
        diffused = (
            np.sqrt(here) * y
            + np.sqrt(1 - here) * z
            + np.sqrt(var_y) * rng.standard_normal(x.shape)
        )
        # The precision-weighted mean, multiplied through by both variances (one may be 0; both
        # only on unobserved arms, where the result is not used).
        with np.errstate(invalid="ignore"):
            mixed = (unconditional * var_y + diffused * var_x) / (var_x + var_y)
        x = np.where(mask, mixed, unconditional)
    return x


def dps_sampler(
    covariance: Array, y: Array, sigma: Array, mask: Array, draws: int, rng: np.random.Generator
) -> Array:
    """Diffusion posterior sampling for a centred Gaussian, with its gradient in closed form."""
    alpha_bar = paper_alpha_bar()
    x = rng.standard_normal((draws, len(covariance)))
    for here, above in zip(alpha_bar[-2::-1], alpha_bar[:0:-1], strict=True):
        beta, jacobian = 1 - above / here, gaussian_gain(covariance, above)
        x0_hat, tau = x @ jacobian.T, gaussian_tau(covariance, above)
        c0 = np.sqrt(here) * beta / (1 - above)
        c1 = np.sqrt(1 - beta) * (1 - here) / (1 - above)
        std = np.sqrt((1 - here) * beta / (1 - above) + c0**2 * tau**2)
        worth = beta / np.sqrt(1 - beta)
        residual = np.where(mask, y - x0_hat, 0.0)
        uphill = (residual / (sigma**2 + worth)) @ jacobian
        polyak = (residual**2 / (sigma**2 + worth)).sum(1) / (uphill**2).sum(1)
        x = c0 * x0_hat + c1 * x + std * rng.standard_normal(x.shape)
        x = x + np.minimum(worth, polyak)[:, None] * uphill
    return x


def moment_law(
    covariance: Array, y: Array, sigma: float, mask: Array, steps: list[int]
) -> tuple[Array, Array]:
    """Exact mean and sd of the moment sampler's output for a centred Gaussian.

    Every step is then linear in the latent, so that mean and covariance can be carried along
    without any sampling: ``x_ℓ = F x_{ℓ+1} + b + noise``.
    """
    alpha_bar, size = paper_alpha_bar(), len(covariance)
    seen = np.flatnonzero(mask)
    mean, cov = np.zeros(size), np.eye(size)
    for upper, lower in zip(steps[::-1][:-1], steps[::-1][1:], strict=True):
        above, here = alpha_bar[upper], alpha_bar[lower]
        alpha = above / here
        c0 = np.sqrt(here) * (1 - alpha) / (1 - above)
        c1 = np.sqrt(alpha) * (1 - here) / (1 - above)
        v = (1 - here) * (1 - alpha) / (1 - above)
        denoise = gaussian_gain(covariance, above)
        C = covariance - np.sqrt(above) * denoise @ covariance
        tau2 = np.diag(C)
        gain = np.zeros((size, size))
        if lower == 0:
            gain[seen, seen] = tau2[seen] / (tau2[seen] + sigma**2)
        else:
            block = C[np.ix_(seen, seen)] + sigma**2 * np.eye(len(seen))
            gain[:, seen] = C[:, seen] @ np.linalg.inv(block)
        left = np.where(mask, tau2 * sigma**2 / (tau2 + sigma**2), tau2)
        F = c0 * (denoise - gain @ denoise) + c1 * np.eye(size)
        mean = F @ mean + c0 * gain @ np.where(mask, y, 0.0)
        cov = F @ cov @ F.T + np.diag(v + c0**2 * left)
    return mean, np.sqrt(np.diag(cov))


def assert_same_moments(draws: Array, mean: Array, sd: Array, sigmas: float = 4.5) -> None:
    """Mean and sd of independent draws agree with the given ones within Monte-Carlo error.

    The tolerance is ``sigmas`` standard errors of each moment: ``sd/√n`` and ``sd/√(2n)`` (near
    enough Gaussian), plus float32's resolution.
    """
    n, draws = len(draws), np.asarray(draws, np.float64)
    rounding = 1e-5 * (1 + np.abs(mean))
    np.testing.assert_array_less(
        np.abs(draws.mean(0) - mean), sigmas * sd / np.sqrt(n) + rounding, "mean"
    )
    np.testing.assert_array_less(
        np.abs(draws.std(0) - sd), sigmas * sd / np.sqrt(2 * n) + rounding, "sd"
    )
