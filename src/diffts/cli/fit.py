"""``diffts fit``: from a table of logs to a folder that decisions can be made with."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from diffts.cli import options as opt
from diffts.cli.console import say
from diffts.cli.outputs import check_outputs


def fit(
    logs: Annotated[
        str, typer.Argument(help="CSV or Parquet: a file, a folder, a pattern; or URL#table.")
    ],
    folder: Annotated[Path, opt.output("Folder for the result.", "--out", path="DIR")],
    task: Annotated[str, opt.problem("Column of the task: a user, a campaign, a route.")] = "task",
    arm: Annotated[str, opt.problem("Column of the arm: what was chosen.")] = "arm",
    reward: Annotated[str, opt.problem("Column of the reward.")] = "reward",
    time_column: Annotated[
        str | None, opt.problem("Column of the time, if there is one.", "--time")
    ] = None,
    count: Annotated[
        str | None, opt.problem("Column of how many pulls a row stands for, if it is not one.")
    ] = None,
    propensity: Annotated[
        str | None, opt.problem("Column of the chance with which the arm was chosen, if known.")
    ] = None,
    min_pulls: Annotated[
        int, opt.problem("Arms pulled less often in the whole log are left out.")
    ] = 1,
    minutes: Annotated[
        float, opt.learning("Time for all of it; with 0 the diffusion prior is left out.")
    ] = 8.0,
    decisions: Annotated[
        int,
        opt.playing("Decisions that a new task typically gets: the race that judges is so long."),
    ] = 100,
    rule: Annotated[str, opt.playing("Rule of the race that judges.")] = "default",
    seed: opt.Seed = 0,
) -> None:
    """Learn from a log, judge what was learned, and keep the best: with a report."""
    from diffts.extras import require

    for package in ("ibis", "matplotlib", "sklearn"):
        require(package, "diffts fit")
    check_outputs({}, {"--out": folder}, {}, out_kind="diffts.fitted")
    from diffts.bandits.rules import make_rule
    from diffts.fitting.budget import Budget
    from diffts.fitting.from_log import fit as fit_log
    from diffts.fitting.race import LEAST_DECISIONS, MOST_DECISIONS
    from diffts.logs import Columns, read_log
    from diffts.validation import whole_number

    make_rule(rule)  # before the log is read
    whole_number("decisions", decisions, LEAST_DECISIONS, MOST_DECISIONS)
    budget = Budget(minutes)

    def tell(what: str) -> None:
        say(f"{budget.used:6.0f} s  {what}")

    columns = Columns(task, arm, reward, time=time_column, count=count, propensity=propensity)
    tell("reading the log")
    with budget.part("reading"):
        log = read_log(logs, columns, min_pulls_of_an_arm=min_pulls)
    for remark in log.facts.sentences():
        say(f"          {remark}")
    command = " ".join(["diffts", *sys.argv[1:]])
    fitted = fit_log(
        log,
        minutes=budget,
        decisions=decisions,
        rule=rule,
        seed=seed,
        command=command,
        on_progress=tell,
    )
    fitted.report(folder)
    fitted.save(folder)  # last: whoever finds it finds the report, too
    say(fitted.facts["verdict"]["headline"])
    say(f"Saved in {folder}: open report.html; then diffts decide {folder} choose --task NAME")
