"""Races between policies on a problem, with priors learned from the same data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from diffts.bandits.policies import Ingredients, check_policy, make_policy
from diffts.bandits.simulate import Simulation, simulate
from diffts.diffusion.exact import Gaussian, GaussianMixture
from diffts.diffusion.prior import DiffusionPrior
from diffts.errors import InvalidInputError
from diffts.experiments.limits import check_memory, check_rounds
from diffts.learning import (
    Procedure,
    Progress,
    TrainingConfig,
    TrainingState,
    choose_sure,
    learn_prior,
    learn_prior_imperfect,
)
from diffts.learning.gaussian import (
    fit_diagonal_imperfect,
    fit_gaussian,
    fit_gaussian_imperfect,
    fit_mixture,
)
from diffts.learning.mixture_em import fit_mixture_imperfect
from diffts.problems import ImperfectSets, Problem, TaskSets
from diffts.seeding import MOST_SEED
from diffts.validation import whole_number

MAIN_POLICIES = ("diffts", "ucb1", "gts-diag", "gts-full", "gmmts-10", "gmmts-25")
#: Bytes that an arm of a task takes while it is drawn, copied and learned from: eight doubles.
BYTES_OF_AN_ENTRY = 64
#: Bytes of what a policy's run keeps of a task: three numbers at up to 250 rounds, twice.
BYTES_OF_A_RUN = 2 * 3 * 250 * 8


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How to learn a problem's diffusion prior; None stands for the problem's own advice.

    Attributes:
        network: name of the network.
        options: its sizes.
        predicts: what it predicts.
        training: steps, learning rate and so on, from clean data.
        procedure: the same from imperfect data.
        sure: λ there: a number, 'auto' to choose it by the held-out score, None for the
            procedure's own.
    """

    network: str | None = None
    options: dict[str, Any] | None = None
    predicts: str | None = None
    training: TrainingConfig = dataclasses.field(
        default_factory=lambda: TrainingConfig(decay="cosine", ema_decay=0.995)
    )
    procedure: Procedure = dataclasses.field(default_factory=Procedure)
    sure: float | str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.sure, str) and self.sure != "auto":
            raise InvalidInputError(f"sure: expected a number or 'auto', got {self.sure!r}")

    def network_for(self, problem: Problem) -> dict[str, Any]:
        """Network, options and prediction: this recipe's, else the problem's own advice."""
        advice = problem.suggested_network
        network = self.network or (advice.name if advice else "residual-mlp")
        suits = advice is not None and network == advice.name
        options = dict(advice.options) if suits and advice else {}
        predicts = self.predicts or (advice.predicts if suits and advice else "clean")
        return {
            "network": network,
            "options": {**options, **(self.options or {})},
            "predicts": predicts,
        }


def train_prior(
    problem: Problem,
    tasks: TaskSets,
    recipe: Recipe | None = None,
    *,
    seed: int = 0,
    checkpoint: Any = None,
    on_block: Callable[[TrainingState], None] | None = None,
) -> DiffusionPrior:
    """Learn and calibrate the diffusion prior of a problem from its clean tasks."""
    recipe = Recipe() if recipe is None else recipe
    return learn_prior(
        tasks.train,
        tasks.calibration,
        config=recipe.training,
        seed=seed,
        checkpoint=checkpoint,
        on_block=on_block,
        **recipe.network_for(problem),
    )


def train_prior_imperfect(
    problem: Problem,
    tasks: ImperfectSets,
    recipe: Recipe | None = None,
    *,
    seed: int = 0,
    checkpoint: Any = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> DiffusionPrior:
    """The same from incomplete and noisy tasks; λ by the held-out score where it is 'auto'."""
    recipe = Recipe() if recipe is None else recipe
    how: dict[str, Any] = {"seed": seed, **recipe.network_for(problem)}
    if recipe.sure == "auto":
        prior, _ = choose_sure(
            *tasks,
            procedure=recipe.procedure,
            on_progress=None if on_progress is None else lambda _, progress: on_progress(progress),
            checkpoint=checkpoint,
            **how,
        )
        return prior
    procedure = recipe.procedure
    if recipe.sure is not None and not isinstance(recipe.sure, str):
        procedure = dataclasses.replace(procedure, sure=recipe.sure)
    return learn_prior_imperfect(
        *tasks, procedure=procedure, checkpoint=checkpoint, on_progress=on_progress, **how
    )


@dataclasses.dataclass
class Race:
    """A problem, its data, and the priors that policies may ask for, each made once.

    Attributes:
        problem: the problem.
        tasks: training, calibration and test tasks.
        given_prior: a diffusion prior learned before; None to learn one here.
        recipe: how to learn it.
        seed: seed of training and of the simulations.
        on_training: called with each training state (clean data).
        imperfect: what is known of training and calibration tasks; None if all of it, exactly.
        on_progress: called with the progress of learning (imperfect data).
        checkpoint: folder of the training state, to go on from if it holds one; None for none.
    """

    problem: Problem
    tasks: TaskSets
    given_prior: DiffusionPrior | None = None
    recipe: Recipe | None = None
    seed: int = 0
    on_training: Callable[[TrainingState], None] | None = None
    imperfect: ImperfectSets | None = None
    on_progress: Callable[[Progress], None] | None = None
    checkpoint: Path | None = None

    @cached_property
    def prior(self) -> DiffusionPrior:
        """The diffusion prior."""
        if self.given_prior is None and self.imperfect is not None:
            return train_prior_imperfect(
                self.problem,
                self.imperfect,
                self.recipe,
                seed=self.seed,
                checkpoint=self.checkpoint,
                on_progress=self.on_progress,
            )
        if self.given_prior is None:
            return train_prior(
                self.problem,
                self.tasks,
                self.recipe,
                seed=self.seed,
                checkpoint=self.checkpoint,
                on_block=self.on_training,
            )
        if self.given_prior.n_arms != self.problem.n_arms:
            raise InvalidInputError(
                f"prior: has {self.given_prior.n_arms} arms, {self.problem.name} has "
                f"{self.problem.n_arms}"
            )
        return self.given_prior

    @cached_property
    def gaussian(self) -> Gaussian:
        """The Gaussian fitted to the training tasks."""
        if self.imperfect is not None:
            return fit_gaussian_imperfect(self.imperfect.train)
        return fit_gaussian(self.tasks.train)

    @cached_property
    def diagonal(self) -> Gaussian:
        """The Gaussian of independent arms fitted to the training tasks."""
        if self.imperfect is not None:
            return fit_diagonal_imperfect(self.imperfect.train)
        return self.gaussian

    def mixture(self, components: int) -> GaussianMixture:
        """The mixture fitted to the training tasks."""
        if self.imperfect is not None:
            return fit_mixture_imperfect(self.imperfect.train, components, seed=self.seed)
        return fit_mixture(self.tasks.train, components, seed=self.seed)

    def run(
        self,
        policy: str,
        *,
        horizon: int,
        noise_std: float | None = None,
        sampler: str = "paper",
        steps: int | None = None,
        variance: str = "calibrated",
        on_block: Callable[[int, int], None] | None = None,
    ) -> Simulation:
        """Simulate one policy on the test tasks; all policies see the same rewards."""
        actions = self.problem.actions
        given = Ingredients(
            actions=actions,
            noise_std=self.problem.noise_std if noise_std is None else noise_std,
            prior=lambda: self.prior,
            gaussian=lambda: self.gaussian,
            diagonal=lambda: self.diagonal,
            mixture=self.mixture,
            sampler=sampler,
            steps=steps,
            variance=variance,
        )
        return simulate(
            make_policy(policy, given),
            self.tasks.test,
            self.problem.rewards,
            horizon=horizon,
            actions=actions,
            seed=self.seed,
            on_block=on_block,
        )


def past_and_test(problem: Problem, past: int | None, test: int | None, seed: int) -> TaskSets:
    """Tasks to learn from, a fifth as many to calibrate on, and test tasks; None for defaults."""
    seed = whole_number("seed", seed, 0, MOST_SEED)
    if past is None:
        return problem.split(test=test, seed=seed)
    past = whole_number("past_tasks", past, 10)
    check_memory("past_tasks", past, BYTES_OF_AN_ENTRY * problem.n_arms)
    return problem.split(train=past, calibration=-(-past // 5), test=test, seed=seed)


def prepare(
    problem: Problem,
    policies: Sequence[str],
    horizon: int,
    tasks: int | None,
    seed: int,
    past_tasks: int | None = None,
) -> TaskSets:
    """Check a race's arguments before anything takes time, and draw its tasks."""
    if not policies:
        raise InvalidInputError("policies: none given")
    for policy in policies:
        check_policy(policy)
    if len(set(policies)) < len(policies):
        raise InvalidInputError("policies: one is given twice")
    check_rounds(horizon)
    if tasks is not None:
        whole_number("tasks", tasks, 1)
        each = BYTES_OF_AN_ENTRY * problem.n_arms + BYTES_OF_A_RUN * len(policies)
        check_memory("tasks", tasks, each)
    sets = past_and_test(problem, past_tasks, tasks, seed)
    for policy in policies:
        if policy.startswith("gmmts-") and int(policy.removeprefix("gmmts-")) > len(sets.train):
            raise InvalidInputError(
                f"policies: {policy} has more components than there are past tasks "
                f"({len(sets.train)})"
            )
    return sets


def summary(runs: dict[str, Simulation], seconds: float) -> dict[str, Any]:
    """The result as plain JSON: mean regret and its standard error of each policy."""
    first = next(iter(runs.values()))
    return {
        "horizon": int(first.rounds[-1]),
        "tasks": first.regret.shape[1],
        "regret": {name: float(run.mean_regret[-1]) for name, run in runs.items()},
        "stderr": {name: float(run.stderr_regret[-1]) for name, run in runs.items()},
        "simple_regret": {name: float(run.simple_regret[-1].mean()) for name, run in runs.items()},
        "share_right": {name: float(run.share_right[-1]) for name, run in runs.items()},
        "decisions_per_second": {name: run.decisions_per_second for name, run in runs.items()},
        "seconds": seconds,
    }
