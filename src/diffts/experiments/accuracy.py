"""How far posterior draws are from the exact posterior, on priors where that is known."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from diffts.diffusion.exact import Gaussian, GaussianMixture
from diffts.diffusion.posterior import SAMPLERS
from diffts.diffusion.prior import DiffusionPrior
from diffts.evidence import Evidence
from diffts.experiments.limits import check_memory
from diffts.validation import one_of, whole_number

NOISE_STDS = (3.0, 1.0, 0.3, 0.1, 0.03)
DEFAULT_SAMPLERS = ("paper", "moment")


@dataclasses.dataclass(frozen=True)
class _Case:
    distribution: Gaussian | GaussianMixture
    observations: tuple[float, ...]  # of the first arms; the others are unobserved

    def diffusion_prior(self) -> DiffusionPrior:
        exact = self.distribution
        if isinstance(exact, Gaussian):
            return DiffusionPrior.gaussian(exact.mean, exact.covariance)
        return DiffusionPrior.mixture(exact.weights, exact.means, exact.covariances)

    def evidence(self, noise_std: float) -> Evidence:
        values = np.full(self.distribution.mean.shape, np.nan)
        values[: len(self.observations)] = self.observations
        return Evidence(values, noise_std)


def _correlated(dimension: int, correlation: float = 0.9) -> Gaussian:
    """Unit variances and one correlation between all arms."""
    covariance = np.full((dimension, dimension), correlation)
    np.fill_diagonal(covariance, 1.0)
    return Gaussian(np.zeros(dimension), covariance)


CASES: dict[str, _Case] = {
    "gaussian-1d": _Case(_correlated(1), (1.0,)),
    "gaussian-2d": _Case(_correlated(2), (1.0,)),
    "gaussian-5d": _Case(_correlated(5), (1.0,)),
    "gaussian-5d-many": _Case(_correlated(5), (1.0, 0.5, 1.5, 0.8)),
    "mixture-2d": _Case(
        GaussianMixture(
            weights=[0.5, 0.5],
            means=[[-1.0, -1.0], [1.0, 1.0]],
            covariances=[[[0.25, 0.125], [0.125, 0.25]]] * 2,
        ),
        (1.0,),
    ),
}


def measure_accuracy(
    samplers: Sequence[str] = DEFAULT_SAMPLERS,
    steps: int = 100,
    samples: int = 50_000,
    seed: int = 0,
) -> Iterator[dict[str, Any]]:
    """One row for each prior, noise level and sampler, as it is measured.

    A row has moments of a sampler's draws beside the exact ones. The observed arm is arm 0; the
    unobserved one is the last arm (None with a single arm).

    The moments' Monte-Carlo errors, in units of the exact standard deviation, are about
    ``1/√samples`` (mean) and ``1/√(2 samples)`` (standard deviation).
    """
    most_arms = max(case.distribution.mean.size for case in CASES.values())
    check_memory("samples", whole_number("samples", samples, 2), 64 * most_arms)
    for sampler in samplers:
        one_of("sampler", sampler, SAMPLERS)
    for name, case in CASES.items():
        prior = case.diffusion_prior()
        steps = whole_number("steps", steps, 1, prior.schedule.n_steps)
        hidden = len(case.observations) < prior.n_arms
        for sampler in samplers:
            for noise_std in NOISE_STDS:
                evidence = case.evidence(noise_std)
                exact = case.distribution.posterior(evidence)
                draws = prior.posterior_sample(
                    evidence, n=samples, steps=steps, sampler=sampler, seed=seed
                ).astype(np.float64)
                labels = {"prior": name, "sampler": sampler, "steps": steps, "noise_std": noise_std}
                drawn = _moments("", draws.mean(0), draws.std(0), hidden)
                yield labels | drawn | _moments("exact_", exact.mean, exact.std, hidden)


def _moments(of: str, mean: Any, sd: Any, hidden: bool) -> dict[str, float | None]:
    """Both moments of the first arm, and of the last one if that is not observed."""
    places = {"observed": 0, "unobserved": -1 if hidden else None}
    return {
        f"{of}{arm}_{moment}": None if place is None else float(values[place])
        for arm, place in places.items()
        for moment, values in (("mean", mean), ("sd", sd))
    }
