"""``diffts backtest``: what a fitted belief would have earned, from a log of another policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffts.cli import options as opt
from diffts.cli.console import complain, out, progress, say, table_of
from diffts.cli.outputs import check_outputs, do_all, write_json
from diffts.errors import InvalidInputError

if TYPE_CHECKING:
    from diffts.backtest import BacktestResult


def backtest(
    folder: Annotated[
        Path, typer.Argument(parser=opt.path_option, metavar="DIR", help="What a log has taught.")
    ],
    logs: Annotated[
        Path, typer.Argument(parser=opt.path_option, help="Logged rounds: a CSV or Parquet file.")
    ],
    task: Annotated[
        str, opt.problem("Column of the task; several with commas are one name.")
    ] = "task",
    arm: Annotated[str, opt.problem("Column of the arm that was played.")] = "arm",
    reward: Annotated[str, opt.problem("Column of what it gave.")] = "reward",
    propensity: Annotated[
        str | None, opt.problem("Column of the chance with which it was played; 'propensity'.")
    ] = None,
    time: Annotated[str | None, opt.problem("Column to order rows by; else as they are.")] = None,
    offered: Annotated[
        str | None, opt.problem("Column of the arms on offer: a list, or names with | between.")
    ] = None,
    uniform: Annotated[
        bool, opt.problem("The log has no propensities: every arm was equally likely.", "--uniform")
    ] = False,
    rule: Annotated[
        list[str] | None, opt.playing("Rule to judge; repeatable. Default: default, thompson.")
    ] = None,
    floor: Annotated[float, opt.playing("Least chance of every arm of the rules judged.")] = 0.0,
    draws: Annotated[int, opt.playing("Choices that a chance is counted in.")] = 100,
    estimator: Annotated[
        list[str] | None, opt.playing("Estimator; repeatable. Default: all of them.")
    ] = None,
    clip: Annotated[float | None, opt.playing("Largest weight of clipped IPS; √rounds.")] = None,
    seed: opt.Seed = 0,
    json_file: opt.JsonFile = None,
) -> None:
    """Judge a fitted belief by a log of another policy, without playing it.

    The log needs the chance with which each arm was played, and should be of other tasks than
    those that the belief was fitted on.
    """
    from diffts.backtest import ESTIMATORS, read_rounds
    from diffts.backtest import backtest as judge
    from diffts.bandits import RULES
    from diffts.circumstances import circumstances
    from diffts.fitting import Fitted
    from diffts.validation import number_between, one_of

    rules = [one_of("rule", one, RULES) for one in rule or ("default", "thompson")]
    names = [one_of("estimator", one, ESTIMATORS) for one in estimator or ESTIMATORS]
    number_between("floor", floor, 0.0, 1.0)
    if uniform and propensity is not None:
        raise InvalidInputError("--uniform: has no meaning with --propensity")
    check_outputs({"--json": json_file}, inputs={"DIR": [folder], "LOGS": [logs]})
    fitted = Fitted.load(folder)
    columns: dict[str, Any] = {"task": task.split(",") if "," in task else task}
    columns |= {"arm": arm, "reward": reward}
    optional = {"propensity": propensity, "time": time, "offered": offered}
    columns |= {part: name for part, name in optional.items() if name is not None}
    rounds = read_rounds(logs, columns, uniform=uniform)
    with progress("judging", len(rounds)) as advance:
        result = judge(
            fitted,
            rounds,
            rules=rules,
            estimators=names,
            draws=draws,
            floor=floor,
            clip=clip,
            seed=seed,
            on_block=lambda done, total: advance(done, f"{done} of {total} rounds"),
        )
    content = {**result.to_json(), "versions": circumstances()}
    do_all(lambda: write_json(json_file, content), lambda: _print(result))


def _print(result: BacktestResult) -> None:
    from diffts.backtest.result import HEADINGS

    facts = result.facts
    title = f"{facts['rounds']} rounds of {facts['tasks']} tasks, {facts['arms']} arms"
    table = table_of(title, list(HEADINGS[:2]), *HEADINGS[2:])
    for row in result.rows:
        table.add_row(*row.cells())
    out.print(table)
    for why in result.refused.values():
        complain(why, "refused")
    for warning in result.warnings:
        complain(warning, "warning")
    say(f"The log itself earned {facts['mean_reward']:.5g} a round.")
