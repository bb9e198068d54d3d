"""``diffts inspect``: a saved prior, or what a log has taught, at a glance."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from diffts.cli import options as opt
from diffts.cli.console import out, say
from diffts.cli.outputs import check_outputs

MOST_ARMS = 20  # that are listed, the best ones
_LONG = ("learning", "procedure")  # metadata that would fill the screen


def inspect(
    folder: Annotated[
        Path, typer.Argument(parser=opt.path_option, help="Folder of a prior or a fit.")
    ],
    figure: Annotated[
        Path | None,
        opt.output("Picture to write; by default prior.png in the folder.", path="FILE"),
    ] = None,
) -> None:
    """Summarise a saved prior, and draw it; or what was fitted to a log."""
    from diffts.diffusion.prior import DiffusionPrior
    from diffts.figures import draw_prior
    from diffts.storage import kind_of

    if kind_of(folder) == "diffts.fitted":
        _inspect_fit(folder)
        return
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


def _inspect_fit(folder: Path) -> None:
    """The verdict, and the arms by their names."""
    from diffts.bandits.noise import noise_to_json
    from diffts.fitting import Fitted

    fitted = Fitted.load(folder)
    facts = fitted.facts
    noise = {k: v for k, v in noise_to_json(fitted.noise).items() if v is not None}
    say(facts.get("verdict", {}).get("headline", "No verdict was kept."))
    table = Table("what", "value", show_header=False)
    for name, value in {
        "belief": fitted.kind,
        "noise": ", ".join(f"{k} {v:.4g}" if k != "name" else str(v) for k, v in noise.items()),
        "an arm never seen": f"{fitted.new_arms.mean:.4g} ± {fitted.new_arms.std:.4g}",
        **{k: v for k, v in facts.get("log", {}).items() if isinstance(v, int | float | str)},
    }.items():
        table.add_row(escape(name), escape(str(value)))
    out.print(table)
    arms = Table("arm", "pulls", "tasks", "mean", "between tasks")
    for arm in sorted(facts.get("arms", []), key=lambda one: -one["mean"])[:MOST_ARMS]:
        numbers = (
            str(arm["pulls"]),
            str(arm["tasks"]),
            f"{arm['mean']:.4g}",
            f"± {arm['std']:.4g}",
        )
        arms.add_row(escape(arm["name"]), *numbers)
    out.print(arms)
    say(f"{len(fitted.arms)} arms; all of it in {folder / 'report.html'}")


def _metadata(metadata: dict[str, Any]) -> dict[str, str]:
    """Metadata as rows; of learning from imperfect data only the outcome."""
    rows = {key: str(value) for key, value in metadata.items() if key not in _LONG}
    told = metadata.get("learning")
    if not isinstance(told, dict):
        return rows
    try:
        if told.get("held_out_regret") is not None:
            rows["held-out regret of a round"] = f"{told['held_out_regret']:.4g}"
        else:
            rows["held-out CRPS, error of the mean"] = (
                f"{told['held_out_crps']:.4g}, {told['held_out_rmse']:.4g}"
            )
        rows["arms never observed, seldom calibrated"] = (
            f"{len(told['arms_never_observed'])}, {len(told['arms_seldom_calibrated'])}"
        )
    except (KeyError, TypeError, ValueError):
        rows["learning"] = "told in another way than this diffts does"
    return rows
