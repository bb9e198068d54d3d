"""Learning within a time: a plan cut to the speed of this machine, and stopped when time is up.

Two blocks of gradient steps are timed; the first one compiles, the second one tells the speed. The
plan is then shortened until it fits, with its calibrations, held-out scores and E-steps. Should it
take longer all the same, it stops in time for the last calibration.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import numpy as np

from diffts.diffusion.networks import Prediction
from diffts.diffusion.prior import DiffusionPrior
from diffts.evidence import Evidence
from diffts.learning.fits.factor import FactorFit
from diffts.learning.learn import (
    Lesson,
    Progress,
    learning_of,
    prior_of,
    progress_of,
    units_of,
)
from diffts.learning.phases import Learning, LearningState, run
from diffts.learning.procedure import BOTH_WAYS, Procedure

#: Shares of the whole plan that are tried, from all of it to about an eighteenth.
SHARES = np.geomspace(1.0, 1 / 18, 24)
#: Share of the time that is planned with; the rest is for programs that are still to be compiled.
PLANNED = 0.85


def learn_prior_within(
    seconds: float,
    past: Evidence,
    calibration: Evidence,
    *,
    procedure: Procedure,
    network: str = "residual-mlp",
    predicts: Prediction = "clean",
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    start: FactorFit | None = None,
    clock: Callable[[], float] = time.perf_counter,
    on_progress: Callable[[Progress], None] | None = None,
) -> DiffusionPrior:
    """As :func:`learn_prior`, in about so many seconds; where all of the plan fits, the same prior.

    ``clock`` gives the time in seconds; ``start`` is the factor Gaussian of the same tasks, where
    it was fitted before. What was planned is in ``metadata['procedure']``, the steps that were made
    in ``metadata['learning']['steps']``.
    """
    deadline = clock() + seconds
    if start is not None:
        start = start.standardised(units_of(past))
    lesson = Lesson(past, calibration, procedure, None, seed, start)
    learning = learning_of(lesson, network, predicts, options, None)
    state, step = _first_blocks(learning, clock)
    plan = shortened(learning, (deadline - clock()) / step)
    if plan is not procedure:
        # Another length is another decay of the learning rate: from the start, on the same data.
        learning = Learning(learning.past, plan, learning.denoiser)
        state = learning.initial()
    end = deadline - step * last_calibration(learning)
    states = run([learning], [state])
    for [state] in states:
        if on_progress is not None:
            on_progress(progress_of(learning, state))
        if clock() >= end:
            break
    return prior_of(learning, state)


def _first_blocks(learning: Learning, clock: Callable[[], float]) -> tuple[LearningState, float]:
    """The state after two blocks (one, if there are no more), and the seconds of a step."""
    state, before, step = learning.initial(), clock(), 0.0
    for [after] in islice(run([learning], [state]), 2):
        now = clock()
        step = (now - before) / (after.step - state.step)
        state, before = after, now
    return state, max(step, 1e-9)


def shortened(learning: Learning, steps: float) -> Procedure:
    """The longest plan of some shares that takes no more than so many gradient steps would.

    The same plan if all of it fits, the shortest if none does.
    """
    whole = learning.how
    assert isinstance(whole, Procedure)
    plan = whole
    for share in SHARES:
        if share < 1:
            shorter = in_whole_blocks(whole.scaled(float(share)))
            # A score is as long as before, so a short plan has fewer of them.
            plan = dataclasses.replace(shorter, score_every=whole.score_every)
        if work(Learning(learning.past, plan, learning.denoiser)) <= PLANNED * steps:
            break
    return plan


def in_whole_blocks(plan: Procedure) -> Procedure:
    """The nearest plan whose phases are whole blocks of steps.

    A block of every other length is a program of its own, and on a GPU each takes as long to
    compile as thousands of steps do.
    """
    block = plan.training.block

    def nearest(steps: int) -> int:
        return block * max(1, round(steps / block)) if steps else 0

    inner = plan.inner_steps
    return dataclasses.replace(
        plan,
        warmup_steps=nearest(plan.warmup_steps),
        inner_steps=tuple(map(nearest, inner)) if isinstance(inner, tuple) else nearest(inner),
        final_steps=nearest(plan.final_steps),
    )


def work(learning: Learning) -> float:
    """All that a plan does, in gradient steps that take as long."""
    how = learning.how
    assert isinstance(how, Procedure)
    passes = how.passes(learning.past)
    beside = passes.first + (len(learning.phases) - 1) * passes.phase
    beside += len(learning.scored) * passes.score
    return learning.ends[-1] + beside / _rows(how) + last_calibration(learning)


def last_calibration(learning: Learning) -> float:
    """The errors that are handed over, in gradient steps that take as long."""
    how = learning.how
    assert isinstance(how, Procedure)
    return how.passes(learning.past).final / _rows(how)


def _rows(how: Procedure) -> float:
    """Rows that go through the network in one gradient step."""
    return BOTH_WAYS * how.training.batch_size
