"""The command line, run inside the tests' own process: a start of Python for each would be slow."""

import contextlib
import dataclasses
import io
import os
import sys
from unittest import mock

from diffts.cli import main

# Nothing of JAX's settings is changed: a cache that is there already is left alone.
ENVIRONMENT = {"JAX_COMPILATION_CACHE_DIR": "unused", "COLUMNS": "200", "TERM": "dumb"}


@dataclasses.dataclass
class Result:
    returncode: int
    stdout: str
    stderr: str


def diffts(*arguments):
    """Run ``diffts`` with these arguments."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["diffts", *map(str, arguments)]),
        mock.patch.dict(os.environ, ENVIRONMENT),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
    return Result(code, out.getvalue(), err.getvalue())
