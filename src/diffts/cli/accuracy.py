"""``diffts accuracy``: how exact posterior draws are."""

from __future__ import annotations

from typing import Annotated, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from diffts.cli import options as opt
from diffts.cli.console import out, progress, say, table_of
from diffts.cli.learning import given_priors
from diffts.cli.outputs import check_outputs, do_all, write_json
from diffts.cli.plugins import load_plugins
from diffts.errors import InvalidInputError

#: What draws are compared with: posteriors in closed form, or that of a law after play.
CLOSED_FORMS, AFTER_PLAY = "closed-forms", "popular-niche"
_NARROW: dict[str, Any] = {"box": SIMPLE_HEAD, "pad_edge": False, "collapse_padding": True}


def accuracy(
    prior: Annotated[
        str,
        opt.problem(
            "'closed-forms': Gaussians and a mixture. 'popular-niche': the true law of that "
            "problem, with its exact denoiser, after 5, 50 and 300 rounds of play."
        ),
    ] = CLOSED_FORMS,
    learned: Annotated[
        str | None,
        opt.problem(
            "With popular-niche: folder of a learned prior, or 'builtin'. Also print by how much "
            "its denoiser errs more than the exact one, step by step."
        ),
    ] = None,
    sampler: Annotated[
        list[str] | None,
        opt.playing(
            "A sampler to measure; repeatable. Default: paper and moment; with popular-niche also "
            "those that the law needs."
        ),
    ] = None,
    steps: Annotated[int, opt.playing("Length of the reverse chain, 1 to 100.")] = 100,
    samples: Annotated[
        int | None, opt.playing("Draws for each row: 50000; with popular-niche, 4000.")
    ] = None,
    plugin: opt.Plugins = None,
    seed: opt.Seed = 0,
    json_file: opt.JsonFile = None,
) -> None:
    """Compare posterior draws with exact posteriors.

    Draws from priors whose posterior is known in closed form and prints, row by row, mean and
    standard deviation of the observed arm 0 and of an unobserved arm beside the exact ones, and
    the errors in units of the exact standard deviation.

    With --prior popular-niche: errors after play, of means and standard deviations, of the chance
    of each group of arms, and of the chance to be the best arm.
    """
    load_plugins(plugin)
    from diffts.validation import one_of

    one_of("prior", prior, (CLOSED_FORMS, AFTER_PLAY))
    if learned is not None and prior != AFTER_PLAY:
        raise InvalidInputError(f"--learned: goes with --prior {AFTER_PLAY}")
    inputs = {"--plugin": plugin, "--learned": [learned] if learned else None}
    check_outputs({"--json": json_file}, inputs=inputs)
    rows: list[dict[str, Any]] = []
    if prior == CLOSED_FORMS:
        samples = 50_000 if samples is None else samples
        tables = [_against_closed_forms(rows, sampler, steps, samples, seed)]
        note = (
            f"Mean ± sd of {samples} draws a row. 'error' is the larger error of the two, in units "
            f"of the exact sd; Monte Carlo alone gives about {samples**-0.5:.1%}."
        )
    else:
        samples = 4000 if samples is None else samples
        # What a folder lacks is said before the work.
        excess = [] if learned is None else [_excess(rows, learned, seed)]
        tables = [_after_play(rows, sampler, steps, samples, seed), *excess]
        note = (
            f"{samples} draws a task. 'mean' and 'sd': root mean square error over arms and tasks, "
            "in exact sds; 'group': the largest error of the chance that a group's best arm "
            "exceeds 0.5; 'best arm': share of the chance to be best that lies with other arms. "
            "Sampler 'exact' draws from the exact posterior: what chance alone gives."
        )
    do_all(lambda: write_json(json_file, rows), lambda: out.print(*tables))
    say(note)


def _against_closed_forms(
    rows: list[dict[str, Any]], samplers: list[str] | None, steps: int, samples: int, seed: int
) -> Table:
    """Rows of Gaussians and a mixture, and their table."""
    from diffts.experiments.accuracy import DEFAULT_SAMPLERS, NOISE_STDS, measure_accuracy

    title = f"Posterior draws against exact posteriors, {steps} steps"
    numbers = ("noise", "observed arm\n(exact)", "error", "unobserved arm\n(exact)", "error")
    table = table_of(title, ["prior", "sampler"], *numbers, **_NARROW)
    with progress("measuring", None) as advance:
        for row in measure_accuracy(samplers or DEFAULT_SAMPLERS, steps, samples, seed):
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
    return table


def _after_play(
    rows: list[dict[str, Any]], samplers: list[str] | None, steps: int, samples: int, seed: int
) -> Table:
    """Rows of the exact denoiser after play, and their table."""
    from diffts.experiments.play_accuracy import DEFAULT_SAMPLERS, measure_after_play

    chosen = samplers or DEFAULT_SAMPLERS
    title = f"Draws with the exact denoiser of Popular and Niche after play, {steps} steps"
    table = table_of(title, ["sampler"], "rounds", "mean", "sd", "group", "best arm", **_NARROW)
    with progress("measuring", None) as advance:
        for row in measure_after_play(chosen, steps, samples, seed):
            rows.append(row)
            advance(len(rows), f"{row['sampler']} after {row['rounds']} rounds")
            table.add_row(
                row["sampler"],
                f"{row['rounds']}",
                f"{row['mean_error']:.1%}",
                f"{row['sd_error']:.1%}",
                f"{row['group_error']:.3f}",
                f"{row['best_error']:.3f}",
                end_section=row["sampler"] == chosen[-1],
            )
    return table


def _excess(rows: list[dict[str, Any]], learned: str, seed: int) -> Table:
    """Rows of a learned denoiser beside the exact one, and their table."""
    from diffts.experiments.denoiser_excess import TASKS, excess_by_step
    from diffts.problems import get_problem

    [given] = given_priors([learned], get_problem(AFTER_PLAY))
    title = f"Error τ of the denoiser on {TASKS} development tasks"
    table = table_of(title, ["step"], "exact", "learned", "ratio of τ²", **_NARROW)
    for row in excess_by_step(given, seed=seed):
        rows.append(row)
        more = f"{1.0 + row['excess']:.2f} ± {row['excess_stderr']:.2f}"
        table.add_row(
            f"{row['step']}", f"{row['exact_tau']:.4f}", f"{row['learned_tau']:.4f}", more
        )
    return table


def _moments_and_error(row: dict[str, Any], arm: str) -> tuple[str, str]:
    """``mean±sd (exact mean±sd)`` of an arm and the larger of its two errors."""
    mean, sd, exact_mean, exact_sd = (
        row[f"{of}{arm}_{moment}"] for of in ("", "exact_") for moment in ("mean", "sd")
    )
    if mean is None:
        return "-", "-"
    worst = max(abs(mean - exact_mean), abs(sd - exact_sd)) / exact_sd
    return f"{mean:.3f}±{sd:.3f} ({exact_mean:.3f}±{exact_sd:.3f})", f"{worst:.1%}"
