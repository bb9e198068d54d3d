"""From a table of past tasks to a calibrated prior: standardise, train, calibrate."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffts.diffusion.networks import NetworkDenoiser, Prediction, build_denoiser
from diffts.diffusion.prior import DiffusionPrior, explainable
from diffts.diffusion.schedule import Schedule
from diffts.errors import InvalidInputError
from diffts.learning.calibration import calibrate
from diffts.learning.checkpoint import Checkpoint, fingerprint
from diffts.learning.clean import Clean, train_clean
from diffts.learning.gaussian import fit_gaussian
from diffts.learning.side_by_side import train_side_by_side
from diffts.learning.training import (
    TrainingConfig,
    TrainingState,
    initial_state,
    refuse_divergence,
)
from diffts.seeding import MOST_SEED, as_generator
from diffts.validation import finite_array, whole_number


def learn_prior_exact(
    tasks: ArrayLike,
    calibration: ArrayLike | None = None,
    *,
    network: str = "residual-mlp",
    predicts: Prediction = "clean",
    options: Mapping[str, Any] | None = None,
    config: TrainingConfig | None = None,
    schedule: Schedule | None = None,
    standardise: bool = True,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 1000,
    on_block: Callable[[TrainingState], None] | None = None,
) -> DiffusionPrior:
    """Learn a diffusion prior from the exact mean rewards of past tasks.

    Args:
        tasks: mean rewards of the training tasks, ``(N, K)``, in the user's units.
        calibration: tasks to calibrate on; by default a sixth of ``tasks`` is kept back for it.
        network: name of the network (``diffts.NETWORKS``).
        predicts: what it predicts: 'clean', 'noise', 'velocity' or 'residual' (what is left by a
            Gaussian with the data's mean and covariance).
        options: sizes of the network.
        config: training recipe; the paper's by default.
        schedule: noise schedule; the paper's by default.
        standardise: give the network data of mean 0 and variance 1 (the paper's raw data: False).
        seed: seed of everything: weights, batches, calibration.
        checkpoint: a folder for the training state. If it holds one, training goes on from it,
            to the same weights as an uninterrupted run. A KeyboardInterrupt saves it, too.
        checkpoint_every: steps between two saves.
        on_block: called with each state; for progress bars.
    """
    config = TrainingConfig() if config is None else config
    schedule = Schedule.linear() if schedule is None else schedule
    seed = whole_number("seed", seed, 0, MOST_SEED)
    train, held_out = _split(tasks, calibration, seed)
    shift, scale = _standardisation(train) if standardise else (0.0, 1.0)
    sizes = standardised_options(options, shift, scale)
    standard = (train - shift) / scale
    base = fit_gaussian(standard) if predicts == "residual" else None
    denoiser = build_denoiser(
        network, train.shape[1], predicts=predicts, base=base, seed=seed, **sizes
    )
    state = _train(
        denoiser, standard, config, schedule, seed, checkpoint, checkpoint_every, on_block
    )
    return _calibrated(state, train, held_out, (shift, scale), config, schedule, seed)


def learn_priors_exact(
    tasks: ArrayLike,
    calibration: ArrayLike,
    *,
    seeds: Sequence[int],
    network: str = "residual-mlp",
    predicts: Prediction = "clean",
    options: Mapping[str, Any] | None = None,
    config: TrainingConfig | None = None,
    schedule: Schedule | None = None,
    on_block: Callable[[int], None] | None = None,
) -> list[DiffusionPrior]:
    """One prior for each seed, trained side by side; as :func:`learn_prior_exact` learns each of them.

    Arguments as there; ``on_block`` is called with the number of steps done.
    """
    config = TrainingConfig() if config is None else config
    schedule = Schedule.linear() if schedule is None else schedule
    train, held_out = _split(tasks, calibration, 0)
    shift, scale = _standardisation(train)
    sizes = standardised_options(options, shift, scale)
    standard = (train - shift) / scale
    base = fit_gaussian(standard) if predicts == "residual" else None
    states = [
        initial_state(
            build_denoiser(
                network, train.shape[1], predicts=predicts, base=base, seed=seed, **sizes
            ),
            config,
        )
        for seed in seeds
    ]
    objective = Clean(jnp.asarray(standard, jnp.float32))
    objectives = [objective] * len(states)
    states = train_side_by_side(states, objectives, config, schedule, seeds, config.steps, on_block)
    return [
        _calibrated(state, train, held_out, (shift, scale), config, schedule, seed)
        for state, seed in zip(states, seeds, strict=True)
    ]


def _standardisation(train: NDArray[np.float64]) -> tuple[float, float]:
    scale = float(train.std())
    if scale == 0.0:
        raise InvalidInputError("tasks: all values are equal; there is nothing to learn")
    return float(train.mean()), scale


def _calibrated(
    state: TrainingState,
    train: NDArray[np.float64],
    held_out: NDArray[np.float64],
    units: tuple[float, float],
    config: TrainingConfig,
    schedule: Schedule,
    seed: int,
) -> DiffusionPrior:
    """The prior of a finished training."""
    shift, scale = units
    tau = calibrate(state.trained, (held_out - shift) / scale, schedule=schedule, seed=seed + 1)
    # The last step's loss is that of the weights before it: they may be lost all the same.
    refuse_divergence(float(np.max(tau)), int(state.step))
    metadata = {
        "data": {"kind": "exact", "tasks": len(train), "calibration": len(held_out)},
        "training": dataclasses.asdict(config),
        "seed": seed,
    }
    return DiffusionPrior(
        state.trained,
        tau,
        schedule=schedule,
        shift=shift,
        scale=scale,
        limits=explainable(train),
        metadata=metadata,
    )


def standardised_options(
    options: Mapping[str, Any] | None, shift: float, scale: float
) -> dict[str, Any]:
    """A network's options; pixels that are no arms come in the user's units, like the tasks."""
    sizes = dict(options or {})
    if sizes.get("background") is not None:
        sizes["background"] = [(value - shift) / scale for value in sizes["background"]]
    return sizes


def _split(
    tasks: ArrayLike, calibration: ArrayLike | None, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    train = finite_array("tasks", tasks, ndim=2)
    if calibration is not None:
        held_out = finite_array("calibration", calibration, ndim=2)
        if train.shape[1] != held_out.shape[1] or not len(train) or not len(held_out):
            raise InvalidInputError(
                f"calibration: expected shape (tasks, {train.shape[1]}), got {held_out.shape}"
            )
        return train, held_out
    if len(train) < 6:
        raise InvalidInputError(f"tasks: expected at least 6 tasks, got {len(train)}")
    order = as_generator(seed).permutation(len(train))
    kept_back = len(train) // 6
    return train[order[kept_back:]], train[order[:kept_back]]


def _train(
    denoiser: NetworkDenoiser,
    data: NDArray[np.float64],
    config: TrainingConfig,
    schedule: Schedule,
    seed: int,
    checkpoint: str | os.PathLike[str] | None,
    checkpoint_every: int,
    on_block: Callable[[TrainingState], None] | None,
) -> TrainingState:
    """Run the training generator, with checkpoints around it."""
    saved = Checkpoint(checkpoint, _fingerprint(denoiser, data, config, schedule, seed))
    start = saved.load(initial_state(denoiser, config))
    return saved.follow(
        start,
        train_clean(denoiser, data, config, schedule=schedule, seed=seed, state=start),
        every=checkpoint_every,
        step_of=lambda state: int(state.step),
        is_last=lambda state: int(state.step) == config.steps,
        on_state=on_block,
    )


def _fingerprint(
    denoiser: NetworkDenoiser,
    data: NDArray[np.float64],
    config: TrainingConfig,
    schedule: Schedule,
    seed: int,
) -> str:
    settings = {
        "denoiser": denoiser.recipe(),
        "config": dataclasses.asdict(config),
        "alpha_bar": schedule.alpha_bar,
        "seed": seed,
    }
    return fingerprint(settings, data)
