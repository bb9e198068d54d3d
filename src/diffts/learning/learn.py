"""From data of past tasks to a calibrated prior: units, split, phases, and an account of it all.

Exact mean rewards are evidence without noise or gaps: one way in for both.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from diffts.diffusion.exact import Gaussian
from diffts.diffusion.factor_gaussian import FactorGaussian
from diffts.diffusion.networks import ArmDenoiser, Prediction, TrainedDenoiser, build_denoiser
from diffts.diffusion.prior import DiffusionPrior
from diffts.diffusion.schedule import Schedule
from diffts.diffusion.units import Past, Units
from diffts.errors import InvalidInputError
from diffts.evidence import Evidence
from diffts.learning.arms import ArmProcedure
from diffts.learning.calibration import LEAST_OBSERVATIONS
from diffts.learning.checkpoint import Checkpoint, follow
from diffts.learning.fits import FactorFit, fit_gaussian
from diffts.learning.phases import Learning, LearningState, run
from diffts.learning.procedure import HowToLearn, PlainTraining, Procedure, Standardised
from diffts.learning.procedures import as_procedure
from diffts.learning.training import TrainingConfig
from diffts.seeding import MOST_SEED, as_generator
from diffts.validation import finite_array, whole_number

#: Where the network 'arms' looks for edges of the law at first: quantiles of all past entries.
KNOTS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


class Progress(NamedTuple):
    """Where learning stands.

    Attributes:
        phase: name of the phase.
        number: its number, from 1.
        phases: how many there are.
        done: gradient steps done in it.
        steps: gradient steps of it.
        loss: mean training loss of the last block.
        score: last held-out score (CRPS or regret) in the user's units; NaN before the first.
    """

    phase: str
    number: int
    phases: int
    done: int
    steps: int
    loss: float
    score: float


@dataclass(frozen=True)
class Lesson:
    """One of several priors to be learned side by side; arguments as of :func:`learn_prior`.

    ``start`` is what :func:`fit_start` fitted to the same tasks; None to fit it. ``units`` are
    those that the network sees; None to standardise the tasks.
    """

    past: ArrayLike | Evidence
    calibration: ArrayLike | Evidence | None = None
    procedure: str | Procedure = "default"
    config: TrainingConfig | None = None
    seed: int = 0
    start: FactorFit | None = None
    units: Units | None = None


def learn_prior(
    past: ArrayLike | Evidence,
    calibration: ArrayLike | Evidence | None = None,
    *,
    procedure: str | Procedure = "default",
    config: TrainingConfig | None = None,
    network: str | None = None,
    predicts: Prediction = "clean",
    options: Mapping[str, Any] | None = None,
    schedule: Schedule | None = None,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 1000,
    on_progress: Callable[[Progress], None] | None = None,
) -> DiffusionPrior:
    """Learn a diffusion prior from what is known of past tasks.

    Args:
        past: exact mean rewards ``(N, K)``, or :class:`Evidence` of tasks that were observed
            incompletely or with noise, in the user's units. Tasks without any observation are left
            out.
        calibration: other tasks, of the same kind, to calibrate on and to score with; by default a
            sixth of ``past`` is kept back for it.
        procedure: how to learn: that of 'arms' by default; for other networks, and from evidence
            alone, a name in ``PROCEDURES`` ('paper', 'ipinyou', 'images') or one of your own.
        config: how to train other networks on exact means; the paper's recipe by default.
        network: name of the network: 'arms', ours for arms of any kind, or one of
            ``diffts.diffusion.NETWORKS``. By default 'arms'; but 'residual-mlp' where a config, a
            prediction or a procedure is asked for that is not of 'arms'.
        predicts: what it predicts: 'clean', 'noise', 'velocity' or 'residual' (what is left by a
            Gaussian fitted to the same data).
        options: sizes of the network.
        schedule: noise schedule; the paper's by default.
        seed: seed of everything: weights, batches, calibration.
        checkpoint: a folder for the state. If it holds one, learning goes on from it, to the same
            weights as an uninterrupted run. A KeyboardInterrupt saves it, too.
        checkpoint_every: gradient steps between two saves.
        on_progress: called after every block of steps.

    The prior's ``metadata['learning']`` says, for evidence, which arms were observed too seldom to
    calibrate, the held-out scores, and which weights were kept.
    """
    lesson = Lesson(past, calibration, procedure, config, seed)
    learning = learning_of(lesson, network, predicts, options, schedule)
    saved = Checkpoint(checkpoint, _fingerprint(learning))
    start = saved.load(learning.initial())

    def report(states: Sequence[LearningState]) -> None:
        if on_progress is not None:
            on_progress(progress_of(learning, states[0]))

    states = run([learning], [start])
    [state] = follow([saved], [start], states, checkpoint_every, report)
    return prior_of(learning, state)


def learn_priors(
    lessons: Sequence[Lesson],
    *,
    network: str | None = None,
    predicts: Prediction = "clean",
    options: Mapping[str, Any] | None = None,
    schedule: Schedule | None = None,
    checkpoints: Sequence[str | os.PathLike[str]] = (),
    checkpoint_every: int = 1000,
    on_progress: Callable[[Progress], None] | None = None,
    on_phase: Callable[[int, str, DiffusionPrior], None] | None = None,
) -> list[DiffusionPrior]:
    """Several priors side by side, as :func:`learn_prior` would learn each of them.

    Args:
        lessons: what to learn.
        network: name of the network, the same for all; by default as for one.
        predicts: what it predicts.
        options: its sizes.
        schedule: noise schedule; the paper's by default.
        checkpoints: a folder for the state of each, as for one; none are kept by default.
        checkpoint_every: gradient steps between two saves.
        on_progress: called with the progress of the one that is furthest behind.
        on_phase: called at the end of each phase with the number of the lesson, the name of the
            phase and the prior as it is then.
    """
    how = (network, predicts, options, schedule)
    same: dict[tuple[int, int], Standardised] = {}  # lessons on the same data share one copy
    learnings = []
    for lesson in lessons:
        data = (id(lesson.past), id(lesson.calibration))
        learnings.append(learning_of(lesson, *how, like=same.get(data)))
        if lesson.calibration is not None:  # else each seed splits them in its own way
            same.setdefault(data, learnings[-1].past)
    if checkpoints and len(checkpoints) != len(lessons):
        told = f"one for each of {len(lessons)} lessons, got {len(checkpoints)}"
        raise InvalidInputError(f"checkpoints: {told}")
    folders: Sequence[str | os.PathLike[str] | None] = checkpoints or [None] * len(lessons)
    saved = [
        Checkpoint(folder, _fingerprint(learning))
        for folder, learning in zip(folders, learnings, strict=True)
    ]
    both = zip(saved, learnings, strict=True)
    before: Sequence[LearningState] = [one.load(learning.initial()) for one, learning in both]

    def report(states: Sequence[LearningState]) -> None:
        nonlocal before
        if on_progress is not None:
            every = zip(learnings, states, strict=True)
            on_progress(progress_of(*min(every, key=lambda one: one[1].step)))
        if on_phase is not None:
            for i, (learning, old, new) in enumerate(zip(learnings, before, states, strict=True)):
                if int(new.phase) > int(old.phase):
                    on_phase(i, learning.phase_of(old).name, prior_of(learning, new))
        before = states

    states = follow(saved, before, run(learnings, before), checkpoint_every, report)
    return [prior_of(learning, state) for learning, state in zip(learnings, states, strict=True)]


def fit_start(
    past: ArrayLike | Evidence, calibration: ArrayLike | Evidence, how: str | Procedure = "default"
) -> FactorFit:
    """The Gaussian that a procedure starts from, to be fitted once for several lessons."""
    standard = _standardised(Lesson(past, calibration), Schedule.linear())
    how = as_procedure(how)
    return how.gaussian_below(standard) if isinstance(how, ArmProcedure) else standard.factors


def units_of(past: ArrayLike | Evidence) -> Units:
    """The units that networks see these tasks in, where others calibrate."""
    return Units.of_past(_as_past("past", past))


# --- from data to a learning -------------------------------------------------------------------


def learning_of(
    lesson: Lesson,
    network: str | None,
    predicts: Prediction,
    options: Mapping[str, Any] | None,
    schedule: Schedule | None,
    like: Standardised | None = None,
) -> Learning:
    """Data in standardised units (those of ``like``, if given), procedure, untrained network."""
    if network is None:
        of_arms = lesson.procedure == "default" or isinstance(lesson.procedure, ArmProcedure)
        of_arms = of_arms or lesson.procedure == "arms"
        of_arms = of_arms and lesson.config is None and predicts == "clean"
        network = "arms" if of_arms else "residual-mlp"
    how = _how(lesson, network)
    past = _standardised(lesson, Schedule.linear() if schedule is None else schedule, like)
    if isinstance(how, ArmProcedure):
        return Learning(past, how, _arm_denoiser(past, how, predicts, options, lesson.seed))
    denoiser: TrainedDenoiser = build_denoiser(
        network,
        past.train.n_arms,
        predicts=predicts,
        base=_base(past, how) if predicts == "residual" else None,
        seed=lesson.seed,
        **dict(options or {}),
    )
    return Learning(past, how, denoiser)


def _base(past: Standardised, how: HowToLearn) -> Gaussian:
    """The Gaussian that a network with ``predicts='residual'`` goes on from."""
    return past.factors.gaussian if isinstance(how, Procedure) else fit_gaussian(past.train.mean)


def _arm_denoiser(
    past: Standardised,
    how: ArmProcedure,
    predicts: Prediction,
    options: Mapping[str, Any] | None,
    seed: int,
) -> ArmDenoiser:
    """The network 'arms' on top of the factor Gaussian of the same tasks."""
    if predicts != "clean":
        raise InvalidInputError("predicts: network 'arms' has a Gaussian below it already")
    past.given_factors = how.gaussian_below(past)
    entries = past.train.mean[np.asarray(past.train.mask)]
    sizes = {"knots": np.quantile(entries, KNOTS).tolist()} | dict(options or {})
    try:
        return ArmDenoiser(FactorGaussian(*past.factors), seed=seed, **sizes)
    except TypeError as error:
        raise InvalidInputError(f"options of arms: {error}") from None


def _how(lesson: Lesson, network: str) -> HowToLearn:
    """Plain training for exact means, a procedure for evidence; for 'arms', its own for both."""
    if network == "arms":
        how = Procedure.named("arms") if lesson.procedure == "default" else lesson.procedure
        how = as_procedure(how)
        if not isinstance(how, ArmProcedure):
            raise InvalidInputError("procedure: network 'arms' has its own; give an ArmProcedure")
        return how if lesson.config is None else how.scaled_to(lesson.config.steps)
    if isinstance(lesson.procedure, ArmProcedure) or lesson.procedure == "arms":
        raise InvalidInputError("procedure: 'arms' is that of the network 'arms'")
    if isinstance(lesson.past, Evidence):
        if lesson.config is not None:
            raise InvalidInputError("config: for exact means; of evidence, a procedure's training")
        return as_procedure(lesson.procedure)
    if lesson.procedure != "default":
        raise InvalidInputError("procedure: for evidence; exact means are trained on by config")
    return PlainTraining(TrainingConfig() if lesson.config is None else lesson.config)


def _standardised(
    lesson: Lesson, schedule: Schedule, like: Standardised | None = None
) -> Standardised:
    seed = whole_number("seed", lesson.seed, 0, MOST_SEED)
    if like is not None:
        return replace(like, seed=seed, given_factors=lesson.start or like.given_factors)
    train, other = _split(lesson.past, lesson.calibration, seed)
    units = Units.of_past(train) if lesson.units is None else lesson.units
    standard = units.standard_past
    return Standardised(standard(train), standard(other), units, schedule, seed, lesson.start)


def _split(
    past: ArrayLike | Evidence, calibration: ArrayLike | Evidence | None, seed: int
) -> tuple[Past, Past]:
    """Training and calibration tasks, without those that observed nothing."""
    train = _as_past("past", past)
    if calibration is not None:
        if isinstance(past, Evidence) != isinstance(calibration, Evidence):
            raise InvalidInputError("calibration: must be of the same kind as past")
        other = _as_past("calibration", calibration)
        if other.mean.shape[1] != train.mean.shape[1]:
            raise InvalidInputError(
                f"calibration: has {other.mean.shape[1]} arms, past has {train.mean.shape[1]}"
            )
        return train, other
    count = len(train.mean)
    if count < 6:
        raise InvalidInputError(f"past: expected at least 6 tasks with observations, got {count}")
    order = as_generator(seed).permutation(count)
    kept_back = count // 6
    return train.rows(order[kept_back:]), train.rows(order[:kept_back])


def _as_past(name: str, tasks: ArrayLike | Evidence) -> Past:
    if isinstance(tasks, Evidence):
        mask = np.asarray(tasks.mask)
        if mask.ndim != 2:
            raise InvalidInputError(f"{name}: expected shape (tasks, arms), got {mask.shape}")
        mean, std = (np.asarray(leaf, np.float64) for leaf in (tasks.mean, tasks.std))
    else:
        mean = finite_array(name, tasks, ndim=2)
        std, mask = np.zeros(mean.shape), np.ones(mean.shape, bool)
    if not mask.any():
        raise InvalidInputError(f"{name}: no task has any observation")
    return Past(mean, std, mask).rows(np.flatnonzero(mask.any(1)))


def _fingerprint(learning: Learning) -> str:
    """A digest of all that must agree for a checkpoint to be a part of this very learning."""
    past = learning.past
    settings = {
        "denoiser": learning.denoiser.recipe(),
        "procedure": learning.how.settings(),
        "alpha_bar": past.schedule.alpha_bar,
        "seed": past.seed,
    }
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for leaf in jax.tree.leaves((past.train, past.calibration)):
        digest.update(np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()


# --- and back to a prior -----------------------------------------------------------------------


def prior_of(learning: Learning, state: LearningState) -> DiffusionPrior:
    """The prior to use in a state, with an account of how it came about."""
    past, how = learning.past, learning.how
    denoiser, tau = learning.result(state)
    kind, told = "exact" if past.is_exact else "imperfect", how.settings()
    if isinstance(how, Procedure):
        told = {"procedure": told, "learning": _account(learning, state)}
    data = {"kind": kind, "tasks": len(past.train.mean), "calibration": len(past.calibration.mean)}
    metadata = {"data": data, "seed": past.seed, **told}
    return DiffusionPrior(
        denoiser, tau, schedule=past.schedule, units=past.units, metadata=metadata
    )


def progress_of(learning: Learning, state: LearningState) -> Progress:
    """Where learning stands in a state."""
    number = int(np.searchsorted(learning.ends, state.step))
    phase = learning.phases[number]
    crps = np.asarray(state.scores)[:, 0]
    known = crps[~np.isnan(crps)]
    return Progress(
        phase.name,
        number + 1,
        len(learning.phases),
        state.step - learning.ends[number] + phase.steps,
        phase.steps,
        float(state.training.loss),
        learning.past.units.scale * float(known[-1]) if len(known) else float("nan"),
    )


def _account(learning: Learning, state: LearningState) -> dict[str, Any]:
    """What a user should know of how the prior came about; plain JSON."""
    past = learning.past
    scores = past.units.scale * np.asarray(state.scores, np.float64)
    done = [i for i in range(len(scores)) if not np.isnan(scores[i, 0])]
    kept: int | None = None  # nothing was scored before learning was stopped
    if done:
        kept = min(done, key=lambda i: scores[i, 0]) if learning.selects else done[-1]
    assert isinstance(learning.how, Procedure)
    names = (learning.how.judged_by, "rmse", "stderr")
    told = [
        {name: value for name, value in zip(names, row, strict=True) if not np.isnan(value)}
        for row in scores
    ]
    best = {} if kept is None else told[kept]
    rows = [{"step": learning.scored[i]} | told[i] for i in done]
    seldom = np.asarray(past.calibration.mask).sum(0) < LEAST_OBSERVATIONS
    never = ~np.asarray(past.train.mask).any(0)
    return {
        "steps": state.step,
        "scores": rows,
        "kept_step": state.step if kept is None else learning.scored[kept],
        **{f"held_out_{name}": best.get(name) for name in dict.fromkeys(("crps", *names))},
        "arms_seldom_calibrated": np.flatnonzero(seldom).tolist(),
        "arms_never_observed": np.flatnonzero(never).tolist(),
        "factors": past.factors.rank if "factors" in past.__dict__ else None,
    }
