"""The command line. Each command reads one thing, writes one thing, and exits with a code.

0: it did its work. 1: something outside failed (a file, a device). 2: the user asked for something
impossible. A user's mistake is one line on standard error, never a traceback.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from diffts._version import __version__
from diffts.cli import bandits, core, reproduce
from diffts.cli.common import err, out, turn_on_compile_cache
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
for _module in (bandits, core, reproduce):
    for _command, _example in _module.COMMANDS.items():
        app.command(epilog=f"Example:  {_example}")(_command)


def main() -> None:
    """Entry point of the ``diffts`` command."""
    try:
        app()
    except KeyboardInterrupt:
        code = 130
    except InvalidInputError as error:
        code = _fail(str(error), 2)
    except DifftsError as error:
        code = _fail(str(error), 1)
    except OSError as error:
        code = _fail(f"{error.filename or 'system'}: {error.strerror or error}", 1)
    sys.exit(code)


def _fail(message: str, code: int) -> int:
    err.print(f"[bold red]error:[/] {message}", highlight=False, soft_wrap=True)
    return code


def _show_version(wanted: bool) -> None:
    if wanted:
        out.print(f"diffts {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Thompson sampling with a learned diffusion prior."""
    del version
    turn_on_compile_cache()
