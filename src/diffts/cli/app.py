"""The commands, put together; and what becomes of the errors they raise."""

from __future__ import annotations

import functools
import io
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from diffts._version import __version__
from diffts.cli import core, priors, races, reproduce
from diffts.cli.common import check_device, complain, say, turn_on_compile_cache
from diffts.cli.signals import exit_code_when_stopped, signals_as_interrupts
from diffts.errors import DifftsError, InvalidInputError

app = typer.Typer(
    name="diffts",
    help="Thompson sampling with a learned diffusion prior.",
    epilog="Example:  diffts accuracy --sampler moment --steps 20",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def run() -> None:
    """Run the command of ``sys.argv`` and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that cannot be shown is no failure
            stream.reconfigure(errors="backslashreplace")
    with signals_as_interrupts(), warnings.catch_warnings():
        # One line: where in the source it arose says nothing to a user.
        warnings.showwarning = lambda message, *_, **__: complain(str(message), "warning")
        app(prog_name="diffts")


def explained(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command, with every expected error as one line and an exit code."""

    @functools.wraps(command)
    def run_command(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except BaseException as error:
            code = _explain(error)
            if code is None:
                raise
            raise typer.Exit(code) from None

    return run_command


def _explain(error: BaseException) -> int | None:
    """Say what went wrong; the exit code, or None for what nobody foresaw."""
    if isinstance(error, KeyboardInterrupt):
        return exit_code_when_stopped()
    if isinstance(error, InvalidInputError):
        complain(str(error))
        return 2
    if isinstance(error, DifftsError):
        complain(str(error))
    elif isinstance(error, OSError):
        where = "standard output" if error.filename is None else error.filename
        complain(f"{where}: {error.strerror or error}")
    elif isinstance(error, MemoryError):
        complain(f"out of memory: {str(error) or 'ask for less'}")
    elif isinstance(error, RuntimeError) and "RESOURCE_EXHAUSTED" in str(error):
        complain(f"out of memory on the device: {error}")
    else:
        return None
    return 1


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"diffts {__version__}")
        raise typer.Exit


@app.callback()
@explained
def _common(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Thompson sampling with a learned diffusion prior."""
    del version
    turn_on_compile_cache()
    check_device()


for _module in (races, priors, core, reproduce):
    for _command, _example in _module.COMMANDS.items():
        app.command(epilog=f"Example:  {_example}")(explained(_command))
