"""A choice of λ, the weight of the SURE term, by the held-out score."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from diffts.diffusion.prior import DiffusionPrior
from diffts.errors import InvalidInputError
from diffts.evidence import Evidence
from diffts.learning.learn import Progress, learn_prior
from diffts.learning.procedure import Procedure
from diffts.learning.procedures import as_procedure


def choose_sure(
    past: Evidence,
    calibration: Evidence | None = None,
    *,
    procedure: str | Procedure = "default",
    candidates: tuple[float, ...] = (0.0, 0.03, 0.1, 0.3),
    on_progress: Callable[[float, Progress], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    **how: Any,
) -> tuple[DiffusionPrior, dict[float, float]]:
    """Learn with several λ, and keep the smallest that predicts hidden observations well.

    That is the smallest λ whose held-out CRPS is within one standard error of the best: a larger
    one adds a bias, and must earn it.

    Args:
        past: training tasks, as in :func:`learn_prior`.
        calibration: other tasks.
        procedure: what λ is put into, the same for all phases.
        candidates: values of λ.
        on_progress: called with λ and the progress of its training.
        checkpoint: a folder for the states, one of its own for each λ.
        **how: further arguments of :func:`learn_prior`.

    Returns:
        The chosen prior, and the held-out CRPS of each λ (in the user's units, smaller is better).
    """
    if how.get("network") == "arms":
        raise InvalidInputError("network 'arms' has no weight λ to choose")
    if not as_procedure(procedure).takes_scores:
        raise InvalidInputError("procedure: takes no held-out scores to choose by")
    if not candidates:
        raise InvalidInputError("candidates: none given")
    priors: dict[float, DiffusionPrior] = {}
    for sure in sorted(candidates):
        priors[sure] = learn_prior(
            past,
            calibration,
            procedure=dataclasses.replace(as_procedure(procedure), sure=sure),
            on_progress=None if on_progress is None else partial(on_progress, sure),
            checkpoint=None if checkpoint is None else Path(checkpoint) / f"sure-{sure:g}",
            **how,
        )
    told = {sure: prior.metadata["learning"] for sure, prior in priors.items()}
    scores = {sure: float(account["held_out_crps"]) for sure, account in told.items()}
    best = min(scores, key=scores.__getitem__)
    good_enough = scores[best] + told[best]["held_out_stderr"]
    chosen = min(sure for sure, crps in scores.items() if crps <= good_enough)
    return priors[chosen], scores
