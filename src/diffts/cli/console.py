"""What people see: lines on standard output, complaints and progress on standard error."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from diffts import learning

# Into a file or a pipe, tables are written in full instead of cut to 80 columns.
out = Console(width=None if sys.stdout.isatty() else 140)
err = Console(stderr=True)

#: Seconds between two lines about long work, where there is no terminal for a bar.
SECONDS_BETWEEN_LINES = 15.0


def say(line: str) -> None:
    """A line on standard output, as it is: names may look like markup."""
    out.print(line, markup=False, highlight=False, soft_wrap=True)


def complain(message: str, kind: str = "error") -> None:
    """One line on standard error."""
    style = "bold red" if kind == "error" else "bold"
    line = escape(" ".join(message.split()))
    err.print(f"[{style}]{kind}:[/] {line}", highlight=False, soft_wrap=True)


def table_of(title: str, words: list[str], *numbers: str, **style: Any) -> Table:
    """An empty table: columns of words, left, and of numbers, right."""
    table = Table(*words, title=title, **style)
    for name in numbers:
        table.add_column(name, justify="right")
    return table


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[..., None]]:
    """A bar on standard error that disappears when done; lines where that is not a terminal.

    Yields a function of what is done, a note, and where they change, the total and what it is of.
    """
    columns = [TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"),
               TimeRemainingColumn(), TextColumn("{task.fields[note]}")]  # fmt: skip
    bar = Progress(*columns, console=err, transient=True, disable=not err.is_terminal)
    with bar, _lines() as tell:
        task = bar.add_task(escape(what), total=total, count="", note="")
        tell(what)

        def advance(done: int, note: str = "", total: int | None = total, now: str = what) -> None:
            count = f"{done}" if total is None else f"{done}/{total}"
            if bar.tasks[task].description != escape(now):
                bar.reset(task, description=escape(now))  # the time left is of this part alone
            bar.update(task, completed=done, total=total, count=count, note=escape(note))
            tell(f"{now}: {count}" + (f", {note}" if note else ""))

        yield advance


@contextmanager
def learning_progress(what: str) -> Iterator[Callable[[learning.Progress], None]]:
    """The same for a training, which tells its own progress."""
    with progress(what, None) as advance:

        def show(now: learning.Progress) -> None:
            phase = f": {now.phase} ({now.number}/{now.phases})" if now.phases > 1 else ""
            score = "" if math.isnan(now.score) else f", held-out score {now.score:.4f}"
            advance(now.done, f"loss {now.loss:.4f}{score}", now.steps, f"{what}{phase}")

        yield show


def _wait_for(done: threading.Event) -> bool:
    """Wait until it is time for a line; whether all is done instead."""
    return done.wait(SECONDS_BETWEEN_LINES)


@contextmanager
def _lines() -> Iterator[Callable[[str], None]]:
    """Away from a terminal, print what was last told every so many seconds.

    By a thread: the longest waits (compilation, fits) are those in which nothing is told.
    """
    last = [""]
    done = threading.Event()

    def print_now_and_then() -> None:
        while not _wait_for(done):
            err.print(last[0], markup=False, highlight=False, soft_wrap=True)

    printer = threading.Thread(target=print_now_and_then, daemon=True)
    if not err.is_terminal:
        printer.start()
    try:
        yield lambda line: last.__setitem__(0, line)
    finally:
        done.set()
        if printer.ident is not None:
            printer.join()
