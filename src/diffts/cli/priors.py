"""Commands about priors: to learn and to look at one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from diffts.cli.common import CheckpointFolder, out, path_option, say
from diffts.cli.keeping import beside, kept_training
from diffts.cli.learning import (
    Data,
    Missing,
    Noise,
    PastTasks,
    ProcedureName,
    Sure,
    find_problem,
    imperfect_data,
    imperfect_recipe,
    learn_with_progress,
    print_account,
    with_steps,
)
from diffts.cli.outputs import check_outputs, check_prior_folder, save_prior
from diffts.errors import InvalidInputError

_LONG = ("learning", "procedure")  # metadata that would fill the screen


def train(
    problem: Annotated[str, typer.Argument(help="Name of the problem.")],
    folder: Annotated[
        Path,
        typer.Option("--out", parser=path_option, metavar="DIR", help="Folder for the prior."),
    ],
    network: Annotated[str | None, typer.Option(help="Network; the problem's own.")] = None,
    train_steps: Annotated[int, typer.Option("--steps", help="Gradient steps.")] = 15_000,
    paper: Annotated[
        bool, typer.Option("--paper-recipe", help="Constant learning rate and no average.")
    ] = False,
    checkpoint: CheckpointFolder = None,
    seed: Annotated[int, typer.Option(help="Seed of data and training.")] = 0,
    data: Data = "clean",
    missing: Missing = 0.5,
    noise: Noise = 0.1,
    procedure: ProcedureName = "default",
    sure: Sure = None,
    past_tasks: PastTasks = None,
) -> None:
    """Learn and calibrate a problem's diffusion prior, and save it.

    Stopped by Ctrl-C or SIGTERM, it keeps the training in a folder beside --out (or in that of
    --checkpoint) and prints the command that goes on.
    """
    from diffts.diffusion.networks import NETWORKS
    from diffts.experiments.compare import Race, Recipe, past_and_test
    from diffts.learning import TrainingConfig
    from diffts.validation import one_of

    check_outputs({}, {"--out": folder, "--checkpoint": checkpoint})
    check_prior_folder("--out", folder)
    chosen = find_problem(problem)
    if network is not None:
        one_of("network", network, NETWORKS)
    recipe = with_steps(Recipe(network=network), train_steps)
    sets = past_and_test(chosen, past_tasks, 0, seed)
    asked = procedure != "default" or sure is not None
    known = imperfect_data(data, sets, missing, noise, asked, seed)
    if known is not None:
        if paper:
            raise InvalidInputError("--paper-recipe: for clean data; here --procedure paper")
        recipe = imperfect_recipe(recipe, procedure, train_steps, sure)
    elif paper:
        recipe = dataclasses.replace(recipe, training=TrainingConfig(steps=train_steps))
    race = Race(chosen, sets, None, recipe, seed, imperfect=known)
    with kept_training(checkpoint, beside(folder, "checkpoint")) as race.checkpoint:
        learned = learn_with_progress(race, train_steps)
        save_prior(learned, folder)
    if known is not None:
        print_account(learned)
    say(f"Saved a prior over {learned.n_arms} arms in {folder}")


def inspect(
    folder: Annotated[Path, typer.Argument(parser=path_option, help="Folder of a prior.")],
    figure: Annotated[
        Path | None,
        typer.Option(
            parser=path_option,
            metavar="FILE",
            help="Picture to write; by default prior.png in the folder.",
        ),
    ] = None,
) -> None:
    """Summarise a saved prior, and draw it."""
    import numpy as np

    from diffts.diffusion.prior import DiffusionPrior
    from diffts.figures import draw_prior

    prior = DiffusionPrior.load(folder)
    figure = folder / "prior.png" if figure is None else figure
    check_outputs({"--figure": figure})
    recipe = dict(prior.denoiser.recipe())
    error = prior.reconstruction_error
    if not np.isfinite(error).all():
        raise InvalidInputError("tau: not finite")
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
        "mean and sd of draws": "{:.4g}, {:.4g}".format(*_mean_sd(prior.sample(200))),
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


def _mean_sd(values: Any) -> tuple[float, float]:
    return float(values.mean()), float(values.std())


COMMANDS: dict[Callable[..., Any], str] = {
    train: "diffts train popular-niche --out priors/popular-niche --data imperfect",
    inspect: "diffts inspect priors/popular-niche",
}
