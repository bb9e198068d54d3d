"""``diffts decide``: an arm for a task, the reward of a decision, the log of them all; for scripts.

Only ``choose`` and ``advise`` load JAX: to tell a reward takes a quarter of a second.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from diffts.cli import options as opt
from diffts.cli.console import complain
from diffts.cli.outputs import check_outputs
from diffts.errors import InvalidInputError

if TYPE_CHECKING:
    from diffts.decisions import Decisions, SQLiteStore

Task = Annotated[str, opt.playing("Name of the task: a user, a campaign, …")]
Among = Annotated[
    str | None,
    opt.playing("Arms on offer, separated by commas; all that the fit knows. May name new ones."),
]
AmongFile = Annotated[
    Path | None,
    opt.playing("The same, one in each line of a file: for names with commas.", path="FILE"),
]
AsJson = Annotated[bool, opt.output("Print one line of JSON.", "--json")]


def choose(
    context: typer.Context,
    task: Task,
    among: Among = None,
    among_file: AmongFile = None,
    rule: Annotated[
        str, opt.playing("Rule to play by; for many decisions before the first reward: thompson.")
    ] = "default",
    horizon: Annotated[
        int | None, opt.playing("Decisions that a task will have, if known; some rules use it.")
    ] = None,
    floor: Annotated[
        float, opt.playing("Least chance of every arm on offer, for later backtests.")
    ] = 0.0,
    chances: Annotated[
        int, opt.playing("Choices that the chance is counted in; 0 not to keep it.")
    ] = 100,
    as_json: AsJson = False,
) -> None:
    """Choose an arm for a task, and print it and the id of the decision, with a tab between."""
    offered = _offered(among, among_file)
    decisions = _decisions(context, rule=rule, horizon=horizon, floor=floor, chances=chances)
    if new := [arm for arm in offered or () if arm not in decisions.arms]:
        complain(f"new here, not in the log: {', '.join(map(repr, new))}", "note")
        if among and any("," in arm and piece in arm for arm in decisions.arms for piece in new):
            complain("names with commas go into a file: --among-file", "note")
    choice = decisions.choose(task, offered)
    if as_json:
        decision = {"arm": choice.arm, "decision": choice.decision_id, "chance": choice.chance}
        print(json.dumps({"task": task, **decision}, ensure_ascii=False))
    else:
        print(f"{choice.arm}\t{choice.decision_id}")


def reward(
    context: typer.Context,
    decision: Annotated[str, opt.playing("Id of the decision, as 'choose' printed it.")],
    reward: Annotated[float, opt.playing("What it gave.")],
) -> None:
    """Tell what a decision gave: late, in any order; to tell it again changes nothing."""
    from diffts.decisions.store import as_name

    if not _store(context).reward([(as_name("decision", decision), reward)]):
        complain(f"decision {decision} has this reward already", "note")


def advise(
    context: typer.Context,
    task: Task,
    among: Among = None,
    among_file: AmongFile = None,
    as_json: AsJson = False,
) -> None:
    """Print the arm to settle for in a task, and how likely it is the best; nothing is kept."""
    offered = _offered(among, among_file)
    advice = _decisions(context).advice(task, offered)
    if as_json:
        said = {"task": task, "arm": advice.arm, "chance": advice.chance}
        print(json.dumps(said, ensure_ascii=False))
    else:
        print(f"{advice.arm}\t{advice.chance:.2f}")


def history(context: typer.Context, task: Task) -> None:
    """Print what each arm has given in a task: retired arms, too. A table, in CSV."""
    from diffts.decisions.store import as_name

    name = as_name("task", task)
    past = _store(context).past([name])[name]
    rows = [(arm, one.pulls, repr(one.mean)) for arm, one in past.totals.items()]
    print(_as_csv([("arm", "pulls", "mean"), *rows]), end="")


def log(
    context: typer.Context,
    out: Annotated[
        Path | None, opt.output("Where to write it; standard output by default.", path="FILE")
    ] = None,
) -> None:
    """Write all decisions that have a reward as CSV, for the next 'fit' and for 'backtest'."""
    from diffts.decisions import FILE, Logged
    from diffts.files import write_file

    folder = context.obj.folder
    check_outputs({"--out": out}, None, {"DIR": [folder / FILE, folder]})
    store = _store(context)
    text = _as_csv([Logged._fields, *store.log()])
    if out is None:
        print(text, end="")
    else:
        write_file(out, text.encode())
    if waiting := store.waiting():
        complain(f"{waiting} decision(s) have no reward yet, and are left out", "note")


#: Each command, and an example of it.
COMMANDS: dict[Callable[..., None], str] = {
    choose: "diffts decide fitted choose --task user-17 --among red,blue,green --floor 0.01",
    reward: "diffts decide fitted reward --decision 5a0c… --reward 1",
    advise: "diffts decide fitted advise --task user-17",
    history: "diffts decide fitted history --task user-17",
    log: "diffts decide fitted log --out log.csv",
}


class _AfterAFolder(TyperGroup):
    """Says so where the folder was left out: a command would be taken for it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first, second = [*args, "", ""][:2]
        if first in self.commands and second not in self.commands and "--help" not in args:
            complain(f"DIR is missing, the folder of a fit: diffts decide DIR {first} …")
            raise typer.Exit(2)
        return super().parse_args(ctx, args)


def decide_commands(explained: Callable[..., Any], prepare: Callable[[], None]) -> typer.Typer:
    """The commands; ``prepare`` is called before JAX is used."""
    commands = typer.Typer(
        name="decide",
        cls=_AfterAFolder,
        help="Choose arms with what was fitted, and keep their rewards.",
        epilog="Example:  diffts decide fitted choose --task user-17",
        no_args_is_help=True,
    )

    @commands.callback()
    def set_place(
        context: typer.Context,
        folder: Annotated[
            Path, typer.Argument(parser=opt.path_option, metavar="DIR", help="Folder of a fit.")
        ],
    ) -> None:
        context.obj = _Place(folder, prepare)

    for command, example in COMMANDS.items():
        commands.command(epilog=f"Example:  {example}")(explained(command))
    return commands


class _Place(NamedTuple):
    """Where the fit is, and what to do before JAX is used."""

    folder: Path
    prepare: Callable[[], None]


def _decisions(context: typer.Context, **options: Any) -> Decisions:
    place: _Place = context.obj
    place.prepare()
    from diffts.decisions import Decisions

    return Decisions(place.folder, **options)


def _store(context: typer.Context) -> SQLiteStore:
    from diffts.decisions import FILE, SQLiteStore

    place: _Place = context.obj
    return SQLiteStore(place.folder / FILE, must_exist=True)


def _offered(among: str | None, file: Path | None) -> list[str] | None:
    """The arms on offer, if somebody said which."""
    if among is not None and file is not None:
        raise InvalidInputError("--among, --among-file: only one of them")
    if among is None and file is None:
        return None
    if file is None:
        named = str(among).split(",")
    else:
        try:
            named = file.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            raise InvalidInputError(f"--among-file: {file} is no text in UTF-8") from None
    names = [name.strip() for name in named if name.strip()]
    if not names:
        raise InvalidInputError("among: no arm on offer")
    return names


def _as_csv(rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
