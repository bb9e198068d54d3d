"""What is to be learned, how, and what is to be played: the atoms that experiments share."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

from diffts.diffusion.units import Units
from diffts.experiments.learning_plan import LearningPlan
from diffts.learning import PROCEDURES, Procedure, TrainingConfig
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

#: How priors are learned: our network and learning, and the paper's own, all of its appendix.
ARMS, APPENDIX = "arms", "appendix"
#: Test tasks: as many as the paper has; or all of them, of which those are the first; or the real
#: ad slots.
FRESH, MANY, REAL = "fresh", "many", "real"
#: UCB on Maze as the paper starts it: with three paths that cover all edges (ours are two).
THREE_PATHS = "ucb1-three-paths"


@dataclasses.dataclass(frozen=True, order=True)
class PriorSpec:
    """A diffusion prior: of which problem, from which data, how, and with which seed."""

    problem: str
    data: str
    learner: str = ARMS
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
        """The Gaussian fit that it starts from: ours alone has one."""
        return "below" if self.learner == ARMS else ""


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
    tasks: str = FRESH
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
    def fit_seed(self) -> int:
        """The seed of its mixture.

        From exact tasks a mixture is fitted for each seed. From imperfect ones, where a fit takes
        minutes to three quarters of an hour, it is fitted once.
        """
        return self.seed if DATA[self.data] is None else 0

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
        parts.append(self.tasks)
        if self.rule != "thompson":
            parts.append(self.rule)
        return f"{self.problem}/runs/{'-'.join(parts)}"


def mixture_name(components: int, seed: int) -> str:
    """Of a fit, in the store."""
    return f"mixture{components}-seed{seed}"


def diffts(problem: str, data: str, noise_std: float, learner: str = ARMS, **more: Any) -> Run:
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

#: The paper's networks and training, problem by problem (its appendix on diffusion models).
#: There are no held-out scores on the way, and what is missing is imputed as 0.5, as it says.
_UNSCORED: dict[str, Any] = {"score_every": 15_000, "unscored": True}
_PROCEDURE = replace(PROCEDURES["paper"], **_UNSCORED)
_RESIDUAL = LearningPlan("residual-conv", {}, "clean", TrainingConfig(), _PROCEDURE)
_APPENDIX: dict[str, LearningPlan] = {
    "popular-niche": _RESIDUAL,
    "labeled-arms": _RESIDUAL,
    "labeled-arms-common": _RESIDUAL,
    "bidding": replace(
        _RESIDUAL,
        network="unet-1d",
        predicts="noise",
        # At last each task is reconstructed once.
        procedure=replace(PROCEDURES["ipinyou"], **_UNSCORED, draws=1),
    ),
    "maze": replace(_RESIDUAL, network="unet-2d"),
}
#: The units that the paper's networks see: mean rewards as they are.
_AS_THEY_ARE = Units(0.0, 1.0)
_TINY_APPENDIX: dict[str, dict[str, Any]] = {
    "residual-conv": {"channels": 2, "length": 8, "n_blocks": 1, "embedding_size": 8},
    "unet-1d": {"channels": (4,), "embedding_size": 8},
    "unet-2d": {"channels": (4,), "embedding_size": 8},
}
_TINY_ARMS: dict[str, Any] = {"width": 8, "n_blocks": 0, "code": 2, "own": 2, "hidden": 8}

#: λ of the SURE term in the ablation on noisy data, by the learner's name.
WARM_UPS = {f"warm-up, λ = {sure:g}": sure for sure in (0.0, 0.1, 0.3, 1.0)}
NO_SURE, NO_EM = f"{APPENDIX}, λ = 0", f"{APPENDIX}, no EM"
#: What is changed of the paper's procedure for its ablations, by the learner's name. Without EM
#: the warm-up is as long as the whole.
_ABLATED: dict[str, dict[str, Any]] = {
    NO_SURE: {"sure": 0.0},
    NO_EM: {"rounds": 0, "warmup_steps": PROCEDURES["paper-without-em"].warmup_steps},
    **{name: {"rounds": 0, "sure": sure} for name, sure in WARM_UPS.items()},
}
#: Where the paper's calibration fails, τ is of exact tasks.
CALIBRATED_ON_EXACT = (NO_EM,)


def units_for(learner: str) -> Units | None:
    """The units that a network sees; None: tasks are standardised."""
    return None if learner == ARMS else _AS_THEY_ARE


def sure_of(run: Run) -> float | None:
    """λ, where a prior learned from imperfect data by the paper's procedure, with one λ."""
    if run.learner in ("", ARMS) or DATA[run.data] is None:
        return None
    sure = _changed(run.problem, run.learner).procedure.sure
    return None if isinstance(sure, tuple) else sure


def _changed(problem: str, learner: str) -> LearningPlan:
    """The paper's plan, with what the ablation changes."""
    plan = _APPENDIX[problem]
    return replace(plan, procedure=replace(plan.procedure, **_ABLATED.get(learner, {})))


def plan_for(problem: str, profile: Profile, learner: str = ARMS) -> LearningPlan:
    """Network and training for a problem, with the sizes of a profile.

    Ours, the paper's, or the paper's with one thing changed.
    """
    if learner == ARMS:
        advice = get_problem(problem).suggested_arms
        plan = LearningPlan("arms", procedure=Procedure.named("arms", **advice.procedure))
        tiny = dict(_TINY_ARMS)
        if "grid" in advice.options:
            tiny |= {"grid": advice.options["grid"] | {"channels": (4,)}}
    else:
        plan = _changed(problem, learner)
        tiny = _TINY_APPENDIX[str(plan.network)]
    return replace(
        plan,
        options=plan.options | (tiny if profile.tiny else {}),
        config=replace(plan.config, steps=profile.steps(plan.config.steps)),
        procedure=profile.fitted(plan.procedure),
    )
