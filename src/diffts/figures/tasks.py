"""Task vectors as images: rows are tasks, columns are arms."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffts.diffusion.prior import DiffusionPrior
from diffts.evidence import Evidence
from diffts.figures.style import pyplot, save, save_for_print


def draw_tasks(
    panels: Mapping[str, ArrayLike],
    path: str | os.PathLike[str],
    order: ArrayLike | None = None,
    title: str = "",
    for_print: bool = False,
) -> None:
    """One panel for each set of tasks ``(n, K)``, all in the same colours.

    Args:
        panels: title of each panel and its tasks.
        path: where to write the picture.
        order: the arms in the order to show them in (groups side by side, for example).
        title: title of the whole.
        for_print: write a PDF of the same name beside it, too.
    """
    plt = pyplot()
    shown = {name: np.asarray(tasks) for name, tasks in panels.items()}
    first = next(iter(shown.values()))
    low, high = float(first.min()), float(first.max())
    columns = np.arange(first.shape[1]) if order is None else np.asarray(order)
    figure, axes = plt.subplots(
        len(shown), 1, figsize=(6.5, 1.5 * len(shown) + 0.6), squeeze=False, layout="constrained"
    )
    for row, (name, tasks) in zip(axes[:, 0], shown.items(), strict=True):
        image = row.imshow(
            tasks[:, columns], aspect="auto", vmin=low, vmax=high, interpolation="nearest"
        )
        row.set(title=name, ylabel="task")
        row.grid(False)
    axes[-1, 0].set_xlabel("arm")
    figure.colorbar(image, ax=axes[:, 0].tolist(), label="mean reward", shrink=0.8)
    if title:
        figure.suptitle(title)
    (save_for_print if for_print else save)(figure, path)


def draw_prior(prior: DiffusionPrior, path: str | os.PathLike[str], seed: int = 0) -> None:
    """A prior at a glance: draws from it, the marginal of each arm, and its calibrated errors."""
    plt = pyplot()
    draws = prior.sample(200, seed=seed)
    figure, (top, middle, bottom) = plt.subplots(
        3, 1, figsize=(6.5, 6.5), layout="constrained", height_ratios=[1.3, 1, 1]
    )
    darkest, brightest = np.quantile(draws, [0.005, 0.995])  # a few stray values hide the rest
    image = top.imshow(
        draws[:20], aspect="auto", interpolation="nearest", vmin=darkest, vmax=brightest
    )
    top.set(title="20 draws", xlabel="arm", ylabel="draw")
    top.grid(False)
    figure.colorbar(image, ax=top, label="mean reward", extend="both")
    arms = np.arange(prior.n_arms)
    low, centre, high = np.quantile(draws, [0.1, 0.5, 0.9], axis=0)
    low, centre, high = (band[np.argsort(centre)] for band in (low, centre, high))
    middle.fill_between(arms, low, high, alpha=0.3, lw=0, label="10% to 90%")
    middle.plot(arms, centre, lw=1, label="median")
    middle.set(title="each arm in 200 draws", xlabel="arms, by median", ylabel="mean reward")
    middle.legend(loc="upper left", ncol=2)
    steps = np.arange(1, prior.schedule.n_steps + 1)
    error = prior.reconstruction_error
    bottom.fill_between(steps, error.min(1), error.max(1), alpha=0.3, lw=0, label="least to most")
    bottom.plot(steps, error.mean(1), lw=1.2, label="mean over arms")
    bottom.set(title="calibrated error of the denoiser", xlabel="diffusion step", ylabel="τ")
    bottom.legend(loc="upper left", ncol=2)
    save(figure, path)


def draw_evolution(
    prior: DiffusionPrior,
    task: ArrayLike,
    histories: Mapping[int, Evidence],
    path: str | os.PathLike[str],
    order: ArrayLike | None = None,
    draws: int = 200,
    seed: int = 0,
) -> None:
    """How the posterior of one task closes in on the truth as evidence comes in.

    Args:
        prior: the prior.
        task: the true mean rewards ``(K,)``.
        histories: number of rounds → evidence after them.
        path: where to write the picture.
        order: the arms in the order to show them in.
        draws: posterior draws behind each band.
        seed: seed of the draws.
    """
    plt = pyplot()
    truth: NDArray[np.float64] = np.asarray(task, np.float64)
    columns = np.arange(len(truth)) if order is None else np.asarray(order)
    figure, axes = plt.subplots(
        len(histories), 1, figsize=(6.5, 1.5 * len(histories)), sharex=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    arms = np.arange(len(truth))
    for row, (rounds, evidence) in zip(axes[:, 0], histories.items(), strict=True):
        sample = prior.posterior_sample(evidence, n=draws, seed=seed)[:, columns]
        low, high = np.quantile(sample, [0.05, 0.95], axis=0)
        row.fill_between(arms, low, high, color="#d62728", alpha=0.3, lw=0, label="posterior 5–95%")
        row.plot(arms, truth[columns], "k.", ms=2, label="truth")
        seen = np.flatnonzero(np.asarray(evidence.mask)[columns])
        row.plot(seen, np.asarray(evidence.mean)[columns][seen], "b+", ms=4, label="observed")
        row.set(title=f"after {rounds} rounds: {len(seen)} arms observed", ylabel="reward")
    axes[-1, 0].set_xlabel("arm")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncol=3)
    save(figure, path)
