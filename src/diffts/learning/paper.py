"""The paper's procedure (Algorithm 'Diffusion Model Training from Imperfect Data').

- Warm-up: observations, with a constant in the missing entries.
- E-step: latents of posterior chains, the last step with fresh noise. A chain has L of them; of a
  whole training set that would be L × tasks × arms numbers. So the steps that will be trained on
  are drawn first, and only their latents are kept.
- Calibration in two stages: on imputed tasks as if exact, then on posterior draws.

One run of Adam goes through all phases, and the last weights are taken.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from diffts.chunks import in_host_chunks
from diffts.diffusion.denoiser import Denoiser
from diffts.diffusion.posterior import (
    SAMPLERS,
    PaperSampler,
    PosteriorSampler,
    limited_step,
    reverse_steps,
)
from diffts.diffusion.prior import DiffusionPrior
from diffts.errors import InvalidInputError
from diffts.evidence import Evidence
from diffts.learning.calibration import calibrate, calibrate_imperfect
from diffts.learning.objectives import Latents, Observations, Reconstructed
from diffts.learning.procedure import Phase, Procedure, Standardised
from diffts.seeding import KeyArray

#: Bytes of latents that are kept at most.
MOST_BYTES = 2**30


@final
@dataclass(frozen=True)
class PaperProcedure(Procedure):
    """The paper's; its variants (iPinYou, images) are values of it.

    Attributes:
        impute_with: what stands in missing entries, in the user's units.
        unscored: take no held-out scores. They choose nothing here, and take their time and a
            program with the network's Jacobian; the prior is the same.
    """

    warmup_steps: int = 15_000
    rounds: int = 3
    inner_steps: int | tuple[int, ...] = 3000
    sure: float | tuple[float, ...] = 0.1
    impute_with: float = 0.5
    unscored: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unscored and self.patience:
            raise InvalidInputError("unscored: patience looks at held-out scores")

    @property
    def takes_scores(self) -> bool:
        """Unless told not to."""
        return not self.unscored

    def warm_up(self, past: Standardised, phase: Phase, now: DiffusionPrior) -> Reconstructed:
        """Observations, and a constant where there is none."""
        del now
        observations = Observations.of(past.train, phase.sure, everywhere=True)
        return Reconstructed(observations, self._imputed(past, past.train)[None], anchor=1.0)

    def e_step(self, past: Standardised, phase: Phase, now: DiffusionPrior, tasks: Any) -> Latents:
        """Kept latents of posterior chains."""
        known: Evidence = jax.tree.map(lambda leaf: leaf[tasks], past.train)
        examples = phase.steps * self.training.batch_size
        n_tasks, n_arms = known.mean.shape
        kept = steps_to_keep(n_tasks, n_arms, now.schedule.n_steps, examples)
        key = past.draw_key(phase)
        steps, latents = draw_latents(now, key, known, kept, SAMPLERS[self.sampler])
        observations = Observations.of(past.train, phase.sure, everywhere=True).rows(tasks)
        return Latents(observations, jnp.asarray(steps), jnp.asarray(latents))

    def calibrate(
        self, past: Standardised, denoiser: Denoiser, number: int, final: bool
    ) -> Float[Array, "L K"]:
        """First on imputed tasks, then on draws from the posterior that this gives."""
        del final
        schedule, seed = past.schedule, past.seed + 1
        imputed = self._imputed(past, past.calibration)
        first = calibrate(denoiser, imputed, schedule=schedule, seed=seed)
        draws = past.prior(denoiser, first).posterior_sample(
            past.calibration,
            sampler=self.sampler,
            steps=self.chain_length(schedule),
            seed=past.key(2_000_000 + number),
        )
        return calibrate_imperfect(
            denoiser, past.calibration, draws, schedule=schedule, seed=seed
        ).tau

    def _imputed(self, past: Standardised, tasks: Evidence) -> Float[Array, "N K"]:
        constant = (self.impute_with - past.units.shift) / past.units.scale
        return jnp.where(tasks.mask, tasks.mean, constant)

    @property
    def samplers(self) -> set[str]:
        """Of the chains, of the latents that are kept, and of a score that stops the learning."""
        return {self.sampler, "paper-sampled-noise"} | (
            {"moment-damped"} if self.patience else set()
        )

    def settings(self) -> dict[str, Any]:
        """Numbers, and words for what is done with them; published digests hold these."""
        settings = dataclasses.asdict(self)
        del settings["unscored"]  # which changes nothing
        return settings | {
            "start": "impute",
            "divergence": "all",
            "weighting": "uniform",
            "smallest_variance": 1e-4,
            # 2: the kept latents are drawn when the chain is done, with other random numbers.
            "latents": "chain 2" if self.rounds else "chain",
            "anchor": 1.0,
            "calibration": "two-stage",
            "optimiser": "warm",
            "select": False,
        }


def steps_to_keep(n_tasks: int, n_arms: int, n_steps: int, examples: int) -> int:
    """Latents to keep of each task: as many as training will look at, within the memory.

    >>> steps_to_keep(5000, 200, 100, examples=3000 * 128)
    77
    >>> steps_to_keep(59_000, 784, 100, examples=3000 * 128)
    5
    """
    wanted = math.ceil(examples / n_tasks)
    affordable = MOST_BYTES // (4 * n_tasks * n_arms)
    return max(1, min(n_steps, wanted, affordable))


def draw_latents(
    prior: DiffusionPrior, key: KeyArray, evidence: Evidence, kept: int, sampler: PosteriorSampler
) -> tuple[Int[np.ndarray, "N kept"], Float[np.ndarray, "N kept K"]]:
    """Random steps (1 to L) of each task, and latents ``x̃_ℓ`` of a posterior chain there.

    The chain goes on with ``sampler``; each kept latent is drawn from the same ``x_{ℓ+1}`` with
    fresh noise. (The paper: predicted noise for the chain, fresh noise for the latents; otherwise
    the model is only confirmed in what it predicts.) Prior and evidence are standardised.
    """
    n_tasks, n_arms = evidence.mean.shape
    host: Evidence = jax.tree.map(np.asarray, evidence)

    def latents_of(row: Any) -> Any:
        tasks: Evidence = jax.tree.map(lambda leaf: leaf[row % n_tasks], host)
        return _latents(prior, key, row, tasks, kept, sampler)

    # A row's chain is in memory as a whole, beside the activations of one step.
    return in_host_chunks(latents_of, n_tasks, n_arms * max(1, prior.schedule.n_steps // 8))


@eqx.filter_jit
def _latents(
    prior: DiffusionPrior,
    key: KeyArray,
    row: Int[Any, " rows"],
    evidence: Evidence,
    kept: int,
    sampler: PosteriorSampler,
) -> tuple[Int[Array, "rows kept"], Float[Array, "rows kept K"]]:
    n_steps, fresh = prior.schedule.n_steps, PaperSampler(noise="sampled")
    reverse = reverse_steps(prior.schedule, prior.tau)  # noisiest step first
    limits = prior.units.limits

    def of_task(number: Int[Array, ""], task: Evidence) -> tuple[Array, Array]:
        chain_key, which_key, latent_key = jax.random.split(jax.random.fold_in(key, number), 3)
        which = 1 + jax.random.choice(which_key, n_steps, (kept,), replace=False)
        chain = prior.draw(chain_key, task, sampler=sampler, chain=True)  # x_0 first

        def latent(step: Int[Array, ""]) -> Float[Array, " K"]:
            here = jax.tree.map(lambda leaf: leaf[jnp.maximum(n_steps - 1 - step, 0)], reverse)
            above = chain[jnp.minimum(step + 1, n_steps)]
            step_key = jax.random.fold_in(latent_key, step)
            drawn = limited_step(fresh, step_key, above, here, prior.denoiser, task, limits)
            return jnp.where(step == n_steps, chain[n_steps], drawn)

        return which.astype(jnp.int32), jax.lax.map(latent, which, batch_size=8)

    return jax.vmap(of_task)(jnp.asarray(row), evidence)
