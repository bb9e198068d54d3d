"""One way in: exact means or evidence of past tasks, to a calibrated prior."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike

from diffts.diffusion.networks import Prediction
from diffts.diffusion.prior import DiffusionPrior
from diffts.diffusion.schedule import Schedule
from diffts.evidence import Evidence
from diffts.learning.factor import FactorFit
from diffts.learning.learn import learn_prior_exact, learn_priors_exact
from diffts.learning.learn_imperfect import Lesson as _Lesson
from diffts.learning.learn_imperfect import (
    Progress,
    learn_prior_imperfect,
    learn_priors_imperfect,
)
from diffts.learning.procedure import Procedure
from diffts.learning.training import TrainingConfig, TrainingState


def learn_prior(
    past: ArrayLike | Evidence,
    calibration: ArrayLike | Evidence | None = None,
    *,
    procedure: str | Procedure = "default",
    config: TrainingConfig | None = None,
    network: str = "residual-mlp",
    predicts: Prediction = "clean",
    options: Mapping[str, Any] | None = None,
    schedule: Schedule | None = None,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 1000,
    on_progress: Callable[[Progress], None] | None = None,
) -> DiffusionPrior:
    """Learn a prior: from exact means ``(N, K)`` by ``config``, from evidence by ``procedure``."""
    how: Any = {
        "network": network,
        "predicts": predicts,
        "options": options,
        "schedule": schedule,
        "seed": seed,
        "checkpoint": checkpoint,
        "checkpoint_every": checkpoint_every,
    }
    if isinstance(past, Evidence):
        return learn_prior_imperfect(
            past,
            calibration,  # type: ignore[arg-type]
            procedure=procedure,
            on_progress=on_progress,
            **how,
        )
    steps = (config or TrainingConfig()).steps

    def show(state: TrainingState) -> None:
        if on_progress is not None:
            on_progress(
                Progress("training", 1, 1, int(state.step), steps, float(state.loss), float("nan"))
            )

    return learn_prior_exact(past, calibration, config=config, on_block=show, **how)  # type: ignore[arg-type]


@dataclasses.dataclass(frozen=True)
class Lesson:
    """One of several priors to be learned side by side; arguments as of :func:`learn_prior`."""

    past: Any
    calibration: Any
    procedure: str | Procedure = "default"
    config: TrainingConfig | None = None
    seed: int = 0
    start: FactorFit | None = None


def learn_priors(
    lessons: Sequence[Lesson],
    *,
    network: str = "residual-mlp",
    predicts: Prediction = "clean",
    options: Mapping[str, Any] | None = None,
    schedule: Schedule | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_phase: Callable[[int, str, DiffusionPrior], None] | None = None,
) -> list[DiffusionPrior]:
    """Several priors side by side, as :func:`learn_prior` would learn each of them."""
    how: Any = {"network": network, "predicts": predicts, "options": options, "schedule": schedule}
    first = lessons[0]
    if not isinstance(first.past, Evidence):
        steps = (first.config or TrainingConfig()).steps

        def show(done: int) -> None:
            if on_progress is not None:
                on_progress(Progress("training", 1, 1, done, steps, float("nan"), float("nan")))

        return learn_priors_exact(
            first.past,
            first.calibration,
            seeds=[lesson.seed for lesson in lessons],
            config=first.config,
            on_block=show,
            **how,
        )
    return learn_priors_imperfect(
        [_Lesson(o.past, o.calibration, o.procedure, o.seed, o.start) for o in lessons],
        on_progress=on_progress,
        on_phase=on_phase,
        **how,
    )
