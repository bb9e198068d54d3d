"""What all commands share: consoles, progress bars, results as JSON, the compile cache."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from diffts.errors import InvalidInputError

# Into a file or a pipe, tables are written in full instead of cut to 80 columns.
out = Console(width=None if sys.stdout.isatty() else 140)
err = Console(stderr=True)

JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Also write the result to this JSON file.")
]


def turn_on_compile_cache() -> None:
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


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[..., None]]:
    """A bar on standard error that disappears when done; silent where that is not a terminal."""
    columns: list[Any] = [TextColumn("{task.description}"), BarColumn()]
    if total is not None:
        columns += [TextColumn("{task.completed}/{task.total}"), TimeRemainingColumn()]
    columns.append(TextColumn("{task.fields[note]}"))
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(what, total=total, note="")

        def advance(done: int, note: str, total: int | None = total) -> None:
            bar.update(task, completed=done, total=total, note=note)

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
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        tasks: dict[int, Any] = {}

        def show(now: Any) -> None:
            if now.number in tasks and now.done < bar.tasks[tasks[now.number]].completed:
                tasks.clear()  # the same phases again, with another λ
            if now.number not in tasks:
                label = f"{what}: {now.phase} ({now.number}/{now.phases})"
                tasks[now.number] = bar.add_task(label, total=now.steps, note="")
            note = f"loss {now.loss:.4f}, held-out CRPS {now.score:.4f}"
            bar.update(tasks[now.number], completed=now.done, note=note)

        yield show


def check_writable(option: str, path: Path | None) -> None:
    """Say that a result cannot be written before the work, not after it."""
    if path is None:
        return
    if path.is_dir():
        raise InvalidInputError(f"{option}: {path} is a folder")
    if not path.resolve().parent.is_dir():
        raise InvalidInputError(f"{option}: no folder {path.resolve().parent}")


def write_json(path: Path | None, result: Any) -> None:
    """Write ``result`` if a file was asked for."""
    if path is not None:
        path.write_text(json.dumps(result, indent=2) + "\n")
