"""Files of the user's own that register problems, policies, samplers and networks."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from diffts.errors import InvalidInputError


def load_plugins(files: Sequence[Path] | None) -> None:
    """Run each file as a module of its own; it adds to ``PROBLEMS``, ``POLICIES`` and so on."""
    for number, file in enumerate(files or ()):
        module, path = ModuleType(f"diffts_plugin_{number}"), file.resolve()
        module.__file__ = str(path)
        sys.modules[module.__name__] = module  # where dataclasses look for their module
        try:
            exec(compile(path.read_bytes(), path, "exec"), vars(module))
        except (Exception, SystemExit) as error:
            raise InvalidInputError(f"--plugin: {file}{_where(error, str(path))}") from error


def _where(error: BaseException, path: str) -> str:
    """The line of the file that failed, and how."""
    if isinstance(error, OSError) and error.filename == path:
        return f" cannot be read ({error.strerror})"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
             if frame.filename == path]  # fmt: skip
    if isinstance(error, SyntaxError) and error.filename == path:
        lines.append(error.lineno)
    where = f", line {lines[-1]}" if lines else ""
    return f"{where}: {type(error).__name__}: {error}"
