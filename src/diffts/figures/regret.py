"""Cumulative regret over rounds, with standard-error bands."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from diffts.figures.looks import looks_of
from diffts.figures.style import draw_curve, pyplot, save


class Curve(Protocol):
    """What is drawn: the simulation of a policy, or several of them put together."""

    @property
    def rounds(self) -> NDArray[np.int64]:
        """The recorded rounds ``(R,)``."""

    @property
    def mean_regret(self) -> NDArray[np.float64]:
        """Mean cumulative regret ``(R,)``."""

    @property
    def stderr_regret(self) -> NDArray[np.float64]:
        """Its standard error ``(R,)``."""


def draw_regret(curves: Mapping[str, Curve], path: str | os.PathLike[str], title: str = "") -> None:
    """Mean cumulative regret of each policy, in a band of one standard error either side."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(4.4, 3.2))
    looks = looks_of(curves)
    for policy, run in curves.items():
        mean, error = run.mean_regret, run.stderr_regret
        draw_curve(axes, policy, run.rounds, mean, error, look=looks[policy])
    axes.set(xlabel="round", ylabel="cumulative regret", title=title)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    # Never on top of a curve.
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=3.2)
    save(figure, path)
