"""What a log may be explained by, the simplest first: each fitted to the same training tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import jax
import numpy as np
from numpy.typing import NDArray

from diffts.diffusion.exact import Gaussian, GaussianMixture, draw_posterior
from diffts.diffusion.prior import DiffusionPrior
from diffts.evidence import Evidence
from diffts.fitting.fitted import STEPS, Law
from diffts.learning import Procedure, learn_prior
from diffts.learning.fits import fit_diagonal, fit_factor_gaussian, fit_mixture
from diffts.seeding import Seed, as_generator

#: Components of the mixture, and tasks that each of them wants at least.
COMPONENTS, TASKS_OF_A_COMPONENT = 5, 50
#: Fewer tasks teach a network nothing that a Gaussian does not know.
LEAST_TASKS_OF_A_NETWORK = 200


@dataclass(frozen=True)
class Candidate:
    """One explanation.

    Attributes:
        kind: 'independent', 'gaussian', 'mixture' or 'diffusion'.
        law: what was fitted; None if it was left out.
        seconds: how long that took.
        note: why it was left out, if it was.
    """

    kind: str
    law: Law | None
    seconds: float = 0.0
    note: str | None = None


def rows_of(evidence: Evidence, rows: NDArray[np.int64]) -> Evidence:
    """Some tasks of a batch."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[rows], evidence)


def fit_candidates(
    train: Evidence,
    kinds: Sequence[str],
    *,
    minutes: float,
    seed: int,
    tell: Callable[[str], None],
) -> Iterator[Candidate]:
    """Each of some candidates as soon as it is fitted; those that would take too long say so.

    ``minutes`` is for all of them: what the cheap ones leave over, the diffusion prior may use.
    """
    started = time.perf_counter()
    n_tasks = len(train.mean)
    order = as_generator(seed).permutation(n_tasks)
    fitted_to, others = rows_of(train, order[n_tasks // 6 :]), rows_of(train, order[: n_tasks // 6])

    def timed(kind: str, fit: Callable[[], Law]) -> Candidate:
        tell(f"fitting: {kind}")
        before = time.perf_counter()
        return Candidate(kind, fit(), time.perf_counter() - before)

    if "independent" in kinds:
        yield timed("independent", lambda: fit_diagonal(train))
    if "gaussian" in kinds:
        yield timed("gaussian", lambda: fit_factor_gaussian(fitted_to, others).gaussian)
    too_few = f"{n_tasks} tasks to learn from are too few for it"
    if "mixture" in kinds:
        components = min(COMPONENTS, n_tasks // TASKS_OF_A_COMPONENT)
        if components < 2:
            yield Candidate("mixture", None, note=too_few)
        else:
            yield timed("mixture", lambda: fit_mixture(train, components, seed))
    if "diffusion" in kinds:
        left = minutes - (time.perf_counter() - started) / 60
        if n_tasks < LEAST_TASKS_OF_A_NETWORK:
            yield Candidate("diffusion", None, note=too_few)
        elif left <= 0:
            yield Candidate("diffusion", None, note=f"no time left of {minutes:g} minutes")
        else:
            steps = training_steps(left, train.n_arms)
            yield timed("diffusion", lambda: learn_diffusion(fitted_to, others, steps, seed))


#: Gradient steps a minute on two cores for a network of 100 arms, with everything around them.
STEPS_A_MINUTE = 3000


def training_steps(minutes: float, n_arms: int) -> int:
    """Gradient steps that should fit: from 500 to 9000, what learning takes by default."""
    return int(np.clip(STEPS_A_MINUTE * minutes * 100 / max(n_arms, 50), 500, 9000))


def learn_diffusion(train: Evidence, others: Evidence, steps: int, seed: int) -> DiffusionPrior:
    """A network on top of a factor Gaussian: it starts there, and learns what is left."""
    how = Procedure.named("default", warmup_steps=steps, rounds=1, inner_steps=max(200, steps // 5))
    options = {"width": 256}
    return learn_prior(
        train, others, procedure=how, predicts="residual", options=options, seed=seed
    )


def posterior_draws(
    law: Law, evidence: Evidence, draws: int, seed: Seed = 0
) -> NDArray[np.float64]:
    """Draws of N tasks given what is known of each, ``(draws, N, K)``."""
    if isinstance(law, Gaussian | GaussianMixture):
        return draw_posterior(law, evidence, draws, seed)
    drawn = law.posterior_sample(evidence, n=draws, steps=STEPS, seed=seed)
    return np.asarray(drawn, np.float64)
