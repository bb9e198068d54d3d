"""How each diffusion prior of the reproduction is learned."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

from diffts.errors import InvalidInputError
from diffts.experiments.compare import Recipe
from diffts.experiments.reproduce.profile import Profile
from diffts.experiments.reproduce.runs import DATA
from diffts.learning import PROCEDURES, Procedure, TrainingConfig
from diffts.problems import Problem

#: Noise levels σ̂ that are assumed in each problem; the main results' first.
NOISE_LEVELS: dict[str, tuple[float, ...]] = {
    "popular-niche": (0.1, 0.05),
    "bidding": (0.2, 0.1, 0.3),
    "maze": (0.1, 0.05),
    "labeled-arms": (0.1, 0.05),
}

_TRAINING = TrainingConfig(steps=15_000, decay="cosine", ema_decay=0.995)

#: From imperfect data, with the sampler that these three problems were measured with.
_IMPERFECT = dataclasses.replace(PROCEDURES["default"], sampler="moment-learned")

#: Network and training of each problem; longer or wider is not better everywhere.
_OURS: dict[str, tuple[Recipe, Procedure]] = {
    "popular-niche": (
        Recipe("residual-mlp", {"width": 512}, "clean", _TRAINING),
        _IMPERFECT,
    ),
    "labeled-arms": (
        Recipe("residual-mlp", {"width": 256}, "clean", dataclasses.replace(_TRAINING, steps=6000)),
        _IMPERFECT,
    ),
    "bidding": (
        Recipe("residual-mlp", {"width": 512}, "residual", _TRAINING),
        # The arms are so correlated that draws are better than noisy observations of single arms.
        dataclasses.replace(
            PROCEDURES["default"],
            warmup_steps=3000,
            rounds=10,
            inner_steps=1000,
            anchor=0.05,
            patience=3,
        ),
    ),
    "maze": (
        Recipe(
            "unet-2d",
            {"channels": (64, 128), "folds": 1, "compute": "bfloat16"},
            "clean",
            dataclasses.replace(_TRAINING, steps=8000),
        ),
        dataclasses.replace(
            _IMPERFECT, warmup_steps=6000, inner_steps=1500, draws=1, score_every=6000
        ),
    ),
}
_TINY: dict[str, dict[str, Any]] = {
    "residual-mlp": {"width": 16, "n_blocks": 1},
    "unet-2d": {"channels": (4,), "folds": 1, "embedding_size": 8, "compute": "float32"},
}

_PAPER = PROCEDURES["paper"]
_WARMUP_ONLY = dataclasses.replace(_PAPER, rounds=0)

#: The paper's procedure with one thing changed, for its ablations.
ABLATED: dict[str, Procedure] = {
    "paper": _PAPER,
    "paper, λ = 0": dataclasses.replace(_PAPER, sure=0.0),
    "paper, no EM": PROCEDURES["paper-without-em"],
    **{
        f"warm-up, λ = {weight:g}": dataclasses.replace(_WARMUP_ONLY, sure=weight)
        for weight in (0.0, 0.1, 0.3, 1.0)
    },
}
#: Where the paper calibrates on exact tasks, since its own calibration fails there.
CALIBRATED_ON_EXACT = ("paper, no EM",)


def recipe_for(problem: Problem, profile: Profile) -> Recipe:
    """Network and training for a problem, with the sizes of a profile."""
    recipe, procedure = _OURS[problem.name]
    options = dict(recipe.options or {})
    if recipe.network == "unet-2d":
        # Not the values of pixels that never change: they are standardised by the data, and
        # networks with different ones could not be played side by side.
        options["background"] = None
    if profile.tiny:
        options |= _TINY[str(recipe.network)]
    steps = max(1, round(profile.length * recipe.training.steps))
    return dataclasses.replace(
        recipe,
        options=options,
        training=dataclasses.replace(recipe.training, steps=steps),
        procedure=profile.fitted(procedure),
    )


def procedure_for(problem: Problem, learner: str, profile: Profile) -> Procedure:
    """How to learn from imperfect data: ours, or the paper's with one thing changed."""
    if learner == "ours":
        return recipe_for(problem, profile).procedure
    if learner not in ABLATED:
        raise InvalidInputError(f"learner: unknown {learner!r}")
    return profile.fitted(ABLATED[learner])


#: To be raised when a fit of the baselines or of the factor Gaussian changes.
FITS_VERSION = 1


def digest_of(problem: Problem, data: str, learner: str, profile: Profile) -> str:
    """Twelve letters that change with how a prior is learned: a changed recipe is learned anew."""
    recipe = recipe_for(problem, profile)
    how: Any = recipe.training if data == "perfect" else procedure_for(problem, learner, profile)
    exact = learner in CALIBRATED_ON_EXACT
    return digest(
        [recipe.network_for(problem), how, exact, DATA[data], FITS_VERSION, profile.sizes]
    )


def digest_of_baseline(policy: str, data: str, profile: Profile) -> str:
    """The same for a policy that is not DiffTS."""
    return digest([policy, DATA[data], FITS_VERSION, profile.sizes])


def digest(content: list[Any]) -> str:
    """Twelve letters for plain values and dataclasses."""
    plain = [dataclasses.asdict(v) if dataclasses.is_dataclass(v) else v for v in content]  # type: ignore[arg-type]
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:12]
