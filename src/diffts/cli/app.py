"""The commands, put together; and what becomes of the errors they raise."""

from __future__ import annotations

import functools
import io
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from diffts._version import __version__
from diffts.cli.accuracy import accuracy
from diffts.cli.backtest import backtest
from diffts.cli.compare import compare
from diffts.cli.console import complain, say
from diffts.cli.decide import decide_commands
from diffts.cli.demo import demo
from diffts.cli.fit import fit
from diffts.cli.groups import groups
from diffts.cli.inspect import inspect
from diffts.cli.reproduce import reproduce
from diffts.cli.signals import exit_code_when_stopped, signals_as_interrupts
from diffts.cli.train import train
from diffts.errors import DifftsError, InvalidInputError

#: Each command, and an example of it.
COMMANDS: dict[Callable[..., None], str] = {
    demo: "diffts demo --out out",
    compare: "diffts compare popular-niche --policies diffts,gts-full --horizon 500 --seeds 3",
    train: "diffts train popular-niche --out priors/popular-niche --data imperfect",
    fit: "diffts fit logs.csv --out fitted --task user --arm item",
    inspect: "diffts inspect priors/popular-niche",
    backtest: "diffts backtest fitted logs.csv --propensity p --rule thompson --json result.json",
    accuracy: "diffts accuracy --sampler moment --steps 20 --json rows.json",
    groups: "diffts groups --network residual-mlp --json scores.json",
    reproduce: "diffts reproduce main groups --profile smoke --out out/reproduce",
}

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
    if isinstance(error, DifftsError):
        complain(str(error))
        return 2 if isinstance(error, InvalidInputError) else 1
    if isinstance(error, OSError):
        where = "standard output" if error.filename is None else error.filename
        complain(f"{where}: {error.strerror or error}")
    elif isinstance(error, MemoryError):
        complain(f"out of memory: {str(error) or 'ask for less'}")
    elif isinstance(error, RuntimeError) and "RESOURCE_EXHAUSTED" in str(error):
        complain(f"out of memory on the device: {error}")
    else:
        return None
    return 1


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
        raise DifftsError(f"JAX_PLATFORMS={asked}: no such device here{why}") from None


def prepare() -> None:
    """Set JAX up as the command line has it."""
    turn_on_compile_cache()
    check_device()


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"diffts {__version__}")
        raise typer.Exit


@app.callback()
@explained
def _common(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Thompson sampling with a learned diffusion prior."""
    del version
    if context.invoked_subcommand != "decide":  # most of it does without JAX
        prepare()


for _command, _example in COMMANDS.items():
    app.command(epilog=f"Example:  {_example}")(explained(_command))
app.add_typer(decide_commands(explained, prepare))
