"""The paper's procedure (Algorithm 'Diffusion Model Training from Imperfect Data').

- Warm-up: observations, with a constant in the missing entries.
- E-step: latents of posterior chains, the last step with fresh noise.
- Calibration in two stages: on imputed tasks as if exact, then on posterior draws.

One run of Adam goes through all phases, and the last weights are taken.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diffts.diffusion.denoiser import Denoiser
from diffts.diffusion.posterior import SAMPLERS
from diffts.diffusion.prior import DiffusionPrior
from diffts.evidence import Evidence
from diffts.learning.calibration import calibrate, calibrate_imperfect
from diffts.learning.latents import draw_latents, steps_to_keep
from diffts.learning.objectives import Latents, Observations, Reconstructed
from diffts.learning.procedure import Phase, Procedure, Standardised


@final
@dataclass(frozen=True)
class PaperProcedure(Procedure):
    """The paper's; its variants (iPinYou, images) are values of it.

    Attributes:
        impute_with: what stands in missing entries, in the user's units.
    """

    warmup_steps: int = 15_000
    rounds: int = 3
    inner_steps: int | tuple[int, ...] = 3000
    sure: float | tuple[float, ...] = 0.1
    impute_with: float = 0.5

    def warm_up(self, past: Standardised, phase: Phase) -> Reconstructed:
        """Observations, and a constant where there is none."""
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
        return dataclasses.asdict(self) | {
            "start": "impute",
            "divergence": "all",
            "weighting": "uniform",
            "smallest_variance": 1e-4,
            "latents": "chain",
            "anchor": 1.0,
            "draws": 2,
            "calibration": "two-stage",
            "optimiser": "warm",
            "select": False,
        }
