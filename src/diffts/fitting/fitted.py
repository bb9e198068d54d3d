"""What a log has taught: a belief, the names of the arms, the noise; kept in one folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from diffts.bandits.agent import Agent
from diffts.bandits.beliefs import (
    Belief,
    DiffusionBelief,
    IndependentBelief,
    MixtureBelief,
)
from diffts.bandits.noise import Noise, noise_from_json, noise_to_json
from diffts.bandits.policy import Policy
from diffts.bandits.rules import Rule, make_rule
from diffts.diffusion.exact import Gaussian, GaussianMixture
from diffts.diffusion.prior import DiffusionPrior
from diffts.errors import ArtifactError, InvalidInputError
from diffts.seeding import Seed
from diffts.storage import load_folder, save_folder

_KIND, _VERSION = "diffts.fitted", 1

#: Steps of the reverse chain of a diffusion prior.
STEPS = 20

#: What a task's mean rewards can be thought to come from.
Law: TypeAlias = Gaussian | GaussianMixture | DiffusionPrior


class NewArms(NamedTuple):
    """The law of arms over arms: what to think of one that the log has never seen.

    ``M ~ N(mean, between²)`` is an arm's mean over tasks, ``μ ~ N(M, within²)`` its mean reward in
    one task.
    """

    mean: float
    between: float
    within: float

    @property
    def std(self) -> float:
        """Of its mean reward in one task, before anything is known of it."""
        return float(np.hypot(self.between, self.within))


@dataclass(frozen=True)
class Fitted:
    """The belief that a log has led to, and what the log told of arms and rewards.

    Attributes:
        kind: 'independent', 'gaussian', 'mixture' or 'diffusion'.
        law: the law of a task's mean rewards: a Gaussian (of independent arms, if ``kind`` says
            so), a mixture, or a diffusion prior.
        arms: names of the K arms.
        noise: that of one reward.
        new_arms: the law of arms that the log has never seen.
        facts: what else is known of the log and of how the belief was chosen (plain JSON).
        past: mean rewards of the log ``(N, K)``, NaN where a task never saw an arm: for the report.
            They are not saved; None after :meth:`load`.
    """

    kind: str
    law: Law
    arms: tuple[str, ...]
    noise: Noise
    new_arms: NewArms
    facts: Mapping[str, Any] = field(default_factory=dict)
    past: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidInputError(f"kind: expected one of {', '.join(KINDS)}, got {self.kind!r}")

    def belief(self) -> Belief:
        """What to think of a new task."""
        if isinstance(self.law, DiffusionPrior):
            return DiffusionBelief(self.law, self.noise, steps=STEPS)
        if self.kind == "independent" and isinstance(self.law, Gaussian):
            return IndependentBelief(self.law, self.noise)
        return MixtureBelief(self.law, self.noise)

    def policy(
        self,
        rule: str | Rule = "default",
        *,
        horizon: int | None = None,
        floor: float | None = None,
    ) -> Policy:
        """The belief and a rule."""
        made = make_rule(rule, horizon)
        return Policy(self.belief(), made).playing(made, floor=floor)

    def agent(
        self,
        rule: str | Rule = "default",
        *,
        horizon: int | None = None,
        floor: float | None = None,
        seed: Seed | None = None,
    ) -> Agent:
        """An agent for one task, which knows the arms by their names."""
        return Agent(self.policy(rule, horizon=horizon, floor=floor), arms=self.arms, seed=seed)

    def report(self, folder: str | os.PathLike[str]) -> None:
        """Write ``report.html`` and ``report.json`` into a folder; right after ``fit``.

        Needs ``diffts[figures]``.
        """
        from diffts.fitting.report import write_report  # it draws, and knows this class

        if self.past is None:
            raise InvalidInputError(
                "report: the folder of a fit does not keep the rewards of the log; write it "
                "right after fit, or by diffts.fitting.report.write_report(…, past=…)"
            )
        write_report(self, folder, past=self.past)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write it into a folder: atomic, replaces an older one."""
        content = {
            "kind": self.kind,
            "arms": list(self.arms),
            "noise": noise_to_json(self.noise),
            "new_arms": self.new_arms._asdict(),
            "facts": dict(self.facts),
        }
        arrays: dict[str, Any] = {}
        if isinstance(self.law, DiffusionPrior):
            self.law.save(Path(directory) / "prior")
        elif isinstance(self.law, GaussianMixture):
            arrays = {
                "weights": self.law.weights,
                "means": self.law.means,
                "covariances": self.law.covariances,
            }
        else:
            arrays = {"mean": self.law.mean, "covariance": self.law.covariance}
        save_folder(directory, _KIND, _VERSION, content, arrays)

    @staticmethod
    def load(directory: str | os.PathLike[str]) -> Fitted:
        """Read what :meth:`save` wrote."""
        content, arrays = load_folder(directory, _KIND, _VERSION)
        try:
            kind = content["kind"]
            law: Law
            if kind == "diffusion":
                law = DiffusionPrior.load(Path(directory) / "prior")
            elif kind == "mixture":
                law = GaussianMixture(arrays["weights"], arrays["means"], arrays["covariances"])
            else:
                law = Gaussian(arrays["mean"], arrays["covariance"])
            return Fitted(
                kind=kind,
                law=law,
                arms=tuple(content["arms"]),
                noise=noise_from_json(content["noise"]),
                new_arms=NewArms(**content["new_arms"]),
                facts=content["facts"],
            )
        except (KeyError, TypeError, InvalidInputError) as error:
            raise ArtifactError(f"{directory}: damaged ({error})") from None


#: Kinds of belief, the simplest first.
KINDS = ("independent", "gaussian", "mixture", "diffusion")
