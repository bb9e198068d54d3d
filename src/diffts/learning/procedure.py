"""How to learn from imperfect data: the phases, and the presets of the paper beside our own."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from diffts.diffusion.posterior import as_sampler
from diffts.errors import InvalidInputError
from diffts.learning.training import MOST_STEPS, TrainingConfig
from diffts.validation import one_of, whole_number


class Phase(NamedTuple):
    """One stretch of training.

    Attributes:
        name: for people.
        kind: where its latents come from: 'impute', 'gaussian', 'chain', 'rediffuse' or 'plain'.
        steps: gradient steps.
        sure: λ, the weight of the divergence term.
    """

    name: str
    kind: str
    steps: int
    sure: float


@dataclass(frozen=True)
class Procedure:
    """Learning from incomplete and noisy data. The defaults are ours; see ``PROCEDURES``.

    Attributes:
        start: what the warm-up trains on: 'gaussian' (exact posterior draws under a factor
            Gaussian fitted to the same data) or 'impute' (observations, with ``impute_with`` in
            the missing entries; the paper's).
        impute_with: that constant, in the user's units.
        warmup_steps: gradient steps of the warm-up.
        rounds: repeats of posterior sampling and loss minimisation.
        inner_steps: gradient steps of each repeat; one number, or one for each repeat.
        tasks_per_round: training tasks to draw in a repeat, chosen at random; None is all. A
            repeat reads ``inner_steps * batch_size`` latents: of many tasks, most of what is
            drawn is never read.
        final_steps: at last, so many plain steps on reconstructions of the training tasks.
        sure: λ of the divergence term; one number, or one for the warm-up and for each repeat.
        divergence: arms that the term runs over: 'observed' or 'all' (the paper's, which at half
            missing counts double).
        weighting: of squared errors: 'uniform', or 'inverse-variance' for noise that differs from
            arm to arm.
        smallest_variance: added to variances before they are inverted, standardised.
        latents: of the repeats: 'rediffuse' (posterior draws, diffused forward) or 'chain'
            (latents of posterior chains, the last step with fresh noise; the paper's).
        anchor: with 'gaussian' and 'rediffuse', the weight of the observations in the loss and in
            the calibration; the rest is the draws'.
        draws: posterior draws of each task, with 'gaussian' and 'rediffuse'.
        sampler, sampler_steps: the posterior sampler of the repeats, and its chain's length.
        calibration: 'gaussian' (on exact posterior draws under the factor Gaussian) or
            'two-stage' (first on imputed tasks as if clean, then on posterior draws; the paper's).
        optimiser: 'fresh' (each phase starts Adam and its learning-rate schedule anew, from the
            averaged weights) or 'warm' (one run of Adam through all phases).
        select: keep the weights with the best held-out score, not the last ones.
        patience: stop after so many repeats without a better held-out score; 0 is never.
        score_every: gradient steps between two held-out scores; each phase ends with one, too.
        training: batch size, learning rate, moving average (its number of steps is not used).
    """

    start: str = "gaussian"
    impute_with: float = 0.5
    warmup_steps: int = 9000
    rounds: int = 2
    inner_steps: int | tuple[int, ...] = 2000
    tasks_per_round: int | None = None
    final_steps: int = 0
    sure: float | tuple[float, ...] = 0.0
    divergence: str = "observed"
    weighting: str = "uniform"
    smallest_variance: float = 1e-4
    latents: str = "rediffuse"
    anchor: float = 0.5
    draws: int = 2
    sampler: str = "moment-damped"
    sampler_steps: int | None = 50
    calibration: str = "gaussian"
    optimiser: str = "fresh"
    select: bool = True
    patience: int = 2
    score_every: int = 3000
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(decay="cosine", ema_decay=0.995)
    )

    def __post_init__(self) -> None:
        one_of("start", self.start, ("gaussian", "impute"))
        one_of("divergence", self.divergence, ("observed", "all"))
        one_of("weighting", self.weighting, ("uniform", "inverse-variance"))
        one_of("latents", self.latents, ("rediffuse", "chain"))
        one_of("calibration", self.calibration, ("gaussian", "two-stage"))
        one_of("optimiser", self.optimiser, ("fresh", "warm"))
        as_sampler(self.sampler)
        for name, least in (("warmup_steps", 1), ("rounds", 0), ("final_steps", 0), ("draws", 1),
                            ("patience", 0), ("score_every", 1)):  # fmt: skip
            whole_number(name, getattr(self, name), least, MOST_STEPS)
        for steps in self._inner_steps():
            whole_number("inner_steps", steps, 1, MOST_STEPS)
        if isinstance(self.inner_steps, tuple) and len(self.inner_steps) != self.rounds:
            raise InvalidInputError(
                f"inner_steps: {len(self.inner_steps)} values for {self.rounds} repeats"
            )
        if self.tasks_per_round is not None:
            whole_number("tasks_per_round", self.tasks_per_round, 1)
        if not 0 <= self.anchor <= 1:
            raise InvalidInputError(f"anchor: must be in [0, 1], got {self.anchor}")
        if not self.smallest_variance > 0:
            raise InvalidInputError(
                f"smallest_variance: must be above 0, got {self.smallest_variance}; an exact "
                "observation would weigh infinitely much"
            )
        if isinstance(self.sure, tuple) and len(self.sure) != 1 + self.rounds:
            raise InvalidInputError(
                f"sure: {len(self.sure)} values for a warm-up and {self.rounds} repeats"
            )
        if any(not 0 <= value < float("inf") for value in self._sure()):
            raise InvalidInputError(f"sure: must be at least 0 and finite, got {self.sure}")
        whole_number(
            "steps", sum(phase.steps for phase in self.phases()), 1, MOST_STEPS
        )  # of all phases: they are counted through

    def _sure(self) -> tuple[float, ...]:
        if isinstance(self.sure, tuple):
            return self.sure
        return (self.sure,) * (1 + self.rounds)

    def _inner_steps(self) -> tuple[int, ...]:
        if isinstance(self.inner_steps, tuple):
            return self.inner_steps
        return (self.inner_steps,) * max(1, self.rounds)

    def scaled(self, ratio: float) -> Procedure:
        """The same procedure with all its phases longer or shorter.

        >>> Procedure().scaled(0.01).phases()[0].steps
        90
        """
        if not ratio > 0:
            raise InvalidInputError(f"ratio: must be above 0, got {ratio}")

        def longer(steps: int) -> int:
            return max(1, round(ratio * steps))

        inner = tuple(longer(steps) for steps in self._inner_steps())
        return dataclasses.replace(
            self,
            warmup_steps=longer(self.warmup_steps),
            inner_steps=inner if isinstance(self.inner_steps, tuple) else inner[0],
            final_steps=longer(self.final_steps) if self.final_steps else 0,
            score_every=longer(self.score_every),
        )

    @property
    def samplers(self) -> set[str]:
        """Names of the samplers that have a say in what is learned."""
        used = {self.sampler}
        if self.latents == "chain":
            used.add("paper-sampled-noise")  # of the latents that are kept
        if self.select or self.patience:
            used.add("moment-damped")  # of the held-out score that chooses the weights
        return used

    def settings(self) -> dict[str, Any]:
        """All that the procedure is, as plain values: for metadata and digests."""
        return dataclasses.asdict(self)

    def phases(self) -> list[Phase]:
        """The phases in their order.

        >>> [phase.name for phase in PROCEDURES["ipinyou"].phases()]
        ['warm-up', 'round 1', 'round 2', 'round 3', 'final']
        """
        sure, inner = self._sure(), self._inner_steps()
        phases = [Phase("warm-up", self.start, self.warmup_steps, sure[0])]
        for i in range(self.rounds):
            phases.append(Phase(f"round {i + 1}", self.latents, inner[i], sure[1 + i]))
        if self.final_steps:
            phases.append(Phase("final", "plain", self.final_steps, 0.0))
        return phases

    def training_of(self, phase: int) -> TrainingConfig:
        """Adam's settings in a phase: of its own length, or of the whole when it is one run."""
        phases = self.phases()
        steps = sum(p.steps for p in phases) if self.optimiser == "warm" else phases[phase].steps
        return dataclasses.replace(self.training, steps=steps)


_PAPER = Procedure(
    start="impute",
    warmup_steps=15_000,
    rounds=3,
    inner_steps=3000,
    sure=0.1,
    divergence="all",
    latents="chain",
    anchor=1.0,
    sampler="paper",
    sampler_steps=None,
    calibration="two-stage",
    optimiser="warm",
    select=False,
    patience=0,
    training=TrainingConfig(),
)

PROCEDURES: dict[str, Procedure] = {
    "default": Procedure(),
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
    if isinstance(procedure, Procedure):
        return procedure
    return PROCEDURES[one_of("procedure", procedure, PROCEDURES)]
