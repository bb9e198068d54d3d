"""One look for all pictures: the same policy has the same colour everywhere."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from diffts.extras import optional
from diffts.files import is_special, write_file

COLOURS = {
    "diffts": "#d62728",
    "diffts-top-two": "#ff9896",
    "ucb1": "#7f7f7f",
    "ucb1-standard": "#c7c7c7",
    "gts-diag": "#2ca02c",
    "gts-full": "#1f77b4",
    "gts-top-two": "#aec7e8",
    "gmmts-10": "#9467bd",
    "gmmts-25": "#e377c2",
    "bayes-ucb": "#bcbd22",
    "gaussian-greedy": "#8c564b",
    "epsilon-greedy": "#17becf",
    "uniform": "#000000",
}
#: Variants of DiffTS in the ablations: its usual colour for what races in the main results, and
#: orange for the paper's own way to learn from imperfect data.
VARIANTS = {
    "predicted noise": COLOURS["diffts"],
    "sampled noise": "#ff7f0e",
    "calibrated": COLOURS["diffts"],
    "partly calibrated": "#ff7f0e",
    "not calibrated": "#8c564b",
    "our procedure": COLOURS["diffts"],
    "with EM": "#ff7f0e",
    "EM and SURE": "#ff7f0e",
    "EM, λ = 0": "#fdbe85",
    "without EM": "#8c564b",
    "SURE, no EM": "#8c564b",
    "λ = 0": "#fdbe85",
    "λ = 0.1": "#ff7f0e",
    "λ = 0.3": "#a63603",
    "λ = 1": "#54278f",
}
_SPARE = ("#ff7f0e", "#98df8a", "#c49c94", "#9edae5", "#5254a3", "#843c39", "#b5cf6b", "#bd9e39")


def colour_of(policy: str) -> str:
    """The colour of a policy; an unknown one gets a spare colour that depends on its name."""
    policy = policy.removesuffix(" (perfect data)").partition(":")[0]
    return (
        COLOURS.get(policy) or VARIANTS.get(policy) or _SPARE[sum(map(ord, policy)) % len(_SPARE)]
    )


def colours_of(policies: Iterable[str]) -> dict[str, str]:
    """A colour for each; those without one of their own share none while there are spare ones.

    >>> len(set(colours_of(["diffts (paper)", "diffts (moment)", "mine", "ucb1"]).values()))
    4
    """
    chosen: dict[str, str] = {}
    for policy in policies:
        colour = colour_of(policy)
        if colour in chosen.values():
            unused = [spare for spare in _SPARE if spare not in chosen.values()]
            colour = unused[0] if unused else colour
        chosen[policy] = colour
    return chosen


def label_of(policy: str) -> str:
    """How a policy is written in a legend: GTS-full, DiffTS (moment), DiffTS:greedy."""
    family, *rest = re.split(r"(?=[ :-])", policy, maxsplit=1)
    known = {"gts": "GTS", "gmmts": "GMMTS", "ucb1": "UCB1", "diffts": "DiffTS"}
    return "".join([known.get(family, family), *rest])


def pyplot() -> Any:
    """Matplotlib's pyplot without a display, in this style; imported when used."""
    optional("matplotlib", "drawing").use("Agg")
    plt = optional("matplotlib.pyplot", "drawing")
    plt.rcParams.update(
        {
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.alpha": 0.25,
            "legend.frameon": False,
            "figure.dpi": 150,
            "savefig.bbox": "tight",
        }
    )
    return plt


def draw_curve(
    axes: Any,
    policy: str,
    rounds: Any,
    mean: Any,
    error: Any,
    *,
    dashed: bool = False,
    colour: str = "",
) -> Any:
    """A policy's curve in a band of one standard error either side; ours are thicker, on top."""
    colour, ours = colour or colour_of(policy), policy.startswith("diffts")
    (line,) = axes.plot(
        rounds,
        mean,
        color=colour,
        label=label_of(policy),
        linewidth=1.9 if ours else 1.1,
        linestyle="--" if dashed else "-",
        zorder=3 if ours else 2,
    )
    axes.fill_between(rounds, mean - error, mean + error, color=colour, alpha=0.18, lw=0)
    return line


def picture_suffixes() -> list[str]:
    """Kinds of pictures that Matplotlib writes by itself, without dots (PGF needs LaTeX)."""
    canvas = optional("matplotlib.backend_bases", "drawing").FigureCanvasBase
    return sorted(set(canvas.get_supported_filetypes()) - {"pgf"})


def save(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure, whole or not at all, and forget it; PNG where the name does not say."""
    path = Path(path)
    if not path.suffix and not is_special(path):
        path = path.with_name(f"{path.name}.png")
    picture = io.BytesIO()
    try:
        figure.savefig(picture, format=path.suffix.lower().removeprefix(".") or "png")
    finally:
        pyplot().close(figure)
    write_file(path, picture.getvalue())
