"""Our procedure: start from a Gaussian whose posterior is exact, then go on with the network's.

- Warm-up: exact posterior draws of the training tasks under a factor Gaussian fitted to the same
  data.
- E-step: posterior draws of the network, diffused forward.
- Calibration: on exact posterior draws of the calibration tasks under that Gaussian.

Each phase starts Adam anew, and the weights with the best held-out score are kept.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import jax.numpy as jnp
from jaxtyping import Array, Float

from diffts.diffusion.denoiser import Denoiser
from diffts.diffusion.exact import draw_posterior
from diffts.diffusion.prior import DiffusionPrior
from diffts.errors import InvalidInputError
from diffts.learning.calibration import calibrate_imperfect
from diffts.learning.objectives import Observations, Reconstructed
from diffts.learning.procedure import FINAL_DRAWS, Phase, Procedure, Standardised
from diffts.learning.training import TrainingConfig


@final
@dataclass(frozen=True)
class OurProcedure(Procedure):
    """Ours.

    Attributes:
        anchor: weight of the observations in the loss and in the calibration; the rest is the
            draws'.
    """

    selects: ClassVar[bool] = True
    calibrates_last: ClassVar[bool] = True
    starts_anew: ClassVar[bool] = True

    sampler: str = "moment-damped"
    sampler_steps: int | None = 50
    patience: int = 2
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(decay="cosine", ema_decay=0.995)
    )
    anchor: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.anchor <= 1:
            raise InvalidInputError(f"anchor: must be in [0, 1], got {self.anchor}")

    def warm_up(self, past: Standardised, phase: Phase, now: DiffusionPrior) -> Reconstructed:
        """Exact posterior draws under the factor Gaussian."""
        del now
        key = past.draw_key(phase)
        draws = draw_posterior(past.factors.gaussian, past.train, self.draws, seed=key)
        observations = Observations.of(past.train, phase.sure, everywhere=False)
        return Reconstructed(observations, jnp.asarray(draws, jnp.float32), self.anchor)

    def e_step(
        self, past: Standardised, phase: Phase, now: DiffusionPrior, tasks: Any
    ) -> Reconstructed:
        """Posterior draws of the network."""
        observations = Observations.of(past.train, phase.sure, everywhere=False)
        draws = self.draw(past, phase, now, tasks)
        return Reconstructed(observations.rows(tasks), draws, self.anchor)

    def calibrate(
        self, past: Standardised, denoiser: Denoiser, number: int, final: bool
    ) -> Float[Array, "L K"]:
        """On exact draws under the factor Gaussian; with more of them for the final errors."""
        del number
        return calibrate_imperfect(
            denoiser,
            past.calibration,
            past.calibration_draws(FINAL_DRAWS) if final else past.few_calibration_draws,
            schedule=past.schedule,
            anchor=self.anchor,
            seed=past.seed + 1,
        ).tau

    @property
    def samplers(self) -> set[str]:
        """Of the draws, and of the held-out score that chooses the weights."""
        return {self.sampler, "moment-damped"}

    def settings(self) -> dict[str, Any]:
        """Numbers, and words for what is done with them; published digests hold these."""
        return dataclasses.asdict(self) | {
            "start": "gaussian",
            "impute_with": 0.5,
            "divergence": "observed",
            "weighting": "uniform",
            "smallest_variance": 1e-4,
            "latents": "rediffuse",
            "calibration": "gaussian",
            "optimiser": "fresh",
            "select": True,
        }
