"""What all commands share: consoles, progress, options, the compile cache."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from diffts.errors import DifftsError

# Into a file or a pipe, tables are written in full instead of cut to 80 columns.
out = Console(width=None if sys.stdout.isatty() else 140)
err = Console(stderr=True)


class DeviceError(DifftsError):
    """A kind of device that is not there."""


#: Seconds between two lines about long work, where there is no terminal for a bar.
SECONDS_BETWEEN_LINES = 15.0


def path_option(text: str) -> Path:
    """A path as an option's value; an empty one is a variable of the shell that was not set."""
    if not text:
        raise typer.BadParameter("is empty")
    return Path(text)


JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json", parser=path_option, metavar="FILE", help="Also write the result to this file."
    ),
]
CheckpointFolder = Annotated[
    Path | None,
    typer.Option(
        parser=path_option,
        metavar="DIR",
        help="Folder of the training's state, to go on from; kept in the end.",
    ),
]


def say(line: str) -> None:
    """A line on standard output, as it is: names may look like markup."""
    out.print(line, markup=False, highlight=False, soft_wrap=True)


def complain(message: str, kind: str = "error") -> None:
    """One line on standard error."""
    style = "bold red" if kind == "error" else "bold"
    line = escape(" ".join(message.split()))
    err.print(f"[{style}]{kind}:[/] {line}", highlight=False, soft_wrap=True)


def turn_on_compile_cache() -> None:
    """Keep compiled programs between runs: the second start of a command compiles nothing.

    Only the command line does this; the library leaves JAX's settings to its user. The folder is
    JAX_COMPILATION_CACHE_DIR, or diffts/ in the user's cache folder.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    import jax

    try:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a user without a home
        return
    jax.config.update("jax_compilation_cache_dir", str(root / "diffts" / "compiled"))
    # All of them, however fast they compile: what is kept must not depend on a busy machine.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def check_device() -> None:
    """Refuse a kind of device that was asked for and is not there, before anything runs."""
    asked = os.environ.get("JAX_PLATFORMS")
    if not asked:
        return
    import jax

    try:
        jax.devices()
    except (AssertionError, RuntimeError) as error:  # the first where CUDA was not installed
        why = f" ({error})" if str(error) else ""
        raise DeviceError(f"JAX_PLATFORMS={asked}: no such device here{why}") from None


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[..., None]]:
    """A bar on standard error that disappears when done; lines where that is not a terminal."""
    columns: list[Any] = [TextColumn("{task.description}"), BarColumn()]
    if total is not None:
        columns += [TextColumn("{task.completed}/{task.total}"), TimeRemainingColumn()]
    columns.append(TextColumn("{task.fields[note]}"))
    with _bar(columns) as bar, _lines() as tell:
        task = bar.add_task(escape(what), total=total, note="")
        tell(what)

        def advance(done: int, note: str, total: int | None = total) -> None:
            bar.update(task, completed=done, total=total, note=escape(note))
            count = f"{done}" if total is None else f"{done}/{total}"
            tell(f"{what}: {count}" + (f", {note}" if note else ""))

        yield advance


@contextmanager
def phase_progress(what: str) -> Iterator[Callable[[Any], None]]:
    """A bar for each phase of learning, with the time left in it; takes ``Progress`` values."""
    columns: list[Any] = [
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    ]
    with _bar(columns) as bar, _lines() as tell:
        tasks: dict[int, Any] = {}
        tell(what)

        def show(now: Any) -> None:
            if now.number in tasks and now.done < bar.tasks[tasks[now.number]].completed:
                tasks.clear()  # the same phases again, with another λ
            label = f"{what}: {now.phase} ({now.number}/{now.phases})"
            if now.number not in tasks:
                tasks[now.number] = bar.add_task(label, total=now.steps, note="")
            note = f"loss {now.loss:.4f}, held-out CRPS {now.score:.4f}"
            bar.update(tasks[now.number], completed=now.done, note=note)
            tell(f"{label}: {now.done}/{now.steps}, {note}")

        yield show


def _bar(columns: list[Any]) -> Progress:
    return Progress(*columns, console=err, transient=True, disable=not err.is_terminal)


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
