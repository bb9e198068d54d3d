"""What is to be learned and what is to be played: the atoms that experiments share."""

from __future__ import annotations

import dataclasses

from diffts.problems import Corruption

#: What priors are learned from; None is exact mean rewards.
DATA: dict[str, Corruption | None] = {
    "perfect": None,
    "imperfect": Corruption(missing=0.5, noise=0.1),
    "noisy": Corruption(missing=0.0, noise=0.1),
    "incomplete": Corruption(missing=0.5, noise=0.0),
}


@dataclasses.dataclass(frozen=True, order=True)
class Learned:
    """A diffusion prior: of which problem, from which data, how, and with which seed."""

    problem: str
    data: str
    learner: str = "ours"
    seed: int = 0

    @property
    def key(self) -> str:
        """Its place in the store."""
        return f"{self.problem}/priors/{self._name}"

    @property
    def time_key(self) -> str:
        """Where the store has how long it took."""
        return f"{self.problem}/times/{self._name}"

    @property
    def _name(self) -> str:
        return f"{self.data}-{_slug(self.learner)}-seed{self.seed}"


@dataclasses.dataclass(frozen=True, order=True)
class Run:
    """A policy against the test tasks of a problem.

    Attributes:
        problem: name of the problem.
        data: what its prior was learned from, a key of ``DATA``.
        policy: name of the policy.
        noise_std: assumed noise level σ̂.
        learner: how DiffTS's prior was learned.
        seed: seed of that training, and of the rewards: every policy meets the same ones.
        sampler: posterior sampler of DiffTS.
        variance: its reverse variance.
        tasks: 'test', or 'real' for the real ad slots.
    """

    problem: str
    data: str
    policy: str
    noise_std: float
    learner: str = ""
    seed: int = 0
    sampler: str = "paper"
    variance: str = "calibrated"
    tasks: str = "test"

    @property
    def learned(self) -> Learned | None:
        """The diffusion prior that it plays with."""
        if self.policy != "diffts":
            return None
        return Learned(self.problem, self.data, self.learner, self.seed)

    @property
    def key(self) -> str:
        """Its place in the store."""
        parts = [self.data, self.policy, f"sigma{self.noise_std:g}"]
        if self.policy == "diffts":
            parts += [_slug(self.learner), f"seed{self.seed}", self.sampler, self.variance]
        elif self.seed:
            parts.append(f"seed{self.seed}")
        if self.tasks != "test":
            parts.append(self.tasks)
        return f"{self.problem}/runs/{'-'.join(parts)}"


def diffts(problem: str, data: str, noise_std: float, learner: str = "ours", **more: object) -> Run:
    """A run of DiffTS."""
    return Run(problem, data, "diffts", noise_std, learner, **more)  # type: ignore[arg-type]


def _slug(text: str) -> str:
    """Letters, digits and points; everything else is left out.

    >>> _slug("paper, λ = 0.1")
    'paper-0.1'
    """
    kept = "".join(c if c.isascii() and (c.isalnum() or c == ".") else " " for c in text)
    return "-".join(kept.split())
