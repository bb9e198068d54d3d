"""The loop of learning: one phase after the other, scored on the way; alone or side by side.

It is a generator of states, and all that happens after a state depends on that state alone: what
an E-step drew is drawn again, to the same bits, by a run that goes on in the middle of a phase.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from diffts.diffusion.networks import TrainedDenoiser
from diffts.learning.held_out import HeldOut, Score, hide
from diffts.learning.procedure import HowToLearn, Phase, Procedure, Standardised
from diffts.learning.training import (
    Objective,
    TrainingState,
    initial_state,
    refuse_divergence,
    train,
)
from diffts.stacking import layout


class LearningState(eqx.Module):
    """Everything that learning goes on from; what is None is not needed without scores."""

    phase: Int[Array, ""]  # number of the current one, from 0
    training: TrainingState  # its steps are counted through all phases
    source: TrainedDenoiser | None  # what this phase's E-step draws with
    tau: Float[Array, "L K"]  # its calibrated errors
    best: TrainedDenoiser | None  # the one with the best held-out score so far
    best_tau: Float[Array, "L K"]
    scores: Float[Array, "scorings 3"]  # a Score of each scoring, NaN before it

    @property
    def step(self) -> int:
        """Gradient steps done."""
        return int(self.training.step)


class Learning:
    """Past tasks, how to learn from them, and the untrained network."""

    def __init__(self, past: Standardised, how: HowToLearn, denoiser: TrainedDenoiser) -> None:
        self.past, self.how, self.denoiser = past, how, denoiser
        self.phases = how.phases()
        self.selects = how.selects and (past.is_judged_exactly or how.judges_draws)
        self.ends = [int(end) for end in np.cumsum([phase.steps for phase in self.phases])]
        self.held_out: HeldOut | None = None
        self.scored: list[int] = []
        if every := how.score_every:
            if isinstance(how, Procedure) and how.takes_scores and how.judged_by == "crps":
                self.held_out = hide(past.calibration, seed=past.seed + 4)
            # Every so many steps of a phase, and at its end.
            for phase, end in zip(self.phases, self.ends, strict=True):
                self.scored += [*range(end - phase.steps + every, end, every), end]

    def initial(self) -> LearningState:
        """The state before the first step."""
        tau = jnp.zeros((self.past.schedule.n_steps, self.denoiser.n_arms))
        kept = self.denoiser if self.scored else None
        return LearningState(
            phase=jnp.int32(0),
            training=initial_state(self.denoiser, self.how.training_of(self.phases[0])),
            source=kept,
            tau=tau,
            best=kept,
            best_tau=tau,
            scores=jnp.full((len(self.scored), len(Score._fields)), jnp.nan),
        )

    def objective(self, state: LearningState) -> Objective:
        """What the state's phase minimises; draws the training tasks if it must."""
        source = self.denoiser if state.source is None else state.source
        now = self.past.prior(source, state.tau)
        return self.how.objective(self.past, self.phase_of(state), now)

    def phase_of(self, state: LearningState) -> Phase:
        """The phase that a state is in."""
        return self.phases[int(state.phase)]

    def until(self, state: LearningState) -> int:
        """The step to go on to: the next held-out score, or the end."""
        return next((step for step in self.scored if step > state.step), self.ends[-1])

    def after(self, state: LearningState, training: TrainingState) -> LearningState:
        """The state after a block of steps, scored and handed to the next phase where due."""
        state, number = replace(state, training=training), int(state.phase)
        at_the_end = state.step == self.ends[number]
        if state.step in self.scored:
            state, tau = self._scored(state)
            if at_the_end and number + 1 < len(self.phases):
                state = self._next_phase(state, tau)
        return replace(state, phase=state.phase + 1) if at_the_end else state

    def finished(self, state: LearningState) -> bool:
        """Whether all phases are done, or the held-out score has stopped to improve."""
        number, patience = int(state.phase), self.how.patience
        if number >= len(self.phases):
            return True
        if not patience or number <= patience or self.phases[number].name == "final":
            return False
        crps = np.asarray(state.scores)[:, 0]
        best_of_phase = [
            min(crps[i] for i, step in enumerate(self.scored) if end - phase.steps < step <= end)
            for phase, end in zip(self.phases[:number], self.ends[:number], strict=True)
        ]
        return min(best_of_phase[-patience:]) > min(best_of_phase)

    def result(self, state: LearningState) -> tuple[TrainedDenoiser, Float[Array, "L K"]]:
        """The denoiser to use, and its calibrated errors; of any state, not only of the last one.

        Before the first held-out score, and without any, the weights as they are.
        """
        unscored = not self.scored or state.step < self.scored[0]
        if self.how.calibrates_last or unscored or state.best is None:
            denoiser = state.training.average if unscored or state.best is None else state.best
            tau = self.how.calibrate(self.past, denoiser, len(self.scored), final=True)
            # The last step's loss is that of the weights before it: they may be lost all the same.
            refuse_divergence(float(jnp.max(tau)), state.step)
            return denoiser, tau
        return state.best, state.best_tau

    def score(self, denoiser: TrainedDenoiser, tau: Float[Array, "L K"]) -> Score:
        """Held-out score, standardised; NaN where none is taken."""
        if not self.how.takes_scores:
            return Score(*[float("nan")] * len(Score._fields))
        assert isinstance(self.how, Procedure)
        return self.how.score(self.past, self.held_out, self.past.prior(denoiser, tau))

    def _scored(self, state: LearningState) -> tuple[LearningState, Float[Array, "L K"]]:
        """Calibrate and score the current weights; keep them if they are the best."""
        denoiser = state.training.average
        number = self.scored.index(state.step)
        tau = self.how.calibrate(self.past, denoiser, number, final=False)
        got = self.score(denoiser, tau)
        best = number == 0 or got.crps < float(jnp.nanmin(state.scores[:, 0]))
        if best or not self.selects:
            state = replace(state, best=denoiser, best_tau=tau)
        return replace(state, scores=state.scores.at[number].set(jnp.asarray(got))), tau

    def _next_phase(self, state: LearningState, tau: Float[Array, "L K"]) -> LearningState:
        """Hand the trained weights to the next E-step; start Adam anew if asked to."""
        trained = state.training.average
        # Only here: a run that goes on in the middle of a phase must draw with the same τ again.
        state = replace(state, source=trained, tau=tau)
        if not self.how.starts_anew:
            return state
        following = self.phases[int(state.phase) + 1]
        anew = initial_state(trained, self.how.training_of(following))
        before = state.training  # its loss is the last one known
        return replace(state, training=replace(anew, step=before.step, loss=before.loss))


def run(
    learnings: Sequence[Learning], states: Sequence[LearningState]
) -> Iterator[list[LearningState]]:
    """Learnings to their ends, yielding their states after every block of steps.

    Those that are at the same step, with the same kind of objective and the same settings, take
    their gradient steps in one compiled run; E-steps, calibrations and scores come one by one.
    """
    now = list(states)
    drawn: dict[int, tuple[int, Objective]] = {}  # of each learning, once a phase
    while going := [i for i, one in enumerate(learnings) if not one.finished(now[i])]:
        # Those that are behind go first, so that others can join them.
        step = min(now[i].step for i in going)
        groups: dict[Any, list[int]] = defaultdict(list)
        for i in (i for i in going if now[i].step == step):
            one, phase = learnings[i], int(now[i].phase)
            if i not in drawn or drawn[i][0] != phase:
                drawn[i] = (phase, one.objective(now[i]))
            config = one.how.training_of(one.phase_of(now[i]))
            kind = layout((drawn[i][1], now[i].training))
            groups[kind, config, one.until(now[i])].append(i)
        for (_, config, until), members in groups.items():
            for trained in train(
                [now[i].training for i in members],
                [drawn[i][1] for i in members],
                config,
                learnings[members[0]].past.schedule,
                [learnings[i].past.seed for i in members],
                until,
            ):
                for i, training in zip(members, trained, strict=True):
                    now[i] = learnings[i].after(now[i], training)
                yield list(now)
