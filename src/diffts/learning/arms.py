"""Learning for the network 'arms', from exact means and from evidence: one procedure.

The network is asked what it thinks of a task given any mixture of latent and evidence. So it is
trained on such mixtures of tasks ``x_0``: of past tasks, where they are known exactly; else of
draws from their posterior, first under the factor Gaussian (warm-up), then under the network
itself. Half of the observations are random patterns, half are histories of play: by the Gaussian
in the warm-up, by the network later. Noise levels of all sizes are mixed, since nobody says which
the next task has.

The weights that play best on held-out tasks are kept. (Scores of single entries do not rank
networks as decisions do.)
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from diffts.diffusion.denoiser import Denoiser
from diffts.diffusion.exact import draw_posterior
from diffts.diffusion.networks.arm_network import LEVELS, ArmDenoiser
from diffts.diffusion.observation import Observation
from diffts.diffusion.prior import DiffusionPrior
from diffts.diffusion.schedule import NoiseLevel
from diffts.errors import InvalidInputError
from diffts.learning.calibration import calibrate, calibrate_imperfect
from diffts.learning.fits import FactorFit, fit_factor_gaussian
from diffts.learning.held_out import HeldOut, Score
from diffts.learning.play import Playable, Played, play, turns_until
from diffts.learning.procedure import Passes, Phase, Procedure, Standardised
from diffts.learning.training import Objective, TrainingConfig, random_batch
from diffts.seeding import KeyArray
from diffts.validation import number_between, whole_number

#: Standard deviations of one reward, in those of a task's means: from next to none to nearly all.
LEAST_NOISE, MOST_NOISE = 0.1, 3.0
#: Weights of the standard deviation's and of the quantiles' losses, beside the mean's.
SPREAD_WEIGHT, QUANTILE_WEIGHT = 0.3, 0.3


@dataclass(frozen=True)
class DecayedTraining(TrainingConfig):
    """Adam with weight decay, and with gradients of bounded length.

    Attributes:
        weight_decay: share of the weights that a unit of learning rate takes away.
    """

    weight_decay: float = 0.1

    def optimiser(self) -> optax.GradientTransformation:
        """The Gaussian below, which is not trained, does not decay."""

        def trained(weights: Any) -> Any:
            return jax.tree_util.tree_map_with_path(
                lambda path, _: ".base" not in jax.tree_util.keystr(path), weights
            )

        rate = optax.cosine_decay_schedule(self.learning_rate, max(1, self.steps))
        return optax.chain(
            optax.clip_by_global_norm(1.0),
            optax.adamw(rate, self.beta1, self.beta2, weight_decay=self.weight_decay, mask=trained),
        )


class MergedTasks(Objective):
    """Mixtures of latent and evidence of tasks ``x_0``, and what they leave open of the task.

    Errors are counted in the Gaussian's standard deviations, so that all precisions weigh the same:
    squared error of the mean, the Gaussian log loss of the standard deviation, and the pinball loss
    of each quantile. Evidence and errors are of arms that the past task has observed: what was
    drawn of the others has the law of what drew it, and would teach no other.
    """

    draws: Float[Array, "D N K"]
    known: Bool[Array, "N K"]
    play_rows: Int[Array, " P"]  # which tasks were played; of draw 0
    play_mean: Float[Array, "T P K"]
    play_precision: Float[Array, "T P K"]
    play_share: float = eqx.field(static=True)

    def __call__(
        self, denoiser: Any, levels: NoiseLevel, key: KeyArray, batch_size: int
    ) -> Float[Array, ""]:
        """Mean loss of random tasks under random mixtures."""
        n_draws, n_tasks, n_arms = self.draws.shape
        keys = jax.random.split(key, 8)
        rows, which, noise_key = random_batch(keys[0], n_tasks, levels.step.shape[0], batch_size)
        draw = jax.random.randint(keys[1], (batch_size,), 0, n_draws)
        precision = random_precisions(keys[2], batch_size, n_arms)
        turn, played = (
            jax.random.randint(k, (batch_size,), 0, n)
            for k, n in zip(keys[3:5], self.play_mean.shape[:2], strict=True)
        )
        is_play = jax.random.bernoulli(keys[5], self.play_share, (batch_size, 1))
        draw = jnp.where(is_play[:, 0], 0, draw)
        rows = jnp.where(is_play[:, 0], self.play_rows[played], rows)
        x_0, known = self.draws[draw, rows], self.known[rows]
        precision = jnp.where(known, precision, 0.0)
        mean = x_0 + jax.random.normal(keys[6], x_0.shape) * _std(precision)
        evidence = Observation(
            jnp.where(is_play, self.play_mean[turn, played], jnp.where(precision > 0, mean, 0.0)),
            jnp.where(is_play, self.play_precision[turn, played], precision),
        )
        level = jax.tree.map(lambda leaf: leaf[which][:, None], levels)
        noise = jax.random.normal(noise_key, x_0.shape)
        latent = jax.vmap(Observation.of_latent)(level.signal * x_0 + level.noise * noise, level)
        has_latent = jax.random.bernoulli(keys[7], 0.5, (batch_size, 1))
        latent = Observation(latent.mean, jnp.where(has_latent, latent.precision, 0.0))
        losses = jax.vmap(loss_of_marginals, in_axes=(None, 0, 0))(
            denoiser, x_0, jax.vmap(Observation.merged)(evidence, latent)
        )
        return jnp.sum(jnp.where(known, losses, 0.0)) / jnp.maximum(jnp.sum(known), 1.0)


def loss_of_marginals(
    denoiser: ArmDenoiser, x_0: Float[Array, " K"], observation: Observation
) -> Float[Array, " K"]:
    """How far the network's answer is from one task, arm by arm."""
    marginals, scale = denoiser.answer(observation)
    assert marginals.quantiles is not None
    error = (x_0 - marginals.mean) / scale
    log_ratio = jnp.log(marginals.std / scale)
    # The spread learns from the error of the mean, and does not move it.
    squared = jnp.minimum(jax.lax.stop_gradient(error) ** 2, 100.0)
    spread = 0.5 * squared * jnp.exp(-2.0 * log_ratio) + log_ratio
    level = jnp.asarray(LEVELS)
    above = (x_0[:, None] - marginals.quantiles) / scale[:, None]
    pinball = jnp.sum(jnp.maximum(level * above, (level - 1.0) * above), axis=1)
    return error**2 + SPREAD_WEIGHT * spread + QUANTILE_WEIGHT * pinball


def random_noise(key: KeyArray, count: int) -> Float[Array, " n"]:
    """Noise levels of tasks, of all sizes alike."""
    low, high = np.log(LEAST_NOISE), np.log(MOST_NOISE)
    return jnp.exp(jax.random.uniform(key, (count,), minval=low, maxval=high))


def random_precisions(key: KeyArray, count: int, n_arms: int) -> Float[Array, "n K"]:
    """Precisions of random patterns: few or many arms, most pulled once, some up to 1000 times."""
    keys = jax.random.split(key, 6)
    one = (count, 1)
    seen = jnp.exp(jax.random.uniform(keys[0], one) * np.log(max(n_arms, 2))) / n_arms
    seen = jnp.where(jax.random.bernoulli(keys[1], 0.1, one), 0.0, seen)
    often = jax.random.uniform(keys[2], one) ** 2
    most = jnp.where(
        jax.random.bernoulli(keys[3], jnp.broadcast_to(often, (count, n_arms))),
        np.log(1000.0) * jax.random.uniform(jax.random.fold_in(keys[2], 1), one),
        0.7,
    )
    pulls = jnp.floor(jnp.exp(jax.random.uniform(keys[4], (count, n_arms)) * most))
    mask = jax.random.uniform(jax.random.fold_in(keys[0], 1), (count, n_arms)) < seen
    return jnp.where(mask, pulls, 0.0) / random_noise(keys[5], count)[:, None] ** 2


def _std(precision: Float[Array, "*n"]) -> Float[Array, "*n"]:
    return 1.0 / jnp.sqrt(jnp.where(precision > 0, precision, 1.0))


@final
@dataclass(frozen=True)
class ArmProcedure(Procedure):
    """How the network 'arms' learns, from either kind of data.

    Attributes:
        most_factors: rank of the Gaussian below, at most; a pass costs K r² operations.
        play_tasks: training tasks that are played in each phase.
        play_rounds: rounds of each; and of the held-out tasks that judge.
        judged_tasks: how many judge.
        play_share: how many of the observations to learn from are of such histories.
        actions: what play plays, where that is not one arm.
    """

    selects: ClassVar[bool] = True
    judges_draws: ClassVar[bool] = False
    calibrates_last: ClassVar[bool] = True
    starts_anew: ClassVar[bool] = True
    judged_by: ClassVar[str] = "regret"

    warmup_steps: int = 3000
    rounds: int = 4
    inner_steps: int | tuple[int, ...] = 3000
    sampler: str = "merged"
    sampler_steps: int | None = 20
    score_every: int = 3000
    training: TrainingConfig = field(
        default_factory=lambda: DecayedTraining(
            batch_size=256, learning_rate=1e-3, decay="cosine", ema_decay=0.995
        )
    )
    most_factors: int = 64
    play_tasks: int = 5000
    play_rounds: int = 1000
    judged_tasks: int = 200
    play_share: float = 0.7
    actions: Playable | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("most_factors", "play_tasks", "play_rounds", "judged_tasks"):
            whole_number(name, getattr(self, name), 1)
        number_between("play_share", self.play_share, 0.0, 1.0)
        if self.sampler != "merged" or self.final_steps or self.sure:
            raise InvalidInputError(
                "procedure 'arms': draws by 'merged', and has no final_steps and no sure"
            )

    def scaled_to(self, steps: int) -> ArmProcedure:
        """The same procedure with so many gradient steps in all."""
        whole = sum(phase.steps for phase in self.phases())
        scaled = self.scaled(whole_number("steps", steps, 1) / whole)
        assert isinstance(scaled, ArmProcedure)
        return scaled

    def gaussian_below(self, past: Standardised) -> FactorFit:
        """The Gaussian that the network goes on from, standardised."""
        most, given = self.most_factors, past.given_factors
        if given is not None and given.rank <= most:
            return given
        if most not in past.below:
            past.below[most] = fit_factor_gaussian(past.train, past.calibration, most)
        return past.below[most]

    def on_exact(self, past: Standardised, phase: Phase, now: DiffusionPrior) -> MergedTasks:
        """The tasks themselves."""
        tasks = jnp.asarray(past.train.mean, jnp.float32)[None]
        return self._merged(past, phase, now, tasks, past.train.mask)

    def warm_up(self, past: Standardised, phase: Phase, now: DiffusionPrior) -> MergedTasks:
        """Exact posterior draws under the factor Gaussian."""
        gaussian, key = past.factors.gaussian, past.draw_key(phase)
        draws = draw_posterior(gaussian, past.train, self.draws, seed=key)
        return self._merged(past, phase, now, jnp.asarray(draws, jnp.float32), past.train.mask)

    def e_step(
        self, past: Standardised, phase: Phase, now: DiffusionPrior, tasks: Any
    ) -> MergedTasks:
        """Posterior draws of the network."""
        draws = self.draw(past, phase, now, tasks)
        return self._merged(past, phase, now, draws, past.train.mask[tasks])

    def _merged(
        self,
        past: Standardised,
        phase: Phase,
        now: DiffusionPrior,
        draws: Float[Array, "D N K"],
        known: Bool[Array, "N K"],
    ) -> MergedTasks:
        """Tasks, and histories of some of them as the prior of the phase's beginning plays."""
        key = past.key(2_000_000 + phase.number)  # not that of the draws
        rows = jax.random.permutation(key, draws.shape[1])[: self.play_tasks]
        tasks, play_key = draws[0, rows], jax.random.fold_in(key, 1)
        played = self.played(now.denoiser, tasks, known[rows], play_key)
        return MergedTasks(draws, known, rows, played.mean, played.precision, self.play_share)

    def played(
        self,
        denoiser: Denoiser,
        tasks: Float[Array, "N K"],
        known: Bool[Array, "N K"],
        key: KeyArray,
    ) -> Played:
        """Histories of some tasks, each with a random noise level.

        Of single arms only known ones are pulled. A set gives a reward of each of its arms, as it
        will in play: evidence of half a path is what the network is never asked about.
        """
        assert isinstance(denoiser, ArmDenoiser)
        among = known if self.actions is None else None
        noise_key, play_key = jax.random.split(key)
        noise = random_noise(noise_key, len(tasks))
        # Turns grow geometrically; every third of them tells enough.
        return play(
            denoiser, tasks, noise, play_key, self.play_rounds, self.actions, among, every=3
        )

    def calibrate(
        self, past: Standardised, denoiser: Denoiser, number: int, final: bool
    ) -> Float[Array, "L K"]:
        """Errors of the network without evidence, for samplers that need them; only at the end."""
        del number
        if not final:
            return jnp.zeros((past.schedule.n_steps, denoiser.n_arms))
        if past.is_judged_exactly:
            data = past.calibration.mean
            return calibrate(denoiser, data, schedule=past.schedule, seed=past.seed + 1)
        return calibrate_imperfect(
            denoiser,
            past.calibration,
            past.few_calibration_draws,
            schedule=past.schedule,
            anchor=0.5,
            seed=past.seed + 1,
        ).tau

    def passes(self, past: Standardised) -> Passes:
        """Play and draws before a phase, play for a score; no pass goes backwards."""
        turns = len(turns_until(self.play_rounds))
        tasks, others = len(past.train.mean), len(past.calibration.mean)
        drawn = (self.sampler_steps or 100) * self.draws * min(tasks, self.tasks_per_round or tasks)
        drawn = 0 if past.is_exact else drawn
        played = turns * min(self.play_tasks, tasks)
        judged = turns * min(self.judged_tasks, others)
        return Passes(played, drawn + played, judged, past.schedule.n_steps * 2 * others)

    def score(self, past: Standardised, held_out: HeldOut | None, prior: DiffusionPrior) -> Score:
        """Regret of a round on held-out tasks, among the arms that were observed of them.

        Where these were observed with noise, what is played are draws under the factor Gaussian:
        a judge that is kinder to what a Gaussian drew.
        """
        del held_out
        some = slice(None, self.judged_tasks)
        exact = past.is_judged_exactly
        tasks = past.calibration.mean if exact else past.few_calibration_draws[0]
        played = self.played(
            prior.denoiser,
            jnp.asarray(tasks[some], jnp.float32),
            jnp.asarray(past.calibration.mask[some]),
            past.key(3_000_000),
        )
        regret = np.asarray(played.regret, np.float64)
        return Score(float(regret.mean()), float("nan"), float(regret.std() / np.sqrt(len(regret))))

    @property
    def samplers(self) -> set[str]:
        """That of the draws."""
        return {self.sampler}

    def settings(self) -> dict[str, Any]:
        """All that it is."""
        plain = dataclasses.replace(self, actions=None)
        actions = None if self.actions is None else str(self.actions)
        return dataclasses.asdict(plain) | {"kind": "arms", "actions": actions}
