"""The procedures that have names."""

from __future__ import annotations

import dataclasses

from diffts.learning.arms import ArmProcedure
from diffts.learning.ours import OurProcedure
from diffts.learning.paper import PaperProcedure
from diffts.learning.procedure import PROCEDURES, Procedure
from diffts.learning.training import TrainingConfig

_PAPER = PaperProcedure()

PROCEDURES |= {
    "default": OurProcedure(),
    "arms": ArmProcedure(),
    "paper": _PAPER,
    "paper-without-em": dataclasses.replace(_PAPER, warmup_steps=24_000, rounds=0),
    "ipinyou": dataclasses.replace(_PAPER, sure=(0.0, 0.0, 0.0, 0.25), final_steps=3000),
    "images": dataclasses.replace(
        _PAPER,
        warmup_steps=5000,
        sure=0.2,
        training=TrainingConfig(learning_rate=1e-4, ema_decay=0.995, ema_every=10),
    ),
}


def as_procedure(procedure: str | Procedure) -> Procedure:
    """A procedure by its name, or the procedure itself."""
    return procedure if isinstance(procedure, Procedure) else Procedure.named(procedure)
