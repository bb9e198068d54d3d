"""``diffts inspect``: a saved prior at a glance."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from diffts.cli import options as opt
from diffts.cli.console import out, say
from diffts.cli.outputs import check_outputs

_LONG = ("learning", "procedure")  # metadata that would fill the screen


def inspect(
    folder: Annotated[Path, typer.Argument(parser=opt.path_option, help="Folder of a prior.")],
    figure: Annotated[
        Path | None,
        opt.output("Picture to write; by default prior.png in the folder.", path="FILE"),
    ] = None,
) -> None:
    """Summarise a saved prior, and draw it."""
    from diffts.diffusion.prior import DiffusionPrior
    from diffts.figures import draw_prior

    prior = DiffusionPrior.load(folder)
    figure = folder / "prior.png" if figure is None else figure
    check_outputs({"--figure": figure})
    recipe = dict(prior.denoiser.recipe())
    error = prior.reconstruction_error
    draws = prior.sample(200)
    table = Table("what", "value", show_header=False)
    for name, value in {
        "arms": prior.n_arms,
        "denoiser": recipe.get("network", recipe["kind"]),
        "predicts": recipe.get("predicts", "exact posterior mean"),
        "diffusion steps": prior.schedule.n_steps,
        "shift, scale": f"{float(prior.shift):.4g}, {float(prior.scale):.4g}",
        "mean error at first, middle, last step": ", ".join(
            f"{error[i].mean():.4g}" for i in (0, len(error) // 2, -1)
        ),
        "mean and sd of draws": f"{draws.mean():.4g}, {draws.std():.4g}",
        **_metadata(prior.metadata),
    }.items():
        table.add_row(escape(name), escape(str(value)))
    out.print(table)
    draw_prior(prior, figure)
    say(f"Picture: {figure}")


def _metadata(metadata: dict[str, Any]) -> dict[str, str]:
    """Metadata as rows; of learning from imperfect data only the outcome."""
    rows = {key: str(value) for key, value in metadata.items() if key not in _LONG}
    told = metadata.get("learning")
    if not isinstance(told, dict):
        return rows
    try:
        rows["held-out CRPS, error of the mean"] = (
            f"{told['held_out_crps']:.4g}, {told['held_out_rmse']:.4g}"
        )
        rows["arms never observed, seldom calibrated"] = (
            f"{len(told['arms_never_observed'])}, {len(told['arms_seldom_calibrated'])}"
        )
    except (KeyError, TypeError, ValueError):
        rows["learning"] = "told in another way than this diffts does"
    return rows
