"""What a procedure is: how a prior is learned from incomplete and noisy tasks.

A warm-up, then repeats of: draw the training tasks from their posterior (E-step), minimise a loss
that looks at the observations (M-step), calibrate. Procedures differ in what the warm-up trains on,
in how the E-step draws and in how they calibrate; each is one file. What runs them is
``phases.py``.
"""

from __future__ import annotations

import abc
import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffts.diffusion.denoiser import Denoiser
from diffts.diffusion.exact import draw_posterior
from diffts.diffusion.posterior import SAMPLERS
from diffts.diffusion.prior import DiffusionPrior
from diffts.diffusion.schedule import Schedule
from diffts.diffusion.units import Units
from diffts.errors import InvalidInputError
from diffts.evidence import Evidence
from diffts.learning.calibration import calibrate
from diffts.learning.fits import FactorFit, fit_factor_gaussian
from diffts.learning.held_out import HeldOut, Score, score
from diffts.learning.objectives import ExactTasks, Observations, Reconstructed
from diffts.learning.training import MOST_STEPS, Objective, TrainingConfig
from diffts.seeding import KeyArray
from diffts.validation import one_of, whole_number


class Phase(NamedTuple):
    """One stretch of training."""

    name: str
    steps: int
    sure: float = 0.0  # λ, the weight of the divergence term
    number: int = 0


#: Passes of a row through the network in a gradient step, or in a step of a sampler that needs
#: its Jacobian: both also go backwards.
BOTH_WAYS = 3
#: Posterior draws of each calibration task for the errors that are handed over.
FINAL_DRAWS = 8


class Passes(NamedTuple):
    """Rows that go through the network beside gradient steps, roughly.

    Attributes:
        first: in what comes before the first phase.
        phase: in what comes before each other one.
        score: in one held-out score, with its calibration.
        final: in the calibration at the end.
    """

    first: float
    phase: float
    score: float
    final: float


#: Procedures by their names; ``procedures.py`` has them.
PROCEDURES: dict[str, Procedure] = {}


@dataclass
class Standardised:
    """Past tasks ``(N, K)`` as procedures see them: standardised, with what is fitted to them."""

    train: Evidence
    calibration: Evidence  # other tasks, for the held-out score, too
    units: Units
    schedule: Schedule
    seed: int
    given_factors: FactorFit | None = None  # fitted to the same tasks before
    # Gaussians below networks, by their largest rank; lessons on the same tasks share them.
    below: dict[int, FactorFit] = field(default_factory=dict)

    @property
    def is_exact(self) -> bool:
        """Whether every arm of every training task is known without noise."""
        return _is_exact(self.train)

    @property
    def is_judged_exactly(self) -> bool:
        """The same of the calibration tasks."""
        return _is_exact(self.calibration)

    @cached_property
    def factors(self) -> FactorFit:
        """The factor Gaussian of the training tasks, with the rank that suits the others."""
        return self.given_factors or fit_factor_gaussian(self.train, self.calibration)

    def key(self, number: int) -> KeyArray:
        """A key for the draws of that number."""
        return jax.random.fold_in(jax.random.key(self.seed), number)

    def draw_key(self, phase: Phase) -> KeyArray:
        """The key of a phase's draws: the same for a run that goes on in the middle of it."""
        return self.key(1_000_000 + phase.number)

    def prior(self, denoiser: Denoiser, tau: Float[Array, "L K"]) -> DiffusionPrior:
        """A denoiser and its errors as a prior in standardised units."""
        units = Units(0.0, 1.0, *self.units.limits)
        return DiffusionPrior(denoiser, tau, schedule=self.schedule, units=units)

    def calibration_draws(self, draws: int) -> np.ndarray:
        """Exact posterior draws of the calibration tasks under the factor Gaussian."""
        return draw_posterior(self.factors.gaussian, self.calibration, draws, seed=self.seed + 3)

    @cached_property
    def few_calibration_draws(self) -> np.ndarray:
        """Two draws of each task, the same for every calibration on the way."""
        return self.calibration_draws(2)


def _is_exact(evidence: Evidence) -> bool:
    return bool(evidence.mask.all()) and not bool((evidence.std > 0).any())


@dataclass(frozen=True)
class PlainTraining:
    """Exact tasks need no E-step: one phase of plain training, then plain calibration.

    Its methods are those of a :class:`Procedure`.
    """

    selects: ClassVar[bool] = False
    judges_draws: ClassVar[bool] = False
    calibrates_last: ClassVar[bool] = False
    starts_anew: ClassVar[bool] = False
    score_every: ClassVar[int] = 0
    patience: ClassVar[int] = 0
    takes_scores: ClassVar[bool] = False

    training: TrainingConfig

    def phases(self) -> list[Phase]:
        """One."""
        return [Phase("training", self.training.steps)]

    def training_of(self, phase: Phase) -> TrainingConfig:
        """The one that was asked for."""
        del phase
        return self.training

    def objective(self, past: Standardised, phase: Phase, now: DiffusionPrior) -> Objective:
        """The denoising loss."""
        del phase, now
        return ExactTasks(past.train.mean)

    def calibrate(
        self, past: Standardised, denoiser: Denoiser, number: int, final: bool
    ) -> Float[Array, "L K"]:
        """Algorithm 'Variance Calibration'."""
        del number, final
        return calibrate(
            denoiser, past.calibration.mean, schedule=past.schedule, seed=past.seed + 1
        )

    def settings(self) -> dict[str, Any]:
        """Those of the training."""
        return {"training": dataclasses.asdict(self.training)}


@dataclass(frozen=True)
class Procedure(abc.ABC):
    """Learning from incomplete and noisy data: what ours and the paper's share.

    Attributes:
        warmup_steps: gradient steps of the warm-up.
        rounds: repeats of posterior sampling and loss minimisation.
        inner_steps: gradient steps of each repeat; one number, or one for each repeat.
        tasks_per_round: training tasks to draw in a repeat, chosen at random; None is all. A
            repeat reads ``inner_steps * batch_size`` latents: of many tasks, most of what is
            drawn is never read.
        final_steps: at last, so many plain steps on reconstructions of the training tasks.
        sure: λ of the divergence term; one number, or one for the warm-up and for each repeat.
        draws: posterior draws of each task, where latents are draws that are diffused forward.
        sampler, sampler_steps: the posterior sampler of the repeats, and its chain's length.
        patience: stop after so many repeats without a better held-out score; 0 is never.
        score_every: gradient steps between two held-out scores; each phase ends with one, too.
        training: batch size, learning rate, moving average (its number of steps is not used).
    """

    #: Whether the weights with the best held-out score are kept, not the last ones.
    selects: ClassVar[bool] = False
    #: Whether that score is fair where tasks are not known exactly; else the last weights are kept.
    judges_draws: ClassVar[bool] = True
    #: Whether errors are calibrated once more, at the end, with more draws than on the way.
    calibrates_last: ClassVar[bool] = False
    #: Whether each phase starts Adam anew, from the averaged weights.
    starts_anew: ClassVar[bool] = False
    #: What :meth:`score` looks at: 'crps' of hidden entries, or 'regret'.
    judged_by: ClassVar[str] = "crps"

    warmup_steps: int = 9000
    rounds: int = 2
    inner_steps: int | tuple[int, ...] = 2000
    tasks_per_round: int | None = None
    final_steps: int = 0
    sure: float | tuple[float, ...] = 0.0
    draws: int = 2
    sampler: str = "paper"
    sampler_steps: int | None = None
    patience: int = 0
    score_every: int = 3000
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def __new__(cls, *_: Any, **__: Any) -> Procedure:
        """A procedure of one of the two kinds."""
        if cls is Procedure:
            raise InvalidInputError(
                "Procedure: there are two kinds; Procedure.named('default', rounds=1) is ours with "
                "a change, Procedure.named('paper') the paper's"
            )
        return super().__new__(cls)

    @staticmethod
    def named(name: str, **changes: Any) -> Procedure:
        """A procedure by its name ('default', 'paper', 'ipinyou', …), with changes to it.

        >>> Procedure.named("paper", rounds=1).phases()[1].steps
        3000
        """
        found = PROCEDURES[one_of("procedure", name, PROCEDURES)]
        try:
            return dataclasses.replace(found, **changes)
        except TypeError as error:
            raise InvalidInputError(f"procedure {name}: {error}") from None

    @abc.abstractmethod
    def warm_up(self, past: Standardised, phase: Phase, now: DiffusionPrior) -> Objective:
        """What the warm-up minimises; ``now`` is the untrained prior."""

    @abc.abstractmethod
    def e_step(
        self, past: Standardised, phase: Phase, now: DiffusionPrior, tasks: Any
    ) -> Objective:
        """What a repeat minimises, after drawing ``tasks`` (numbers of training tasks)."""

    @abc.abstractmethod
    def calibrate(
        self, past: Standardised, denoiser: Denoiser, number: int, final: bool
    ) -> Float[Array, "L K"]:
        """τ of a denoiser, from the calibration tasks; ``number`` counts the calibrations."""

    @abc.abstractmethod
    def settings(self) -> dict[str, Any]:
        """All that it is, as plain values: for metadata and digests."""

    def passes(self, past: Standardised) -> Passes:
        """What is done beside gradient steps: to plan by."""
        tasks, others = len(past.train.mean), len(past.calibration.mean)
        levels = past.schedule.n_steps
        chain = self.chain_length(past.schedule) or levels
        drawn = BOTH_WAYS * chain * self.draws * min(tasks, self.tasks_per_round or tasks)
        # Two draws of each task at every level; then 4 chains of 20 steps.
        scored = levels * 2 * others + BOTH_WAYS * 20 * 4 * others
        return Passes(0.0, drawn, scored, levels * FINAL_DRAWS * others)

    def score(self, past: Standardised, held_out: HeldOut | None, prior: DiffusionPrior) -> Score:
        """How good a prior is by what was held out; drawn in one way for all that are compared."""
        assert held_out is not None
        return score(prior, held_out, seed=past.seed + 2)

    @property
    def takes_scores(self) -> bool:
        """Whether held-out scores are taken at all; a procedure that chooses by them must."""
        return True

    @property
    @abc.abstractmethod
    def samplers(self) -> set[str]:
        """Names of the samplers that have a say in what is learned."""

    def __post_init__(self) -> None:
        one_of("sampler", self.sampler, SAMPLERS)
        for name, least in (("warmup_steps", 1), ("rounds", 0), ("final_steps", 0),
                            ("draws", 1), ("patience", 0), ("score_every", 1)):  # fmt: skip
            whole_number(name, getattr(self, name), least, MOST_STEPS)
        if self.tasks_per_round is not None:
            whole_number("tasks_per_round", self.tasks_per_round, 1)
        for name, values, wanted in (
            ("inner_steps", self.inner_steps, self.rounds),
            ("sure", self.sure, 1 + self.rounds),
        ):
            if isinstance(values, tuple) and len(values) != wanted:
                raise InvalidInputError(f"{name}: {len(values)} values, {wanted} wanted")
        for phase in self.phases():
            whole_number("inner_steps", phase.steps, 1, MOST_STEPS)
            if not 0 <= phase.sure < float("inf"):
                raise InvalidInputError(f"sure: must be at least 0 and finite, got {self.sure}")
        # They are counted through all phases.
        whole_number("steps", sum(phase.steps for phase in self.phases()), 1, MOST_STEPS)

    def scaled(self, ratio: float) -> Procedure:
        """The same procedure with all its phases longer or shorter.

        >>> Procedure.named("default").scaled(0.01).phases()[0].steps
        90
        """
        if not ratio > 0:
            raise InvalidInputError(f"ratio: must be above 0, got {ratio}")

        def longer(steps: int) -> int:
            return max(1, round(ratio * steps))

        inner = self.inner_steps
        return dataclasses.replace(
            self,
            warmup_steps=longer(self.warmup_steps),
            inner_steps=tuple(map(longer, inner)) if isinstance(inner, tuple) else longer(inner),
            final_steps=longer(self.final_steps) if self.final_steps else 0,
            score_every=longer(self.score_every),
        )

    def phases(self) -> list[Phase]:
        """The phases in their order.

        >>> [phase.name for phase in Procedure.named("ipinyou").phases()]
        ['warm-up', 'round 1', 'round 2', 'round 3', 'final']
        """
        sure = self.sure if isinstance(self.sure, tuple) else (self.sure,) * (1 + self.rounds)
        inner = self.inner_steps
        inner = inner if isinstance(inner, tuple) else (inner,) * self.rounds
        phases = [Phase("warm-up", self.warmup_steps, sure[0])]
        phases += [Phase(f"round {i + 1}", inner[i], sure[1 + i]) for i in range(self.rounds)]
        phases += [Phase("final", self.final_steps)] if self.final_steps else []
        return [phase._replace(number=number) for number, phase in enumerate(phases)]

    def training_of(self, phase: Phase) -> TrainingConfig:
        """Adam's settings: of the phase's own length, or of the whole when it is one run."""
        whole = sum(each.steps for each in self.phases())
        return dataclasses.replace(self.training, steps=phase.steps if self.starts_anew else whole)

    def objective(self, past: Standardised, phase: Phase, now: DiffusionPrior) -> Objective:
        """What a phase minimises; ``now`` is the prior at its beginning, to draw with.

        On exact tasks there is nothing to draw.
        """
        if past.is_exact:
            return self.on_exact(past, phase, now)
        if phase.number == 0:
            return self.warm_up(past, phase, now)
        tasks = jnp.arange(past.train.mean.shape[0])
        if phase.name == "final":
            draws = self.draw(past, phase, now, tasks)
            return Reconstructed(Observations.of(past.train, 0.0, False), draws, 0.0)
        if self.tasks_per_round is not None:
            tasks = jax.random.permutation(past.draw_key(phase), len(tasks))
            tasks = tasks[: self.tasks_per_round]
        return self.e_step(past, phase, now, tasks)

    def on_exact(self, past: Standardised, phase: Phase, now: DiffusionPrior) -> Objective:
        """The plain denoising loss: the posterior is the data, its latents their diffusion."""
        del phase, now
        return ExactTasks(past.train.mean)

    def draw(
        self, past: Standardised, phase: Phase, now: DiffusionPrior, tasks: Any
    ) -> Float[Array, "draws N K"]:
        """Posterior draws of training tasks, with this procedure's sampler."""
        known: Evidence = jax.tree.map(lambda leaf: leaf[tasks], past.train)
        return jnp.asarray(
            now.posterior_sample(
                known,
                n=self.draws,
                sampler=self.sampler,
                steps=self.chain_length(past.schedule),
                seed=past.draw_key(phase),
            )
        )

    def chain_length(self, schedule: Schedule) -> int | None:
        """Length of the sampler's chain, at most L."""
        return None if self.sampler_steps is None else min(self.sampler_steps, schedule.n_steps)


HowToLearn: TypeAlias = PlainTraining | Procedure
