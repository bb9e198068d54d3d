"""How each diffusion prior of the reproduction is learned."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import Any

from diffts.diffusion.posterior import SAMPLERS
from diffts.errors import InvalidInputError
from diffts.experiments.compare import Recipe
from diffts.experiments.reproduce.fingerprints import digest
from diffts.experiments.reproduce.profile import Profile
from diffts.experiments.reproduce.runs import DATA
from diffts.learning import PROCEDURES, Procedure, TrainingConfig
from diffts.problems import Problem

#: Noise levels σ̂ that are assumed in each problem; the main results' first.
NOISE_LEVELS: dict[str, tuple[float, ...]] = {
    "popular-niche": (0.1, 0.05),
    "bidding": (0.2, 0.1, 0.3),
    "maze": (0.1, 0.05),
    "labeled-arms-common": (0.1, 0.05),
}

_TRAINING = TrainingConfig(steps=15_000, decay="cosine", ema_decay=0.995)

#: From imperfect data, with the sampler that these three problems were measured with.
_IMPERFECT = dataclasses.replace(PROCEDURES["default"], sampler="moment-learned")

_LABELED_ARMS = (
    Recipe("residual-mlp", {"width": 256}, "clean", dataclasses.replace(_TRAINING, steps=6000)),
    _IMPERFECT,
)

#: Network and training of each problem; longer or wider is not better everywhere.
_OURS: dict[str, tuple[Recipe, Procedure]] = {
    "popular-niche": (
        Recipe("residual-mlp", {"width": 512}, "clean", _TRAINING),
        _IMPERFECT,
    ),
    "labeled-arms": _LABELED_ARMS,
    "labeled-arms-common": _LABELED_ARMS,
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

#: Versions of the policies that play sets of arms (mazes), to be raised, by hand, when what they
#: play or recommend changes. 2: posteriors of Gaussians and mixtures in full precision; DiffTS
#: recommends by a posterior mean.
SETS_VERSIONS = {"gts-full": 2, "gmmts": 2, "diffts": 2}


def policy_version(policy: str, single_arm: bool) -> int:
    """The version of a policy, as it plays single arms or sets of them."""
    return 1 if single_arm else SETS_VERSIONS.get(re.sub(r"-\d+$", "", policy), 1)


def sampler_versions(names: Iterable[str]) -> dict[str, int]:
    """The versions of some samplers."""
    return {name: SAMPLERS[name].version for name in sorted(names)}


def samplers_of(procedure: Procedure) -> set[str]:
    """The samplers that have a say in what a procedure learns."""
    used = {procedure.sampler}
    if procedure.latents == "chain":
        used.add("paper-sampled-noise")  # of the latents that are kept
    if procedure.select or procedure.patience:
        used.add("moment-damped")  # of the held-out score that chooses the weights
    return used


def digest_of(
    problem: Problem, data: str, learner: str, profile: Profile, fingerprints: dict[str, str]
) -> str:
    """Twelve letters that change with how a prior is learned: a changed recipe is learned anew.

    Args:
        problem: whose tasks it is learned from.
        data: how they are observed, a key of ``DATA``.
        learner: by which procedure.
        profile: with which sizes.
        fingerprints: of the problem's sets of tasks.
    """
    recipe = recipe_for(problem, profile)
    how: Any = recipe.training if data == "perfect" else procedure_for(problem, learner, profile)
    samplers = samplers_of(how) if isinstance(how, Procedure) else set()
    exact = learner in CALIBRATED_ON_EXACT
    return digest(
        [
            recipe.network_for(problem),
            how,
            exact,
            digest_of_data(problem, data, fingerprints, ("train", "calibration")),
            FITS_VERSION,
            profile.sizes,
            sampler_versions(samplers),
        ]
    )


def digest_of_baseline(
    problem: Problem, policy: str, data: str, profile: Profile, fingerprints: dict[str, str]
) -> str:
    """The same for a policy that is not DiffTS; UCB1 learns nothing from past tasks."""
    used = () if policy == "ucb1" else ("train",)
    learned_from = digest_of_data(problem, data, fingerprints, used)
    return digest([policy, learned_from, FITS_VERSION, profile.sizes])


def digest_of_data(
    problem: Problem, data: str, fingerprints: dict[str, str], sets: Iterable[str]
) -> str:
    """What a prior is learned from: the problem's law, the tasks, and how they are observed."""
    corruption = DATA[data]
    return digest(
        [
            problem.name,
            problem.version,
            {name: fingerprints[name] for name in sets},
            corruption,
            None if corruption is None else corruption.version,
        ]
    )


def digest_of_run(
    learned: str,
    played_on: str,
    samplers: Iterable[str] = (),
    rewards_seed: int = 0,
    version: int = 1,
) -> str:
    """What a run's result follows from.

    Args:
        learned: digest of the prior or of the baseline that plays.
        played_on: fingerprint of the tasks.
        samplers: names of the posterior samplers that it draws with.
        rewards_seed: seed of the rewards.
        version: of the policy.
    """
    newer = [version] if version > 1 else []
    recipe = digest([learned, played_on, sampler_versions(samplers), *newer])
    return f"{recipe}-rewards{rewards_seed}" if rewards_seed else recipe
