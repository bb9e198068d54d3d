"""Options that several commands share, in the groups that ``--help`` shows them in."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Any

import typer


def path_option(text: str) -> Path:
    """A path as an option's value; an empty one is a variable of the shell that was not set."""
    if not text:
        raise typer.BadParameter("is empty")
    return Path(text)


def _option(group: str, help: str, *names: str, path: str | None = None, **more: Any) -> Any:
    """An option in a group of the help; ``path`` says what kind of path its value is."""
    if path is not None:
        more |= {"parser": path_option, "metavar": path}
    return typer.Option(*names, help=help, rich_help_panel=group, **more)


problem, learning, playing, output = (
    functools.partial(_option, group) for group in ("Problem", "Learning", "Playing", "Output")
)

ProblemName = Annotated[str, typer.Argument(help="Name of the problem.")]
Plugins = Annotated[
    list[Path] | None,
    problem("Python file that registers more names; repeatable.", "--plugin", path="FILE"),
]
PastTasks = Annotated[int | None, problem("Past tasks, and a fifth as many to calibrate on.")]
Data = Annotated[str, problem("What priors are learned from: 'exact' means or 'imperfect' data.")]
Missing = Annotated[float | None, problem("Imperfect data: probability of a missing entry; 0.5.")]
Noise = Annotated[float | None, problem("Imperfect data: noise level of the others; 0.1.")]
Seed = Annotated[int, problem("Seed of everything.")]

TrainSteps = Annotated[int, learning("Gradient steps of the training.")]
NetworkName = Annotated[
    str | None,
    learning(
        "Network; 'arms' by default. With --procedure, --sure or --paper-recipe, the problem's."
    ),
]
ProcedureName = Annotated[
    str | None,
    learning("Imperfect data: default, paper, paper-without-em, ipinyou or images."),
]
Sure = Annotated[
    str | None,
    learning("Imperfect data: λ of the SURE term, or 'auto' for a held-out choice."),
]
Checkpoint = Annotated[
    Path | None,
    learning("Folder of the training's state, to go on from; kept in the end.", path="DIR"),
]

Rules = Annotated[
    list[str] | None,
    playing(
        "Rule for policies that play Thompson sampling; repeatable. In --policies, "
        "'diffts:greedy' is a rule for one of them.",
        "--rule",
    ),
]
Steps = Annotated[int | None, playing("Length of the reverse chain; the whole one.")]

JsonFile = Annotated[Path | None, output("Also write the result here.", "--json", path="FILE")]
