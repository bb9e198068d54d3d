"""``diffts accuracy``: how exact posterior draws are."""

from __future__ import annotations

from typing import Annotated, Any

from rich.box import SIMPLE_HEAD

from diffts.cli import options as opt
from diffts.cli.console import out, progress, say, table_of
from diffts.cli.outputs import check_outputs, do_all, write_json
from diffts.cli.plugins import load_plugins


def accuracy(
    sampler: Annotated[
        list[str] | None,
        opt.playing("A sampler to measure; repeatable. Default: paper and moment."),
    ] = None,
    steps: Annotated[int, opt.playing("Length of the reverse chain, 1 to 100.")] = 100,
    samples: Annotated[int, opt.playing("Draws for each row.")] = 50_000,
    plugin: opt.Plugins = None,
    seed: opt.Seed = 0,
    json_file: opt.JsonFile = None,
) -> None:
    """Compare posterior draws with exact posteriors.

    Draws from priors whose posterior is known in closed form and prints, row by row, mean and
    standard deviation of the observed arm 0 and of an unobserved arm beside the exact ones, and
    the errors in units of the exact standard deviation.
    """
    load_plugins(plugin)
    from diffts.experiments.accuracy import DEFAULT_SAMPLERS, NOISE_STDS, measure_accuracy

    check_outputs({"--json": json_file}, inputs={"--plugin": plugin})
    title = f"Posterior draws against exact posteriors, {steps} steps"
    numbers = ("noise", "observed arm\n(exact)", "error", "unobserved arm\n(exact)", "error")
    narrow: dict[str, Any] = {"box": SIMPLE_HEAD, "pad_edge": False, "collapse_padding": True}
    table = table_of(title, ["prior", "sampler"], *numbers, **narrow)
    rows = []
    with progress("measuring", None) as advance:
        for row in measure_accuracy(sampler or DEFAULT_SAMPLERS, steps, samples, seed):
            rows.append(row)
            advance(len(rows), f"{row['prior']} {row['sampler']}")
            table.add_row(
                row["prior"],
                row["sampler"],
                f"{row['noise_std']:g}",
                *_moments_and_error(row, "observed"),
                *_moments_and_error(row, "unobserved"),
                end_section=row["noise_std"] == NOISE_STDS[-1],
            )
    do_all(lambda: write_json(json_file, rows), lambda: out.print(table))
    say(
        f"Mean ± sd of {samples} draws a row. 'error' is the larger error of the two, in units "
        f"of the exact sd; Monte Carlo alone gives about {samples**-0.5:.1%}."
    )


def _moments_and_error(row: dict[str, Any], arm: str) -> tuple[str, str]:
    """``mean±sd (exact mean±sd)`` of an arm and the larger of its two errors."""
    mean, sd, exact_mean, exact_sd = (
        row[f"{of}{arm}_{moment}"] for of in ("", "exact_") for moment in ("mean", "sd")
    )
    if mean is None:
        return "-", "-"
    worst = max(abs(mean - exact_mean), abs(sd - exact_sd)) / exact_sd
    return f"{mean:.3f}±{sd:.3f} ({exact_mean:.3f}±{exact_sd:.3f})", f"{worst:.1%}"
