"""Commands about the prior itself: how exact its draws are, and what it completes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from diffts.cli.common import CheckpointFolder, JsonFile, out, progress, say
from diffts.cli.keeping import kept_training
from diffts.cli.outputs import check_outputs, write_json

if TYPE_CHECKING:
    from diffts.experiments.accuracy import AccuracyRow


def accuracy(
    sampler: Annotated[
        list[str] | None,
        typer.Option(help="A sampler to measure; repeat for several. Default: paper and moment."),
    ] = None,
    steps: Annotated[int, typer.Option(help="Length of the reverse chain, 1 to 100.")] = 100,
    samples: Annotated[int, typer.Option(help="Draws for each row.")] = 50_000,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
    json_file: JsonFile = None,
) -> None:
    """Compare posterior draws with exact posteriors.

    Draws from priors whose posterior is known in closed form and prints, row by row, mean and
    standard deviation of the observed arm 0 and of an unobserved arm beside the exact ones, and
    the errors in units of the exact standard deviation.
    """
    from diffts.experiments.accuracy import DEFAULT_SAMPLERS, NOISE_STDS, measure_accuracy

    check_outputs({"--json": json_file})
    table = Table(
        "prior",
        "sampler",
        title=f"Posterior draws against exact posteriors, {steps} steps",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for name in ("noise", "observed arm\n(exact)", "error", "unobserved arm\n(exact)", "error"):
        table.add_column(name, justify="right")
    rows = []
    with progress("measuring", None) as advance:
        for row in measure_accuracy(sampler or DEFAULT_SAMPLERS, steps, samples, seed):
            rows.append(row)
            advance(len(rows), f"{row.prior} {row.sampler}")
            table.add_row(
                row.prior,
                row.sampler,
                f"{row.noise_std:g}",
                *_moments_and_error(row, "observed"),
                *_moments_and_error(row, "unobserved"),
                end_section=row.noise_std == NOISE_STDS[-1],
            )
    try:
        write_json(json_file, [dataclasses.asdict(row) for row in rows])
    finally:
        out.print(table)
        say(
            f"Mean ± sd of {samples} draws a row. 'error' is the larger error of the two, in units "
            f"of the exact sd; Monte Carlo alone gives about {samples**-0.5:.1%}."
        )


def groups(
    network: Annotated[str, typer.Option(help="Network to train.")] = "residual-conv",
    train_steps: Annotated[int, typer.Option(help="Gradient steps of the training.")] = 15_000,
    checkpoint: CheckpointFolder = None,
    seed: Annotated[int, typer.Option(help="Seed of data, training and draws.")] = 0,
    json_file: JsonFile = None,
) -> None:
    """Train on the 20 Groups toy and complete half-hidden tasks.

    Prints recall and precision of the groups found in posterior draws, with predicted and with
    sampled noise.
    """
    from diffts.experiments.groups import GroupsConfig, measure_groups

    check_outputs({"--json": json_file}, {"--checkpoint": checkpoint})
    config = GroupsConfig(network=network, train_steps=train_steps, seed=seed)
    with (
        kept_training(checkpoint, Path("diffts-groups-checkpoint")) as folder,
        progress("training", train_steps) as advance,
    ):
        result, _ = measure_groups(
            config, lambda state: advance(int(state.step), f"loss {float(state.loss):.4f}"), folder
        )
    table = Table(title="20 Groups: half of the entries hidden, 100 tasks")
    for name in ("diffused observation", "recall", "precision"):
        table.add_column(name, justify="left" if name.startswith("diff") else "right")
    table.add_row(
        "predicted noise", f"{result.recall_predicted:.1%}", f"{result.precision_predicted:.1%}"
    )
    table.add_row(
        "sampled noise", f"{result.recall_sampled:.1%}", f"{result.precision_sampled:.1%}"
    )
    try:
        write_json(json_file, dataclasses.asdict(result))
    finally:
        out.print(table)


def _moments_and_error(row: AccuracyRow, arm: str) -> tuple[str, str]:
    """``mean±sd (exact mean±sd)`` of an arm and the larger of its two errors."""
    names = [f"{arm}_mean", f"{arm}_sd", f"exact_{arm}_mean", f"exact_{arm}_sd"]
    values = [getattr(row, name) for name in names]
    if None in values:
        return "-", "-"
    errors = row.errors()
    worst = max(abs(errors[name] or 0.0) for name in names[:2])
    return "{:.3f}±{:.3f} ({:.3f}±{:.3f})".format(*values), f"{worst:.1%}"


COMMANDS: dict[Callable[..., Any], str] = {
    accuracy: "diffts accuracy --sampler moment --steps 20 --json rows.json",
    groups: "diffts groups --network residual-mlp --json scores.json",
}
