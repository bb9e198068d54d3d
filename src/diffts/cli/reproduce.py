"""``diffts reproduce``: the paper's figures and numbers, again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from diffts.cli import options as opt
from diffts.cli.console import complain, err, out, progress, say
from diffts.cli.outputs import check_outputs
from diffts.cli.signals import this_command


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Experiments; all of them if none is named.")
    ] = None,
    profile: Annotated[
        str, opt.problem("'smoke': everything tiny, in minutes; 'paper': full size, a GPU.")
    ] = "smoke",
    problem: Annotated[
        list[str] | None, opt.problem("Only this problem, to divide the work; repeatable.")
    ] = None,
    data: Annotated[
        list[str] | None, opt.problem("Only plots of this kind of data; repeatable.")
    ] = None,
    line: Annotated[
        list[str] | None,
        opt.problem("Only this line of the plots, as 'gts-full:default'; repeatable."),
    ] = None,
    seeds: Annotated[
        int | None, opt.problem("Only so many of the profile's seeds, in an --out of their own.")
    ] = None,
    data_dir: Annotated[
        Path | None,
        opt.problem("Real data: mnist/, fashion_mnist/ and ipinyou_slots/ are there.", path="DIR"),
    ] = None,
    folder: Annotated[
        Path | None, opt.output("Folder for results; out/reproduce-PROFILE.", "--out", path="DIR")
    ] = None,
    finished: Annotated[
        bool, opt.output("Run nothing: write again what is finished.", "--finished")
    ] = False,
    parts: Annotated[
        bool,
        opt.output("Make parts, write nothing of them: for several processes at once.", "--parts"),
    ] = False,
    names_only: Annotated[bool, opt.output("Name the experiments.", "--list")] = False,
) -> None:
    """Regenerate the paper's experiments: rows (CSV), a summary (JSON) and a picture of each.

    Can be stopped at any time: finished parts are not run again.
    """
    from diffts import reproduction

    if names_only:
        table = Table("experiment", "what it shows")
        for name, experiment in reproduction.EXPERIMENTS.items():
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
                told = f"{time.perf_counter() - started:6.0f} s  {done}/{total}  {line}"
                err.print(told, highlight=False, soft_wrap=True)

        try:
            asked = (names or (), profile, folder, data_dir, problem or (), report)
            how: dict[str, Any] = {"finished_only": finished, "seeds": seeds}
            how |= {"data": data or (), "lines": line or (), "parts_only": parts}
            outcome = reproduction.reproduce(*asked, **how)
        except KeyboardInterrupt:
            complain(f"finished parts are kept; go on with: {this_command()}", "stopped")
            raise
    table = Table("experiment", "outcome")
    for name, result in outcome.items():
        table.add_row(name, result)
    if outcome:
        out.print(table)
    if outcome.get("claims") == "done":
        verdicts = reproduction.judge_claims(folder)
        answers = {True: "yes", False: "no", None: "-"}
        table = Table("the paper says", show_lines=True)
        for whose in reproduction.WHOSE:
            table.add_column(whose)
            table.add_column("agrees")
        for claim, *judged in verdicts:
            cells = ((one.measured, answers[one.agrees]) for one in judged)
            table.add_row(claim, *(cell for pair in cells for cell in pair))
        out.print(table)
        for whose, count in reproduction.tally(verdicts).items():
            out.print(f"{whose}: {count.in_words}", highlight=False)
        if profile == "smoke":
            out.print("Everything was tiny: these verdicts say nothing about the paper.")
    say(f"{time.perf_counter() - started:.0f} s; results in {folder}/")
