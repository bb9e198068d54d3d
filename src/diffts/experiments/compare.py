"""Policies against each other: the same past tasks to learn from, the same new ones to play."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffts.bandits.noise import NoiseLike
from diffts.bandits.policies import Ingredients, Policy, check_policy, make_policy, split_name
from diffts.bandits.rules import make_rule
from diffts.bandits.simulate import Simulation, simulate
from diffts.diffusion.exact import Gaussian, GaussianMixture
from diffts.diffusion.prior import DiffusionPrior
from diffts.errors import InvalidInputError
from diffts.evidence import Evidence
from diffts.experiments.limits import check_memory
from diffts.extras import require
from diffts.learning.fits import fit_diagonal, fit_gaussian, fit_mixture
from diffts.problems import Corruption, Problem, TaskSets, corrupt
from diffts.problems.problem import Tasks
from diffts.seeding import MOST_SEED
from diffts.validation import whole_number

#: Pulls are counted in 32-bit floats, which from here on no longer grow by one.
MOST_ROUNDS = 2**24
#: Bytes that an arm of a task takes while it is drawn, copied and learned from: eight doubles.
BYTES_OF_AN_ENTRY = 64
#: Bytes of what a policy's run keeps of a task: three numbers at up to 250 rounds, twice.
BYTES_OF_A_RUN = 2 * 3 * 250 * 8


class PriorWantedError(InvalidInputError):
    """A policy that draws from a diffusion prior was given none."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """A problem, what is known of past tasks, and new tasks; each baseline's fit is made once."""

    problem: Problem
    past: Tasks | Evidence  # exact mean rewards (N, K), or evidence about them
    test: Tasks  # mean rewards of the tasks to play (tasks, K)
    horizon: int  # rounds in each
    noise_std: NoiseLike | None = None  # assumed noise of a reward; None for the problem's
    seed: int = 0  # of the mixtures' fits
    floor: float = 0.0  # the least chance of every arm on offer

    @functools.cached_property
    def gaussian(self) -> Gaussian:
        """The Gaussian fitted to the past tasks."""
        return fit_gaussian(self.past)

    @functools.cached_property
    def diagonal(self) -> Gaussian:
        """The Gaussian of independent arms fitted to them."""
        return fit_diagonal(self.past)

    @functools.cached_property
    def mixture(self) -> Callable[[int], GaussianMixture]:
        """The mixture of so many components fitted to them."""
        return functools.cache(lambda components: fit_mixture(self.past, components, self.seed))

    def policy(
        self,
        name: str,
        prior: DiffusionPrior | None = None,
        sampler: str | None = None,
        steps: int | None = None,
    ) -> Policy:
        """The policy of that name, made for this problem from what is known of past tasks.

        ``prior``, ``sampler`` and ``steps`` are of policies that draw from a diffusion prior.
        """

        def learned() -> DiffusionPrior:
            if prior is None:
                raise PriorWantedError(f"prior: {name} needs one")
            return prior

        return make_policy(
            name,
            Ingredients(
                actions=self.problem.actions,
                noise=self.problem.noise_std if self.noise_std is None else self.noise_std,
                horizon=self.horizon,
                floor=self.floor,
                prior=learned,
                gaussian=lambda: self.gaussian,
                diagonal=lambda: self.diagonal,
                mixture=self.mixture,
                sampler=sampler,
                steps=steps,
            ),
        )

    def draws_from_prior(self, name: str) -> bool:
        """Whether the policy of that name needs the diffusion prior."""
        try:
            self.policy(name)
        except PriorWantedError:
            return True
        return False

    def play(
        self, policy: Policy, seed: int = 0, on_block: Callable[[int, int], None] | None = None
    ) -> Simulation:
        """Simulate a policy on the test tasks; with one seed all policies see the same rewards."""
        return simulate(
            policy,
            self.test,
            self.problem.rewards,
            horizon=self.horizon,
            actions=self.problem.actions,
            seed=seed,
            on_block=on_block,
        )


@dataclass(frozen=True, eq=False)
class Outcome:
    """A policy's runs on the same tasks, one for each seed."""

    policy: str
    sampler: str | None  # None for a policy without a diffusion prior
    runs: Mapping[int, Simulation]

    @property
    def rounds(self) -> NDArray[np.int64]:
        """The recorded rounds ``(R,)``."""
        return next(iter(self.runs.values())).rounds

    @property
    def regret(self) -> NDArray[np.float64]:
        """Cumulative regret ``(seeds, tasks, R)``."""
        return np.stack([run.regret.T for run in self.runs.values()])

    @property
    def mean_regret(self) -> NDArray[np.float64]:
        """Its mean over seeds and tasks ``(R,)``."""
        return self.regret.mean((0, 1))

    @property
    def stderr_regret(self) -> NDArray[np.float64]:
        """The standard error of that mean ``(R,)``."""
        return standard_error(self.regret)

    def mean(self, of: Callable[[Simulation], Any]) -> float:
        """Mean over seeds (and tasks) of something that was recorded of each run."""
        return float(np.mean([of(run) for run in self.runs.values()]))

    def rows(self, **labels: Any) -> Iterator[dict[str, Any]]:
        """Flat rows for any data frame: one for each seed, recorded round and task."""
        for seed, run in self.runs.items():
            yield from run.rows(**labels, policy=self.policy, sampler=self.sampler, seed=seed)


def standard_error(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of the mean over seeds and tasks ``(S, N, …)``: what each of the two adds, in squares.

    What is there once adds nothing.

    >>> standard_error(np.array([[1.0, 3.0], [1.0, 3.0]]))  # equal seeds: of two tasks alone
    np.float64(1.0)
    """
    of_tasks, of_seeds = values.mean(0), values.mean(1)
    variances = [
        means.var(0, ddof=1) / len(means) for means in (of_tasks, of_seeds) if len(means) > 1
    ]
    return np.sqrt(sum(variances, np.zeros(values.shape[2:])))


def summary(outcomes: Mapping[str, Outcome], seconds: float) -> dict[str, Any]:
    """The result as plain JSON: each policy's regret at the end, and its curve."""
    first = next(iter(outcomes.values()))

    def of_each(number: Callable[[Outcome], Any]) -> dict[str, Any]:
        return {name: number(outcome) for name, outcome in outcomes.items()}

    return {
        "horizon": int(first.rounds[-1]),
        "tasks": first.regret.shape[1],
        "regret": of_each(lambda one: float(one.mean_regret[-1])),
        "stderr": of_each(lambda one: float(one.stderr_regret[-1])),
        "simple_regret": of_each(lambda one: one.mean(lambda run: run.simple_regret[-1].mean())),
        "share_right": of_each(lambda one: one.mean(lambda run: run.share_right[-1])),
        "chance_right": of_each(lambda one: one.mean(lambda run: run.chance_right[-1].mean())),
        "decisions_per_second": of_each(lambda one: one.mean(lambda run: run.decisions_per_second)),
        "seconds": seconds,
        "curves": of_each(
            lambda one: {
                "rounds": one.rounds.tolist(),
                "regret": one.mean_regret.tolist(),
                "stderr": one.stderr_regret.tolist(),
            }
        ),
    }


def past_and_test(problem: Problem, past: int | None, test: int | None, seed: int) -> TaskSets:
    """Tasks to learn from, a fifth as many to calibrate on, and test tasks; None for defaults."""
    seed = whole_number("seed", seed, 0, MOST_SEED)
    if past is None:
        return problem.split(test=test, seed=seed)
    past = whole_number("past_tasks", past, 10)
    check_memory("past_tasks", past, BYTES_OF_AN_ENTRY * problem.n_arms)
    return problem.split(train=past, calibration=-(-past // 5), test=test, seed=seed)


def as_known(
    sets: TaskSets, corruption: Corruption | None, seed: int
) -> tuple[Tasks | Evidence, Tasks | Evidence]:
    """Training and calibration tasks as one knows them: exactly, or as a corruption leaves them."""
    if corruption is None:
        return sets.train, sets.calibration
    return corrupt(sets, corruption, seed)


def draw_tasks(
    problem: Problem,
    policies: Sequence[str],
    horizon: int,
    tasks: int | None,
    seed: int,
    past_tasks: int | None = None,
    seeds: int = 1,
) -> TaskSets:
    """Check what is to be compared before anything takes time, and draw its tasks."""
    if not policies:
        raise InvalidInputError("policies: none given")
    for policy in policies:
        check_policy(policy)
        rule = split_name(policy)[1]
        if rule and make_rule(rule).arm_by_arm and not problem.actions.arm_by_arm:
            raise InvalidInputError(
                f"rule: {rule} compares arms one by one, and has no meaning for {problem.name}"
            )
    if len(set(policies)) < len(policies):
        raise InvalidInputError("policies: one is given twice")
    whole_number("horizon", horizon, 1, MOST_ROUNDS)
    runs = BYTES_OF_A_RUN * len(policies)
    played = problem.default_sizes[2] if tasks is None else whole_number("tasks", tasks, 1)
    check_memory("tasks", played, BYTES_OF_AN_ENTRY * problem.n_arms + runs)
    check_memory("seeds", whole_number("seeds", seeds, 1), played * runs)
    whole_number("seed", seed + seeds - 1, 0, MOST_SEED)
    sets = past_and_test(problem, past_tasks, tasks, seed)
    for policy in dict.fromkeys(split_name(name)[0] for name in policies):
        if not policy.startswith("gmmts-"):
            continue
        require("sklearn", policy)
        if int(policy.removeprefix("gmmts-")) > len(sets.train):
            raise InvalidInputError(
                f"policies: {policy} has more components than there are past tasks "
                f"({len(sets.train)})"
            )
    return sets
