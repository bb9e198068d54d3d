"""The command line. Each command reads one thing, writes one thing, and exits with a code.

0: it did its work. 1: something outside failed (a file, a device). 2: the user asked for something
impossible. 130, 143: it was stopped (Ctrl-C, SIGTERM). A user's mistake is one line on standard
error, never a traceback.
"""

import os
import sys


def main() -> None:
    """Entry point of the ``diffts`` command."""
    # Before NumPy: threads of many small factorisations side by side stand in each other's way.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from diffts.errors import MissingPackageError
    from diffts.extras import require

    # Imported here: most of a start is spent on imports, and Ctrl-C may come then, too.
    try:
        for package in ("typer", "rich"):
            require(package, "the command line")
        from diffts.cli.app import run
    except MissingPackageError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    run()
