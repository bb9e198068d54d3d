"""From incomplete, noisy observations of past tasks to a calibrated prior."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from diffts.diffusion.networks import NetworkDenoiser, Prediction, build_denoiser
from diffts.diffusion.prior import DiffusionPrior
from diffts.diffusion.schedule import Schedule
from diffts.errors import InvalidInputError
from diffts.evidence import Evidence
from diffts.learning.calibration import LEAST_OBSERVATIONS
from diffts.learning.checkpoint import Checkpoint, fingerprint
from diffts.learning.em import EMState, ImperfectLearning, run_side_by_side
from diffts.learning.factor import FactorFit, fit_factor_gaussian
from diffts.learning.held_out import hide
from diffts.learning.learn import standardised_options
from diffts.learning.procedure import Procedure, as_procedure
from diffts.seeding import MOST_SEED, as_generator
from diffts.validation import whole_number


class Progress(NamedTuple):
    """Where learning stands.

    Attributes:
        phase: name of the phase.
        number: its number, from 1.
        phases: how many there are.
        done: gradient steps done in it.
        steps: gradient steps of it.
        loss: mean training loss of the last block.
        score: last held-out CRPS, in the user's units; NaN before the first.
    """

    phase: str
    number: int
    phases: int
    done: int
    steps: int
    loss: float
    score: float


def learn_prior_imperfect(
    tasks: Evidence,
    calibration: Evidence | None = None,
    *,
    procedure: str | Procedure = "default",
    network: str = "residual-mlp",
    predicts: Prediction = "clean",
    options: Mapping[str, Any] | None = None,
    schedule: Schedule | None = None,
    standardise: bool = True,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 1000,
    on_progress: Callable[[Progress], None] | None = None,
) -> DiffusionPrior:
    """Learn a diffusion prior from incomplete and noisy observations of past tasks.

    Args:
        tasks: what is known of each training task, ``(N, K)``. Tasks without any observation are
            left out.
        calibration: other tasks to calibrate on and to score with; by default a sixth of
            ``tasks`` is kept back for it.
        procedure: a name in ``PROCEDURES`` ('default', 'paper', 'ipinyou', 'images') or one of
            your own.
        network: name of the network (``diffts.NETWORKS``).
        predicts: what it predicts: 'clean', 'noise', 'velocity' or 'residual' (what is left by
            the factor Gaussian fitted to the same data).
        options: sizes of the network.
        schedule: noise schedule; the paper's by default.
        standardise: give the network data of about mean 0 and variance 1.
        seed: seed of everything.
        checkpoint: a folder for the state. If it holds one, learning goes on from it, to the same
            weights as an uninterrupted run. A KeyboardInterrupt saves it, too.
        checkpoint_every: gradient steps between two saves.
        on_progress: called after every block of steps.

    The prior's ``metadata['learning']`` says which arms were observed too seldom to calibrate,
    the held-out scores, and which weights were kept.
    """
    learner = _Learner(
        tasks,
        calibration,
        as_procedure(procedure),
        Schedule.linear() if schedule is None else schedule,
        {"network": network, "predicts": predicts, "options": options},
        standardise,
        whole_number("seed", seed, 0, MOST_SEED),
    )
    saved = Checkpoint(checkpoint, learner.fingerprint())
    start = saved.load(learner.start())
    learning = learner.learning

    def report(state: EMState) -> None:
        if on_progress is not None:
            on_progress(_progress(learning, state, learner.scale))

    state = saved.follow(
        start,
        learning.run(start),
        every=checkpoint_every,
        step_of=lambda state: int(state.training.step),
        is_last=learning.finished,
        on_state=report,
    )
    return learner.prior(state)


@dataclasses.dataclass(frozen=True)
class Lesson:
    """One of several priors to be learned side by side.

    Attributes:
        tasks: what is known of each training task.
        calibration: other tasks to calibrate on and to score with.
        procedure: a name in ``PROCEDURES`` or one of your own.
        seed: seed of everything.
        start: what :func:`fit_start` fitted to the same tasks; None to fit it.
    """

    tasks: Evidence
    calibration: Evidence
    procedure: str | Procedure = "default"
    seed: int = 0
    start: FactorFit | None = None


def fit_start(tasks: Evidence, calibration: Evidence) -> FactorFit:
    """The Gaussian that our procedure starts from, to be fitted once for several lessons."""
    shift, scale = _standardisation(_observed("tasks", tasks))
    standard = (
        _standard(_observed(name, each), shift, scale)
        for name, each in (("tasks", tasks), ("calibration", calibration))
    )
    return fit_factor_gaussian(*standard)


def learn_priors_imperfect(
    lessons: Sequence[Lesson],
    *,
    network: str = "residual-mlp",
    predicts: Prediction = "clean",
    options: Mapping[str, Any] | None = None,
    schedule: Schedule | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_phase: Callable[[int, str, DiffusionPrior], None] | None = None,
) -> list[DiffusionPrior]:
    """Several priors side by side, as :func:`learn_prior_imperfect` would learn each of them.

    Args:
        lessons: what to learn.
        network: name of the network, the same for all.
        predicts: what it predicts.
        options: its sizes.
        schedule: noise schedule; the paper's by default.
        on_progress: called with the progress of the one that is furthest behind.
        on_phase: called at the end of each phase with the number of the lesson, the name of the
            phase and the prior as it is then.
    """
    learners = [
        _Learner(
            lesson.tasks,
            lesson.calibration,
            as_procedure(lesson.procedure),
            Schedule.linear() if schedule is None else schedule,
            {"network": network, "predicts": predicts, "options": options},
            True,
            whole_number("seed", lesson.seed, 0, MOST_SEED),
        )
        for lesson in lessons
    ]
    for learner, lesson in zip(learners, lessons, strict=True):
        if lesson.start is not None:
            learner.learning.factors = lesson.start
    starts = states = [learner.start() for learner in learners]
    phases = [0] * len(states)
    for states in run_side_by_side([learner.learning for learner in learners], starts):
        behind = min(range(len(states)), key=lambda i: int(states[i].training.step))
        if on_progress is not None:
            on_progress(
                _progress(learners[behind].learning, states[behind], learners[behind].scale)
            )
        for i, state in enumerate(states):
            if int(state.phase) > phases[i]:
                if on_phase is not None:
                    name = learners[i].learning.phases[phases[i]].name
                    on_phase(i, name, learners[i].prior(state))
                phases[i] = int(state.phase)
    return [learner.prior(state) for learner, state in zip(learners, states, strict=True)]


class _Learner:
    """Data in standardised units and an untrained network; and back to a prior at the end."""

    def __init__(
        self,
        tasks: Evidence,
        calibration: Evidence | None,
        procedure: Procedure,
        schedule: Schedule,
        network: dict[str, Any],
        standardise: bool,
        seed: int,
    ) -> None:
        train, self.calibration = _split(tasks, calibration, seed)
        self.shift, self.scale = _standardisation(train) if standardise else (0.0, 1.0)
        standard = [_standard(each, self.shift, self.scale) for each in (train, self.calibration)]
        self.learning = ImperfectLearning(
            standard[0],
            standard[1],
            hide(standard[1], seed=seed + 4),
            procedure,
            schedule,
            (procedure.impute_with - self.shift) / self.scale,
            seed,
        )
        self._network = network

    @cached_property
    def denoiser(self) -> NetworkDenoiser:
        """The untrained network; where it goes on from a Gaussian, that of the warm-up."""
        network, learning = self._network, self.learning
        sizes = standardised_options(network["options"], self.shift, self.scale)
        return build_denoiser(
            network["network"],
            learning.train.n_arms,
            predicts=network["predicts"],
            base=learning.gaussian if network["predicts"] == "residual" else None,
            seed=learning.seed,
            **sizes,
        )

    def start(self) -> EMState:
        """The state before the first step."""
        return self.learning.initial(self.denoiser)

    def fingerprint(self) -> str:
        """A digest of all that the outcome depends on."""
        learning = self.learning
        settings = {
            "denoiser": self.denoiser.recipe(),
            "procedure": dataclasses.asdict(learning.procedure),
            "alpha_bar": learning.schedule.alpha_bar,
            "seed": learning.seed,
        }
        arrays = [
            np.asarray(leaf)
            for e in (learning.train, learning.calibration)
            for leaf in (e.mean, e.std, e.mask)
        ]
        return fingerprint(settings, *arrays)

    def prior(self, state: EMState) -> DiffusionPrior:
        """The prior to use in a state, with an account of how it came about."""
        learning = self.learning
        denoiser, tau = learning.result(state)
        low, high = (self.shift + self.scale * limit for limit in learning.limits)
        sizes = {
            "tasks": len(learning.train.mean),
            "calibration": len(self.calibration.mean),
        }
        return DiffusionPrior(
            denoiser,
            tau,
            schedule=learning.schedule,
            shift=self.shift,
            scale=self.scale,
            limits=(low, high),
            metadata={
                "data": {"kind": "imperfect", **sizes},
                "procedure": dataclasses.asdict(learning.procedure),
                "learning": _account(learning, state, self.calibration, self.scale),
                "seed": learning.seed,
            },
        )


def _split(tasks: Evidence, calibration: Evidence | None, seed: int) -> tuple[Evidence, Evidence]:
    """Training and calibration tasks, without those that observed nothing."""
    train = _observed("tasks", tasks)
    if calibration is not None:
        other = _observed("calibration", calibration)
        if other.n_arms != train.n_arms:
            raise InvalidInputError(
                f"calibration: has {other.n_arms} arms, tasks have {train.n_arms}"
            )
        return train, other
    count = len(train.mean)
    if count < 6:
        raise InvalidInputError(f"tasks: expected at least 6 with observations, got {count}")
    order = as_generator(seed).permutation(count)
    kept_back = count // 6
    return _rows(train, order[kept_back:]), _rows(train, order[:kept_back])


def _observed(name: str, evidence: Evidence) -> Evidence:
    if not isinstance(evidence, Evidence):
        raise InvalidInputError(f"{name}: expected Evidence, got {type(evidence).__name__}")
    if evidence.mean.ndim != 2:
        raise InvalidInputError(
            f"{name}: expected evidence of shape (tasks, arms), got {evidence.mean.shape}"
        )
    some = np.flatnonzero(np.asarray(evidence.mask).any(1))
    if not len(some):
        raise InvalidInputError(f"{name}: no task has any observation")
    return _rows(evidence, some)


def _rows(evidence: Evidence, rows: np.ndarray) -> Evidence:
    return Evidence(
        *(np.asarray(leaf)[rows] for leaf in (evidence.mean, evidence.std, evidence.mask))
    )


def _standardisation(evidence: Evidence) -> tuple[float, float]:
    """Mean of the observations, and their deviation with the noise taken out."""
    mask = np.asarray(evidence.mask)
    y = np.asarray(evidence.mean, np.float64)[mask]
    noise = float((np.asarray(evidence.std, np.float64)[mask] ** 2).mean())
    total = float(y.var())
    if total == 0.0:
        raise InvalidInputError("tasks: all observations are equal; there is nothing to learn")
    # Where noise is nearly all there is, its estimated share must not leave next to nothing.
    return float(y.mean()), float(np.sqrt(max(total - noise, 0.01 * total)))


def _standard(evidence: Evidence, shift: float, scale: float) -> Evidence:
    mask = np.asarray(evidence.mask)
    mean = np.where(mask, (np.asarray(evidence.mean) - shift) / scale, 0.0)
    return Evidence(mean, np.asarray(evidence.std) / scale, mask)


def _progress(learning: ImperfectLearning, state: EMState, scale: float) -> Progress:
    step = int(state.training.step)
    number = int(np.searchsorted(learning.ends, step))
    phase = learning.phases[number]
    crps = np.asarray(state.scores)[:, 0]
    known = crps[~np.isnan(crps)]
    return Progress(
        phase.name,
        number + 1,
        len(learning.phases),
        step - int(learning.ends[number]) + phase.steps,
        phase.steps,
        float(state.training.loss),
        scale * float(known[-1]) if len(known) else float("nan"),
    )


def _account(
    learning: ImperfectLearning, state: EMState, calibration: Evidence, scale: float
) -> dict[str, Any]:
    """What a user should know of how the prior came about; plain JSON."""
    scores = np.asarray(state.scores, np.float64)
    done = [i for i in range(len(scores)) if not np.isnan(scores[i, 0])]
    best = min(done, key=lambda i: scores[i, 0])
    kept = best if learning.procedure.select else done[-1]
    observations = np.asarray(calibration.mask).sum(0)
    seldom = np.flatnonzero(observations < LEAST_OBSERVATIONS)
    never = np.flatnonzero(~np.asarray(learning.train.mask).any(0))
    return {
        "scores": [
            {
                "step": learning.scored[i],
                "crps": scale * scores[i, 0],
                "rmse": scale * scores[i, 1],
                "stderr": scale * scores[i, 2],
            }
            for i in done
        ],
        "kept_step": learning.scored[kept],
        "held_out_crps": scale * scores[kept, 0],
        "held_out_stderr": scale * scores[kept, 2],
        "held_out_rmse": scale * scores[kept, 1],
        "arms_seldom_calibrated": [int(arm) for arm in seldom],
        "arms_never_observed": [int(arm) for arm in never],
        "factors": learning.factors.rank if "factors" in learning.__dict__ else None,
    }
