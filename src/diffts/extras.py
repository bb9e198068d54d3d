"""Optional packages: imported where they are used, with one clear line where one is missing."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from diffts.errors import MissingPackageError

#: Of each optional package: the name it is installed by, and the extra that brings it.
_EXTRAS = {
    "matplotlib": ("matplotlib", "figures"),
    "sklearn": ("scikit-learn", "mixtures"),
    "typer": ("typer", "cli"),
    "rich": ("rich", "cli"),
    "ibis": ("ibis-framework", "logs"),
    "pyarrow": ("pyarrow", "logs"),
    "pandas": ("pandas", "logs"),
}


def optional(module: str, purpose: str) -> Any:
    """An optional package, or a part of it; ``purpose`` begins the error's sentence."""
    require(module.partition(".")[0], purpose)
    return importlib.import_module(module)


def require(package: str, purpose: str) -> None:
    """Refuse to begin what needs a package that is not installed; the package is not loaded."""
    if importlib.util.find_spec(package) is None:
        name, extra = _EXTRAS[package]
        raise MissingPackageError(f"{purpose} needs {name}: pip install 'diffts[{extra}]'")
