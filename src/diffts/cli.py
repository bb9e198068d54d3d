"""The command line. Each command reads one thing, writes one thing, and exits with

0 when it did its work, 1 when something outside failed (a file, a device), 2 when the user asked
for something impossible. A user's mistake is one line on standard error, never a traceback.
"""  # noqa: D415

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from diffts._version import __version__
from diffts.errors import DifftsError, InvalidInputError

if TYPE_CHECKING:
    from diffts.experiments.accuracy import AccuracyRow

app = typer.Typer(
    name="diffts",
    help="Thompson sampling with a learned diffusion prior.",
    epilog="Example:  diffts accuracy --sampler moment --steps 20",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
# Into a file or a pipe, tables are written in full instead of cut to 80 columns.
_out = Console(width=None if sys.stdout.isatty() else 140)
_err = Console(stderr=True)

JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Also write the result to this JSON file.")
]


def main() -> None:
    """Entry point of the ``diffts`` command."""
    try:
        app()
    except KeyboardInterrupt:
        code = 130
    except InvalidInputError as error:
        code = _fail(str(error), 2)
    except DifftsError as error:
        code = _fail(str(error), 1)
    except OSError as error:
        code = _fail(f"{error.filename or 'system'}: {error.strerror or error}", 1)
    sys.exit(code)


def _fail(message: str, code: int) -> int:
    _err.print(f"[bold red]error:[/] {message}", highlight=False, soft_wrap=True)
    return code


def _show_version(wanted: bool) -> None:
    if wanted:
        _out.print(f"diffts {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Thompson sampling with a learned diffusion prior."""
    del version
    _turn_on_compile_cache()


def _turn_on_compile_cache() -> None:
    """Keep compiled programs between runs: the second start of a command compiles nothing.

    Only the command line does this; the library leaves JAX's settings to its user. The folder is
    JAX_COMPILATION_CACHE_DIR, or diffts/ in the user's cache folder.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    import jax

    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jax.config.update("jax_compilation_cache_dir", str(root / "diffts" / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


@app.command(
    epilog="Examples:  diffts accuracy  |  diffts accuracy --sampler moment --steps 20"
)
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

    _check_writable(json_file)
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
    with _progress("measuring", None) as advance:
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
    _out.print(table)
    _out.print(
        f"Mean ± sd of {samples} draws a row. 'error' is the larger error of the two, in units of "
        f"the exact sd; Monte Carlo alone gives about {samples**-0.5:.1%}.",
        highlight=False,
    )
    _write_json(json_file, [dataclasses.asdict(row) for row in rows])


@app.command(
    epilog="Examples:  diffts groups  |  diffts groups --network residual-mlp --json g.json"
)
def groups(
    network: Annotated[str, typer.Option(help="Network to train.")] = "residual-conv",
    train_steps: Annotated[int, typer.Option(help="Gradient steps of the training.")] = 15_000,
    seed: Annotated[int, typer.Option(help="Seed of data, training and draws.")] = 0,
    json_file: JsonFile = None,
) -> None:
    """Train on the 20 Groups toy and complete half-hidden tasks.

    Prints recall and precision of the groups found in posterior draws, with predicted and with
    sampled noise.
    """
    from diffts.experiments.groups import GroupsConfig, measure_groups

    _check_writable(json_file)
    config = GroupsConfig(network=network, train_steps=train_steps, seed=seed)
    with _progress("training", train_steps) as advance:
        result, _ = measure_groups(
            config, lambda state: advance(int(state.step), f"loss {float(state.loss):.4f}")
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
    _out.print(table)
    _write_json(json_file, dataclasses.asdict(result))


def _moments_and_error(row: AccuracyRow, arm: str) -> tuple[str, str]:
    """``mean±sd (exact mean±sd)`` of an arm and the larger of its two errors."""
    names = [f"{arm}_mean", f"{arm}_sd", f"exact_{arm}_mean", f"exact_{arm}_sd"]
    values = [getattr(row, name) for name in names]
    if None in values:
        return "-", "-"
    errors = row.errors()
    worst = max(abs(errors[name] or 0.0) for name in names[:2])
    return "{:.3f}±{:.3f} ({:.3f}±{:.3f})".format(*values), f"{worst:.1%}"


@contextmanager
def _progress(what: str, total: int | None) -> Iterator[Callable[[int, str], None]]:
    """A bar on standard error that disappears when done; silent where that is not a terminal."""
    columns: list[Any] = [TextColumn("{task.description}"), BarColumn()]
    if total is not None:
        columns += [TextColumn("{task.completed}/{task.total}"), TimeRemainingColumn()]
    columns.append(TextColumn("{task.fields[note]}"))
    with Progress(*columns, console=_err, transient=True, disable=not _err.is_terminal) as bar:
        task = bar.add_task(what, total=total, note="")
        yield lambda done, note: bar.update(task, completed=done, note=note)


def _check_writable(path: Path | None) -> None:
    """Say that a result cannot be written before the work, not after it."""
    if path is None:
        return
    if path.is_dir():
        raise InvalidInputError(f"--json: {path} is a folder")
    if not path.resolve().parent.is_dir():
        raise InvalidInputError(f"--json: no folder {path.resolve().parent}")


def _write_json(path: Path | None, result: Any) -> None:
    if path is not None:
        path.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
