"""The command that regenerates the paper's figures and numbers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from diffts.cli.common import complain, err, out, path_option, progress, say
from diffts.cli.outputs import check_outputs
from diffts.cli.signals import this_command


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Experiments; all of them if none is named.")
    ] = None,
    profile: Annotated[
        str, typer.Option(help="'smoke': everything tiny, in minutes; 'paper': full size, a GPU.")
    ] = "smoke",
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out",
            parser=path_option,
            metavar="DIR",
            help="Folder for results; out/reproduce-PROFILE.",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            parser=path_option,
            metavar="DIR",
            help="Folder with mnist/, fashion_mnist/ and ipinyou_slots/ (real data).",
        ),
    ] = None,
    problem: Annotated[
        list[str] | None,
        typer.Option(help="Only this problem, to divide the work; repeatable."),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(help="Only so many of the profile's seeds, in an --out of their own."),
    ] = None,
    finished: Annotated[
        bool, typer.Option("--finished", help="Run nothing: write again what is finished.")
    ] = False,
    names_only: Annotated[bool, typer.Option("--list", help="Name the experiments.")] = False,
) -> None:
    """Regenerate the paper's experiments: rows (CSV), a summary (JSON) and a picture of each.

    Can be stopped at any time: finished parts are not run again.
    """
    from diffts.reproduction import EXPERIMENTS
    from diffts.reproduction import reproduce as run

    if names_only:
        table = Table("experiment", "what it shows", show_header=True)
        for name, experiment in EXPERIMENTS.items():
            table.add_row(name, experiment.about)
        out.print(table)
        return
    if folder is None:
        few = "" if seeds is None else f"-seeds{seeds}"  # a folder has one number of seeds
        folder = Path("out") / f"reproduce-{profile}{few}"
    check_outputs({}, {"--out": folder})
    started = time.perf_counter()
    with progress("reproducing", 1) as advance:

        def report(line: str, done: int, total: int) -> None:
            advance(done, line, total)
            if not err.is_terminal:  # no bar in a log: lines instead
                elapsed = time.perf_counter() - started
                err.print(
                    f"{elapsed:6.0f} s  {done}/{total}  {line}", highlight=False, soft_wrap=True
                )

        problems = problem or ()
        try:
            outcome = run(
                names or (),
                profile,
                folder,
                data_dir,
                problems,
                report,
                finished_only=finished,
                seeds=seeds,
            )
        except KeyboardInterrupt:
            complain(f"finished parts are kept; go on with: {this_command()}", "stopped")
            raise
    table = Table("experiment", "outcome")
    for name, result in outcome.items():
        table.add_row(name, result)
    out.print(table)
    if outcome.get("claims") == "done":
        _print_claims(folder)
        if profile == "smoke":
            out.print("Everything was tiny: these verdicts say nothing about the paper.")
    say(f"{time.perf_counter() - started:.0f} s; results in {folder}/")


def _print_claims(folder: Path) -> None:
    """The paper's claims beside what was measured."""
    from diffts.reproduction import judge_claims, tally

    words = {True: "yes", False: "no", None: "-"}
    table = Table("the paper says", "measured", "agrees", show_lines=True)
    verdicts = judge_claims(folder)
    for claim, measured, agrees in verdicts:
        table.add_row(claim, measured, words[agrees])
    out.print(table)
    out.print(tally(verdicts).in_words, highlight=False)


COMMANDS: dict[Callable[..., Any], str] = {
    reproduce: "diffts reproduce main groups --profile smoke --out out/reproduce",
}
