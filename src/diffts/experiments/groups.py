"""20 Groups: does a posterior draw complete half-hidden tasks as the prior demands?"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable

from diffts.diffusion.networks import NETWORKS
from diffts.diffusion.prior import DiffusionPrior
from diffts.learning import TrainingConfig, TrainingState, learn_prior
from diffts.problems.groups import Groups, hide, recall_precision
from diffts.seeding import MOST_SEED
from diffts.validation import one_of, whole_number


@dataclasses.dataclass(frozen=True)
class GroupsConfig:
    """The paper's set-up: its network and training, 100 test tasks, half of the entries hidden.

    Attributes:
        network: name of the network to train.
        train_steps: gradient steps.
        train_tasks, calibration_tasks, test_tasks: sizes of the three sets.
        missing: probability that an entry of a test task is hidden.
        seed: seed of everything.
    """

    network: str = "residual-conv"
    train_steps: int = 15_000
    train_tasks: int = 5000
    calibration_tasks: int = 1000
    test_tasks: int = 100
    missing: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        one_of("network", self.network, NETWORKS)
        whole_number("seed", self.seed, 0, MOST_SEED)


@dataclasses.dataclass(frozen=True)
class GroupsResult:
    """Recall and precision of the found groups, with predicted and with sampled noise."""

    recall_predicted: float
    precision_predicted: float
    recall_sampled: float
    precision_sampled: float


def measure_groups(
    config: GroupsConfig | None = None,
    on_block: Callable[[TrainingState], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> tuple[GroupsResult, DiffusionPrior]:
    """Train on 20 Groups, then draw one completion of each test task with either noise."""
    config = GroupsConfig() if config is None else config
    tasks = Groups().split(
        config.train_tasks, config.calibration_tasks, config.test_tasks, seed=config.seed
    )
    prior = learn_prior(
        tasks.train,
        tasks.calibration,
        network=config.network,
        config=TrainingConfig(steps=config.train_steps),
        seed=config.seed,
        checkpoint=checkpoint,
        on_block=on_block,
    )
    evidence = hide(tasks.test, seed=config.seed + 1, missing=config.missing)
    scores: list[float] = []
    for sampler in ("paper", "paper-sampled-noise"):
        draws = prior.posterior_sample(evidence, sampler=sampler, seed=config.seed)
        scores.extend(recall_precision(tasks.test, draws))
    return GroupsResult(*scores), prior
