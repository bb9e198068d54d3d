"""What is to be learned, how, and what is to be played: the atoms that experiments share."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

from diffts.diffusion.units import Units
from diffts.experiments.learning_plan import LearningPlan
from diffts.learning import PROCEDURES, OurProcedure, PaperProcedure, Procedure, TrainingConfig
from diffts.problems import Corruption, get_problem
from diffts.reproduction.profile import Profile

IMPERFECT = Corruption(missing=0.5, noise=0.1)
#: What priors are learned from; None is exact mean rewards, 'perfect data' in the paper's words.
DATA: dict[str, Corruption | None] = {
    "perfect": None,
    "imperfect": IMPERFECT,
    "noisy": Corruption(missing=0.0, noise=0.1),
    "incomplete": Corruption(missing=0.5, noise=0.0),
}

#: Learners of the evaluation: our network and learning, and the paper's own, all of its appendix.
ARMS, APPENDIX = "arms", "appendix"
#: Test tasks of the evaluation: as many as the paper has; or all of them, of which those are the
#: first.
FRESH, MANY = "fresh", "many"
#: UCB on Maze as the paper starts it: with three paths that cover all edges (ours are two).
THREE_PATHS = "ucb1-three-paths"


@dataclasses.dataclass(frozen=True, order=True)
class PriorSpec:
    """A diffusion prior: of which problem, from which data, how, and with which seed."""

    problem: str
    data: str
    learner: str = "ours"
    seed: int = 0

    @property
    def name(self) -> str:
        """Its name in the store, among the priors of its problem."""
        return f"{self.data}-{slug(self.learner)}-seed{self.seed}"

    @property
    def key(self) -> str:
        """Place of its note in the store."""
        return f"{self.problem}/times/{self.name}"

    @property
    def is_exact(self) -> bool:
        """Whether it is learned from exact mean rewards."""
        return DATA[self.data] is None

    @property
    def fit(self) -> str:
        """The fit that it starts from; our procedures have one, the older for imperfect data."""
        if self.learner == ARMS:
            return "below"
        return "factors" if self.learner == "ours" and not self.is_exact else ""


@dataclasses.dataclass(frozen=True, order=True)
class Run:
    """A policy against the test tasks of a problem."""

    problem: str
    data: str  # what its prior was learned from, a key of DATA
    policy: str
    noise_std: float  # assumed noise level σ̂
    learner: str = ""  # how DiffTS's prior was learned
    seed: int = 0  # of that training, and of the rewards: every policy meets the same ones
    sampler: str = "paper"  # posterior sampler of DiffTS
    variance: str = "calibrated"  # its reverse variance
    tasks: str = "test"  # 'real': the real ad slots; 'fresh', 'many': those of the evaluation
    rule: str = "thompson"  # by which the belief is played
    noise: str = ""  # a word that stands in the place of the noise level: 'bernoulli'

    @property
    def prior(self) -> PriorSpec | None:
        """The diffusion prior that it plays with."""
        if self.policy != "diffts":
            return None
        return PriorSpec(self.problem, self.data, self.learner, self.seed)

    @property
    def components(self) -> int | None:
        """Of the mixture that it plays with."""
        number = self.policy.removeprefix("gmmts-")
        return int(number) if number.isdigit() else None

    @property
    def fit(self) -> str:
        """The fit that is kept for it: a mixture can take minutes."""
        return mixture_name(self.components, self.fit_seed) if self.components else ""

    @property
    def fit_seed(self) -> int | None:
        """The seed of its mixture; None for the older published fit.

        From exact tasks a mixture is fitted for each seed. From imperfect ones, where a fit takes
        minutes to a quarter of an hour, it is fitted once.
        """
        if not (self.is_fresh and self.components):
            return None
        return self.seed if DATA[self.data] is None else 0

    @property
    def is_fresh(self) -> bool:
        """Whether it is of the evaluation."""
        return self.tasks in (FRESH, MANY)

    @property
    def starts_its_own_way(self) -> bool:
        """Whether it tries all arms by other sets of them than the problem's."""
        return self.policy == THREE_PATHS

    @property
    def key(self) -> str:
        """Its place in the store."""
        parts = [self.data, self.policy, self.noise or f"sigma{self.noise_std:g}"]
        if self.prior:
            parts += [slug(self.learner), f"seed{self.seed}", self.sampler, self.variance]
        elif self.seed:
            parts.append(f"seed{self.seed}")
        if self.tasks != "test":
            parts.append(self.tasks)
        if self.rule != "thompson":
            parts.append(self.rule)
        return f"{self.problem}/runs/{'-'.join(parts)}"


def mixture_name(components: int, seed: int | None) -> str:
    """Of a fit, in the store."""
    return f"mixture{components}" + ("" if seed is None else f"-seed{seed}")


def diffts(problem: str, data: str, noise_std: float, learner: str = "ours", **more: Any) -> Run:
    """A run of DiffTS."""
    return Run(problem, data, "diffts", noise_std, learner, **more)


def slug(text: str) -> str:
    """Letters, digits and points; everything else is left out.

    >>> slug("paper, λ = 0.1")
    'paper-0.1'
    """
    kept = "".join(c if c.isascii() and (c.isalnum() or c == ".") else " " for c in text)
    return "-".join(kept.split())


# --- how priors are learned ----------------------------------------------------------------------

_TRAINING = TrainingConfig(steps=15_000, decay="cosine", ema_decay=0.995)
_DEFAULT, _PAPER = OurProcedure(), PaperProcedure()
#: With the sampler that three of the problems were measured with.
_LEARNED_MOMENTS = replace(_DEFAULT, sampler="moment-learned")
_MLP = LearningPlan("residual-mlp", {"width": 512}, "clean", _TRAINING, _LEARNED_MOMENTS)
_NARROW_MLP = replace(_MLP, options={"width": 256}, config=replace(_TRAINING, steps=6000))
#: Longer or wider is not better everywhere.
_PLANS: dict[str, LearningPlan] = {
    "popular-niche": _MLP,
    "labeled-arms": _NARROW_MLP,
    "labeled-arms-common": _NARROW_MLP,
    "bidding": replace(
        _MLP,
        predicts="residual",
        # The arms are so correlated that draws are better than noisy observations of single arms.
        procedure=replace(
            _DEFAULT, warmup_steps=3000, rounds=10, inner_steps=1000, anchor=0.05, patience=3
        ),
    ),
    "maze": LearningPlan(
        "unet-2d",
        {"channels": (64, 128), "folds": 1, "compute": "bfloat16"},
        "clean",
        replace(_TRAINING, steps=8000),
        replace(_LEARNED_MOMENTS, warmup_steps=6000, inner_steps=1500, draws=1, score_every=6000),
    ),
}
_TINY: dict[str, dict[str, Any]] = {
    "residual-mlp": {"width": 16, "n_blocks": 1},
    "unet-2d": {"channels": (4,), "folds": 1, "embedding_size": 8, "compute": "float32"},
}

#: The paper's networks and training, problem by problem (its appendix on diffusion models).
#: Nobody looks at held-out scores on the way, and what is missing is imputed as 0.5, as it says.
_APPENDIX_PROCEDURE = replace(_PAPER, score_every=15_000)
_APPENDIX_MLP = LearningPlan("residual-conv", {}, "clean", TrainingConfig(), _APPENDIX_PROCEDURE)
_APPENDIX: dict[str, LearningPlan] = {
    "popular-niche": _APPENDIX_MLP,
    "labeled-arms": _APPENDIX_MLP,
    "bidding": replace(
        _APPENDIX_MLP,
        network="unet-1d",
        predicts="noise",
        # At last each task is reconstructed once.
        procedure=replace(PROCEDURES["ipinyou"], score_every=15_000, draws=1),
    ),
    "maze": replace(_APPENDIX_MLP, network="unet-2d"),
}
#: The units that the paper's networks see: mean rewards as they are.
_AS_THEY_ARE = Units(0.0, 1.0)
_TINY_APPENDIX: dict[str, dict[str, Any]] = {
    "residual-conv": {"channels": 2, "length": 8, "n_blocks": 1, "embedding_size": 8},
    "unet-1d": {"channels": (4,), "embedding_size": 8},
    "unet-2d": {"channels": (4,), "embedding_size": 8},
}
_TINY_ARMS: dict[str, Any] = {"width": 8, "n_blocks": 0, "code": 2, "own": 2, "hidden": 8}


def units_for(learner: str) -> Units | None:
    """The units that a network sees; None: tasks are standardised."""
    return _AS_THEY_ARE if learner == APPENDIX else None


def _evaluated(problem: str, profile: Profile, learner: str) -> LearningPlan:
    """A learner of the evaluation."""
    if learner == APPENDIX:
        plan = _APPENDIX[problem]
        tiny = _TINY_APPENDIX[str(plan.network)] if profile.tiny else {}
    else:
        advice = get_problem(problem).suggested_arms
        plan = LearningPlan("arms", procedure=Procedure.named("arms", **advice.procedure))
        tiny = dict(_TINY_ARMS) if profile.tiny else {}
        if tiny and "grid" in advice.options:
            tiny |= {"grid": advice.options["grid"] | {"channels": (4,)}}
    return replace(
        plan,
        options=plan.options | tiny,
        config=replace(plan.config, steps=profile.steps(plan.config.steps)),
        procedure=profile.fitted(plan.procedure),
    )


def plan_for(problem: str, profile: Profile, learner: str = "ours") -> LearningPlan:
    """Network and training for a problem, with the sizes of a profile.

    From imperfect data by our procedure, or by the paper's with one thing changed.
    """
    if learner in (ARMS, APPENDIX):
        return _evaluated(problem, profile, learner)
    plan = _PLANS[problem]
    tiny = _TINY[str(plan.network)] if profile.tiny else {}
    return replace(
        plan,
        options=plan.options | tiny,
        config=replace(plan.config, steps=profile.steps(plan.config.steps)),
        procedure=profile.fitted(plan.procedure if learner == "ours" else ABLATED[learner]),
    )


def in_digests(network: dict[str, Any]) -> dict[str, Any]:
    """Of a network, as the published digests have it: mazes once had a background to leave out."""
    left_out = {"background": None} if network["network"] == "unet-2d" else {}
    return network | {"options": network["options"] | left_out}


#: λ of the SURE term in the ablation on noisy data, by the learner's name.
WARM_UPS = {f"warm-up, λ = {sure:g}": sure for sure in (0.0, 0.1, 0.3, 1.0)}
#: The paper's procedure with one thing changed, for its ablations.
ABLATED: dict[str, Procedure] = {
    "paper": _PAPER,
    "paper, λ = 0": replace(_PAPER, sure=0.0),
    "paper, no EM": PROCEDURES["paper-without-em"],
    **{name: replace(_PAPER, rounds=0, sure=sure) for name, sure in WARM_UPS.items()},
}
#: Where the paper's calibration fails, τ is of exact tasks.
CALIBRATED_ON_EXACT = ("paper, no EM",)
