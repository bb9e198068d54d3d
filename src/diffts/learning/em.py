"""Learning from incomplete and noisy data (Algorithm 'Diffusion Model Training from Imperfect').

A warm-up, then repeats of: calibrate, draw the training tasks from their posterior (E-step),
minimise a loss that looks at the observations (M-step). Like plain training, it is a generator of
states, and all that happens after a state depends on that state alone: what the E-step drew is
drawn again, to the same bits, by a run that goes on in the middle of a phase.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from diffts.diffusion.exact import Gaussian
from diffts.diffusion.networks import NetworkDenoiser
from diffts.diffusion.posterior import Limits, PaperSampler, as_sampler
from diffts.diffusion.prior import DiffusionPrior, explainable
from diffts.diffusion.schedule import Schedule
from diffts.evidence import Evidence
from diffts.learning.calibration import calibrate, calibrate_imperfect
from diffts.learning.clean import Clean
from diffts.learning.factor import FactorFit, fit_factor_gaussian
from diffts.learning.held_out import HeldOut, Score, score
from diffts.learning.latents import draw_latents, steps_to_keep
from diffts.learning.mixture_em import draw_posterior
from diffts.learning.objectives import Imputed, Latents, Observations, Reconstructed
from diffts.learning.procedure import Phase, Procedure
from diffts.learning.side_by_side import train_side_by_side
from diffts.learning.training import (
    Objective,
    TrainingConfig,
    TrainingState,
    initial_state,
    train,
)
from diffts.seeding import KeyArray
from diffts.stacking import layout

#: Posterior draws of each calibration task for the errors that are handed over.
FINAL_DRAWS = 8


class EMState(eqx.Module):
    """Everything that learning goes on from.

    Attributes:
        phase: number of the current phase, from 0.
        training: the training state; its steps are counted through all phases.
        source: the denoiser that this phase's E-step draws with.
        tau: its calibrated errors, ``(L, K)``.
        best: the denoiser with the best held-out score so far.
        best_tau: its calibrated errors.
        scores: held-out CRPS, RMSE and the CRPS's standard error of each scoring, NaN before it.
    """

    phase: Int[Array, ""]
    training: TrainingState
    source: NetworkDenoiser
    tau: Float[Array, "L K"]
    best: NetworkDenoiser
    best_tau: Float[Array, "L K"]
    scores: Float[Array, "scorings 3"]


class ImperfectLearning:
    """The data, all standardised, and what every phase does with them.

    Args:
        train: training tasks.
        calibration: other tasks, for calibration and the held-out score.
        held_out: the same with hidden observations.
        procedure: the recipe.
        schedule: the noise schedule.
        imputed: the constant for missing entries, standardised.
        seed: seed of everything.
    """

    def __init__(
        self,
        train: Evidence,
        calibration: Evidence,
        held_out: HeldOut,
        procedure: Procedure,
        schedule: Schedule,
        imputed: float,
        seed: int,
    ) -> None:
        self.train, self.calibration, self.held_out = train, calibration, held_out
        self.procedure, self.schedule, self.imputed, self.seed = procedure, schedule, imputed, seed
        self._drawn: tuple[int, Array, Objective] | None = None
        self.phases = procedure.phases()
        self.ends = np.cumsum([phase.steps for phase in self.phases])
        # Scored at every so many steps of a phase, and at its end.
        self.scored = sorted(
            {
                int(end - phase.steps + done)
                for phase, end in zip(self.phases, self.ends, strict=True)
                for done in (*range(procedure.score_every, phase.steps, procedure.score_every),
                             phase.steps)
            }
        )  # fmt: skip

    # --- the state ---------------------------------------------------------------------------

    def initial(self, denoiser: NetworkDenoiser) -> EMState:
        """The state before the first step."""
        tau = jnp.zeros((self.schedule.n_steps, denoiser.n_arms))
        return EMState(
            phase=jnp.int32(0),
            training=initial_state(denoiser, self.procedure.training_of(0)),
            source=denoiser,
            tau=tau,
            best=denoiser,
            best_tau=tau,
            scores=jnp.full((len(self.scored), len(Score._fields)), jnp.nan),
        )

    def run(self, state: EMState) -> Iterator[EMState]:
        """Go on to the end, yielding a state after every block of steps."""
        while not self.finished(state):
            objective, config, until = self.stretch(state)
            for training in train(
                state.training, objective, config, self.schedule, self.seed, until
            ):
                state = self.after(state, training)
                yield state

    def stretch(self, state: EMState) -> tuple[Objective, TrainingConfig, int]:
        """What to minimise next, how, and up to which step: the next held-out score."""
        number = int(state.phase)
        # Drawn once a phase; the τ that it is drawn with tells whether it is still that draw.
        if self._drawn is None or self._drawn[0] != number or self._drawn[1] is not state.tau:
            self._drawn = (number, state.tau, self.objective(self.phases[number], number, state))
        done = int(state.training.step)
        until = next(step for step in self.scored if step > done)
        return self._drawn[2], self.procedure.training_of(number), until

    def after(self, state: EMState, training: TrainingState) -> EMState:
        """The state after a block of steps, scored and handed to the next phase where due."""
        step = int(training.step)
        state = eqx.tree_at(lambda s: s.training, state, training)
        if step in self.scored:
            state, tau = self._scored(state)
            if step == self.ends[int(state.phase)]:
                state = self._next_phase(state, tau)
        return state

    def result(self, state: EMState) -> tuple[NetworkDenoiser, Float[Array, "L K"]]:
        """The denoiser to use, and its calibrated errors."""
        if self.procedure.calibration == "gaussian":
            return state.best, self.calibrate(state.best, len(self.scored), final=True)
        return state.best, state.best_tau

    def finished(self, state: EMState) -> bool:
        """Whether all phases are done, or the held-out score has stopped to improve."""
        number, patience = int(state.phase), self.procedure.patience
        if number >= len(self.phases):
            return True
        if not patience or self.phases[number].kind == "plain":
            return False
        crps = np.asarray(state.scores)[:, 0]
        best_of_phase = [
            min(crps[i] for i, step in enumerate(self.scored) if end - phase.steps < step <= end)
            for phase, end in zip(self.phases[:number], self.ends[:number], strict=True)
        ]
        return number > patience and min(best_of_phase[-patience:]) > min(best_of_phase)

    def _scored(self, state: EMState) -> tuple[EMState, Float[Array, "L K"]]:
        """Calibrate and score the current weights; keep them if they are the best."""
        denoiser = state.training.trained
        number = self.scored.index(int(state.training.step))
        tau = self.calibrate(denoiser, number)
        got = self.score(denoiser, tau)
        scores = state.scores.at[number].set(jnp.asarray(got))
        best = number == 0 or got.crps < float(jnp.nanmin(state.scores[:, 0]))
        if best or not self.procedure.select:
            state = eqx.tree_at(lambda s: (s.best, s.best_tau), state, (denoiser, tau))
        return eqx.tree_at(lambda s: s.scores, state, scores), tau

    def _next_phase(self, state: EMState, tau: Float[Array, "L K"]) -> EMState:
        """Hand the trained weights to the next E-step; start Adam anew if asked to."""
        number = int(state.phase) + 1
        trained = state.training.trained
        # Only here: a run that goes on in the middle of a phase must draw with the same τ again.
        state = eqx.tree_at(
            lambda s: (s.phase, s.source, s.tau), state, (jnp.int32(number), trained, tau)
        )
        if self.procedure.optimiser == "warm" or number == len(self.phases):
            return state
        anew = initial_state(trained, self.procedure.training_of(number))
        anew = eqx.tree_at(lambda t: t.step, anew, state.training.step)
        return eqx.tree_at(lambda s: s.training, state, anew)

    # --- the E-step --------------------------------------------------------------------------

    def objective(self, phase: Phase, number: int, state: EMState) -> Objective:
        """What a phase minimises; draws the training tasks from their posterior if it must."""
        if self.is_exact:  # the posterior is the data, and its latents are their diffusion
            return Clean(self.train.mean)
        observations = self.observations(phase.sure)
        key = jax.random.fold_in(jax.random.key(self.seed), 1_000_000 + number)
        known = self.train
        if phase.kind in ("chain", "rediffuse") and self.procedure.tasks_per_round is not None:
            rows = jax.random.permutation(key, known.mean.shape[0])
            rows = rows[: self.procedure.tasks_per_round]
            known, observations = jax.tree.map(lambda leaf: leaf[rows], (known, observations))
        if phase.kind == "impute":
            mask = self.train.mask
            return Imputed(observations, jnp.where(mask, self.train.mean, self.imputed))
        if phase.kind == "gaussian":
            draws = draw_posterior(self.gaussian, self.train, self.procedure.draws, seed=key)
            return Reconstructed(
                observations, jnp.asarray(draws, jnp.float32), self.procedure.anchor
            )
        if phase.kind == "chain":
            return self._chain_latents(known, observations, phase, key, state)
        anchor = self.procedure.anchor if phase.kind == "rediffuse" else 0.0
        draws = self.prior(state.source, state.tau).posterior_sample(
            known,
            n=self.procedure.draws,
            sampler=self.procedure.sampler,
            steps=self._chain_length(),
            seed=key,
        )
        return Reconstructed(observations, jnp.asarray(draws), anchor)

    def _chain_latents(
        self,
        known: Evidence,
        observations: Observations,
        phase: Phase,
        key: KeyArray,
        state: EMState,
    ) -> Latents:
        n_tasks, n_arms = known.mean.shape
        examples = phase.steps * self.procedure.training.batch_size
        steps, latents = draw_latents(
            as_sampler(self.procedure.sampler),
            PaperSampler(noise="sampled"),
            key,
            state.source,
            self.schedule,
            state.tau,
            known,
            Limits(*map(jnp.float32, self.limits)),
            steps_to_keep(n_tasks, n_arms, self.schedule.n_steps, examples),
        )
        return Latents(observations, jnp.asarray(steps), jnp.asarray(latents))

    def observations(self, sure: float) -> Observations:
        """The training observations with their weights in the loss."""
        mask = self.train.mask.astype(jnp.float32)
        variance = self.train.std**2
        if self.procedure.weighting == "uniform":
            weight = mask
            # The paper has one σ for all; where they differ, a task's unobserved arms get its mean.
            typical = jnp.sum(mask * variance, 1) / jnp.maximum(jnp.sum(mask, 1), 1.0)
            divergence = jnp.where(self.train.mask, variance, typical[:, None])
        else:
            weight = mask / (variance + self.procedure.smallest_variance)
            # One mean for all, so that the learning rate means the same as without weights.
            scale = jnp.sum(mask) / jnp.sum(weight)
            weight, divergence = scale * weight, scale * jnp.ones_like(mask)
        if self.procedure.divergence == "observed":
            divergence = mask * divergence
        if sure == 0.0 or not bool((divergence > 0).any()):
            return Observations(self.train.mean, weight, None)
        return Observations(self.train.mean, weight, sure * divergence)

    @property
    def is_exact(self) -> bool:
        """Whether every arm of every training task is known without noise."""
        return bool(self.train.mask.all()) and not bool((self.train.std > 0).any())

    # --- calibration and score ---------------------------------------------------------------

    def calibrate(
        self, denoiser: NetworkDenoiser, number: int, final: bool = False
    ) -> Float[Array, "L K"]:
        """τ of a denoiser, from the calibration tasks; with more draws for the final one."""
        seed = self.seed + 1
        anchor = 1.0
        if self.procedure.calibration == "gaussian":
            draws = self._calibration_draws(FINAL_DRAWS) if final else self._gaussian_draws
            anchor = self.procedure.anchor
        else:
            filled = jnp.where(self.calibration.mask, self.calibration.mean, self.imputed)
            first = calibrate(denoiser, filled, schedule=self.schedule, seed=seed)
            draws = self.prior(denoiser, first).posterior_sample(
                self.calibration,
                sampler=self.procedure.sampler,
                steps=self._chain_length(),
                seed=jax.random.fold_in(jax.random.key(self.seed), 2_000_000 + number),
            )
        return calibrate_imperfect(
            denoiser, self.calibration, draws, schedule=self.schedule, anchor=anchor, seed=seed
        ).tau

    def score(self, denoiser: NetworkDenoiser, tau: Float[Array, "L K"]) -> Score:
        """Held-out score, standardised; drawn in one way, so that procedures can be compared."""
        return score(self.prior(denoiser, tau), self.held_out, seed=self.seed + 2)

    def prior(self, denoiser: NetworkDenoiser, tau: Float[Array, "L K"]) -> DiffusionPrior:
        """A denoiser and its errors as a prior in standardised units."""
        return DiffusionPrior(denoiser, tau, schedule=self.schedule, limits=self.limits)

    @cached_property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest mean reward that such a prior can explain."""
        mask, std = np.asarray(self.train.mask), np.asarray(self.train.std)
        telling = mask & (std <= 10.0)  # in units of the data's spread; weaker ones tell nothing
        return explainable(np.asarray(self.train.mean)[telling if telling.any() else mask])

    @cached_property
    def gaussian(self) -> Gaussian:
        """The factor Gaussian of the training tasks, with the rank that suits the others."""
        return self.factors.gaussian

    @cached_property
    def factors(self) -> FactorFit:
        """That Gaussian with its rank; may be set to one that was fitted before."""
        return fit_factor_gaussian(self.train, self.calibration)

    @cached_property
    def _gaussian_draws(self) -> np.ndarray:
        return self._calibration_draws(2)

    def _calibration_draws(self, draws: int) -> np.ndarray:
        return draw_posterior(self.gaussian, self.calibration, draws, seed=self.seed + 3)

    def _chain_length(self) -> int | None:
        wanted = self.procedure.sampler_steps
        return None if wanted is None else min(wanted, self.schedule.n_steps)


def run_side_by_side(
    learnings: Sequence[ImperfectLearning], states: Sequence[EMState]
) -> Iterator[list[EMState]]:
    """Several learnings to their ends, yielding their states after every stretch of steps.

    Those that are at the same step, with the same kind of objective and the same settings, take
    their gradient steps in one compiled run; E-steps, calibrations and scores come one by one.
    """
    now = list(states)
    while going := [i for i, learning in enumerate(learnings) if not learning.finished(now[i])]:
        # Those that are behind go first, so that others can join them.
        step = min(int(now[i].training.step) for i in going)
        groups: dict[object, list[int]] = {}
        stretches = {}
        for i in (i for i in going if int(now[i].training.step) == step):
            objective, config, until = stretches[i] = learnings[i].stretch(now[i])
            same = (layout(objective), layout(now[i].training), config, until)
            groups.setdefault(same, []).append(i)
        for members in groups.values():
            _, config, until = stretches[members[0]]
            trained = train_side_by_side(
                [now[i].training for i in members],
                [stretches[i][0] for i in members],
                config,
                learnings[members[0]].schedule,
                [learnings[i].seed for i in members],
                until,
            )
            for i, training in zip(members, trained, strict=True):
                now[i] = learnings[i].after(now[i], training)
            yield list(now)
