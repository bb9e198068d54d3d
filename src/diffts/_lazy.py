"""Names of a package that are imported when they are first used.

A program that needs one part does not wait for all, and the command line can take a Ctrl-C before
JAX is loaded.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def attach(
    package: str, names: Mapping[str, str], moved: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package.

    ``names`` are those that come from each module below it, separated by spaces; ``moved`` says of
    names that were here once where they are now.
    """
    module_of = {name: module for module, some in names.items() for name in some.split()}
    here = vars(sys.modules[package])

    def get(name: str) -> Any:
        if name in module_of:
            here[name] = getattr(importlib.import_module(f"{package}.{module_of[name]}"), name)
            return here[name]
        if moved and name in moved:
            raise AttributeError(f"{package}.{name} is now {moved[name]}")
        if not name.startswith("_"):
            try:
                return importlib.import_module(f"{package}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{package}.{name}":
                    raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted({*here, *module_of})
