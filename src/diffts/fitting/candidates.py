"""What a log may be explained by, the simplest first: each fitted to the same training tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import jax
import numpy as np
from numpy.typing import NDArray

from diffts.diffusion.exact import Gaussian, GaussianMixture, draw_posterior
from diffts.diffusion.networks import ARMS
from diffts.diffusion.prior import DiffusionPrior
from diffts.errors import InvalidInputError, MissingPackageError
from diffts.evidence import Evidence
from diffts.extras import require
from diffts.fitting.budget import Budget
from diffts.fitting.fitted import STEPS, Law
from diffts.fitting.side_by_side import results_of
from diffts.learning import Procedure, learn_prior_within
from diffts.learning.fits import FactorFit, fit_factor_gaussian, fit_independent, fit_mixture
from diffts.seeding import Seed, as_generator

#: Components of the mixture, and tasks that each of them wants at least.
COMPONENTS, TASKS_OF_A_COMPONENT = 5, 50
#: Fewer tasks teach a network nothing that a Gaussian does not know.
LEAST_TASKS_OF_A_NETWORK = 200
#: Gradient steps of the network where there is time for all of them.
PLAN = {"warmup_steps": 3000, "rounds": 3, "inner_steps": 3000, "play_tasks": 1000}
#: Share of the time left that the network may train for.
TRAINING_SHARE = 0.5


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
    budget: Budget,
    seed: int,
    tell: Callable[[str], None],
) -> Iterator[Candidate]:
    """Each of some candidates as soon as it is fitted; those left out say why.

    A fit that breaks down (a training that diverges) leaves out that candidate alone.
    Independent arms and the factor Gaussian are always fitted. A mixture begins with that Gaussian,
    and takes about twice as long. The diffusion prior gets half of the time that is left: the other
    half is for the race. Where there is an accelerator, these two are fitted side by side.
    """
    n_tasks = len(train.mean)
    order = as_generator(seed).permutation(n_tasks)
    fitted_to, others = rows_of(train, order[n_tasks // 6 :]), rows_of(train, order[: n_tasks // 6])

    def timed(kind: str, fit: Callable[[], Law]) -> Candidate:
        tell(f"fitting: {kind}")
        part = f"fitting: {kind}"
        try:
            with budget.part(part):
                law = fit()
        except InvalidInputError as error:  # a training that diverged, say: the others go on
            return Candidate(kind, None, budget.parts[part], f"left out: {error}")
        return Candidate(kind, law, budget.parts[part])

    if "independent" in kinds:
        yield timed("independent", lambda: fit_independent(train))
    start: list[FactorFit] = []  # what mixture and network begin with

    def gaussian() -> Gaussian:
        start.append(fit_factor_gaussian(fitted_to, others))
        return start[0].gaussian

    if "gaussian" in kinds:
        yield timed("gaussian", gaussian)
    of_gaussian = budget.parts.get("fitting: gaussian", 0.0)
    too_few = f"{n_tasks} tasks to learn from are too few for it"
    out_of_time = f"no time left of {budget.planned / 60:g} minutes"

    def mixture() -> Candidate:
        components = min(COMPONENTS, n_tasks // TASKS_OF_A_COMPONENT)
        if components < 2:
            return Candidate("mixture", None, note=too_few)
        if (missing := _missing("sklearn", "a mixture")) is not None:
            return Candidate("mixture", None, note=missing)
        if budget.most_left < 2 * of_gaussian:
            return Candidate("mixture", None, note=out_of_time)
        near = start[0].gaussian if start else None
        return timed("mixture", lambda: fit_mixture(train, components, seed, near=near))

    def diffusion() -> Candidate:
        seconds = TRAINING_SHARE * budget.left
        if n_tasks < LEAST_TASKS_OF_A_NETWORK:
            return Candidate("diffusion", None, note=too_few)
        if seconds <= (0.0 if start else of_gaussian):  # it begins with that Gaussian
            return Candidate("diffusion", None, note=out_of_time)
        known = start[0] if start else None
        return timed(
            "diffusion", lambda: _diffusion(seconds, fitted_to, others, seed, budget, known)
        )

    jobs = [job for job in (mixture, diffusion) if job.__name__ in kinds]
    yield from results_of(jobs)


def _missing(package: str, purpose: str) -> str | None:
    """Why what is optional cannot be made here; None if it can."""
    try:
        require(package, purpose)
    except MissingPackageError as error:
        return str(error)
    return None


def _diffusion(
    seconds: float,
    train: Evidence,
    others: Evidence,
    seed: int,
    budget: Budget,
    start: FactorFit | None,
) -> DiffusionPrior:
    """A network on top of a factor Gaussian: it starts there, and learns what is left."""
    return learn_prior_within(
        seconds,
        train,
        others,
        procedure=Procedure.named("arms", **PLAN),
        network=ARMS,
        seed=seed,
        start=start,
        clock=budget.clock,
    )


def posterior_draws(
    law: Law, evidence: Evidence, draws: int, seed: Seed = 0
) -> NDArray[np.float64]:
    """Draws of N tasks given what is known of each, ``(draws, N, K)``."""
    if isinstance(law, Gaussian | GaussianMixture):
        return draw_posterior(law, evidence, draws, seed)
    drawn = law.posterior_sample(evidence, n=draws, steps=STEPS, seed=seed)
    return np.asarray(drawn, np.float64)
