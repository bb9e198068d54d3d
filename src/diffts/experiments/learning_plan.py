"""How a problem's diffusion prior is to be learned, from either kind of data."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any

from diffts.diffusion.prior import DiffusionPrior
from diffts.evidence import Evidence
from diffts.learning import (
    PROCEDURES,
    ArmProcedure,
    Procedure,
    Progress,
    TrainingConfig,
    choose_sure,
    learn_prior,
)
from diffts.problems import Problem, SuggestedNetwork

_TRAINING = TrainingConfig(decay="cosine", ema_decay=0.995)


@dataclasses.dataclass(frozen=True)
class LearningPlan:
    """A network and its training; None stands for the problem's own advice, beside 'arms'."""

    network: str | None = None  # its name
    options: dict[str, Any] = dataclasses.field(default_factory=dict)  # its sizes
    predicts: str | None = None
    config: TrainingConfig = _TRAINING  # from exact means
    procedure: Procedure = PROCEDURES["default"]  # the same from evidence; of 'arms', from both
    choose_sure: bool = False  # from evidence, choose λ by the held-out score

    def network_for(self, problem: Problem) -> dict[str, Any]:
        """Network, options and prediction: this plan's, else the problem's own advice."""
        if self.network == "arms":
            options = {**problem.suggested_arms.options, **self.options}
            return {"network": "arms", "options": options}
        advice = problem.suggested_network or SuggestedNetwork("residual-mlp")
        if self.network not in (None, advice.name):
            advice = SuggestedNetwork(str(self.network))
        return {
            "network": advice.name,
            "options": {**advice.options, **self.options},
            "predicts": self.predicts or advice.predicts,
        }

    def learn(
        self,
        problem: Problem,
        past: Any,
        calibration: Any,
        *,
        seed: int = 0,
        checkpoint: str | os.PathLike[str] | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> DiffusionPrior:
        """The problem's prior from past tasks, exact means ``(N, K)`` or evidence about them.

        The other arguments are those of :func:`learn_prior`.
        """
        how = {"seed": seed, "checkpoint": checkpoint, **self.network_for(problem)}
        if self.network == "arms":  # one procedure for both kinds of data
            procedure = self.procedure
            if not isinstance(procedure, ArmProcedure):
                advised = Procedure.named("arms", **problem.suggested_arms.procedure)
                procedure = advised.scaled(self.config.steps / TrainingConfig.steps)
            how |= {"procedure": procedure}
            return learn_prior(past, calibration, on_progress=on_progress, **how)
        if self.choose_sure:
            tell = None if on_progress is None else lambda _, progress: on_progress(progress)
            how |= {"procedure": self.procedure, "on_progress": tell}
            return choose_sure(past, calibration, **how)[0]
        imperfect = isinstance(past, Evidence)
        how |= {"procedure": self.procedure} if imperfect else {"config": self.config}
        return learn_prior(past, calibration, on_progress=on_progress, **how)
