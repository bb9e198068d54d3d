"""Cumulative regret over rounds, with standard-error bands."""

from __future__ import annotations

import os
from collections.abc import Mapping

from diffts.bandits.simulate import Simulation
from diffts.figures.style import draw_curve, pyplot, save


def draw_regret(
    simulations: Mapping[str, Simulation], path: str | os.PathLike[str], title: str = ""
) -> None:
    """Mean cumulative regret of each policy, in a band of one standard error either side."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(4.4, 3.2))
    for policy, run in simulations.items():
        draw_curve(axes, policy, run.rounds, run.mean_regret, run.stderr_regret)
    axes.set(xlabel="round", ylabel="cumulative regret", title=title)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))  # never on top of a curve
    save(figure, path)
