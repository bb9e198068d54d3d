"""Ready-made priors of the problems, learned from exact tasks: ``diffts compare --prior builtin``.

Each folder is an artifact of :class:`diffts.DiffusionPrior` with its weights in 16 bits. They are
made by ``scripts/make_builtin_priors.py``.
"""

from __future__ import annotations

from pathlib import Path

from diffts.diffusion.prior import DiffusionPrior
from diffts.errors import InvalidInputError

_FOLDER = Path(__file__).parent


def builtin_names() -> list[str]:
    """Problems that have a ready-made prior."""
    return sorted(path.parent.name for path in _FOLDER.glob("*/config.json"))


def builtin_prior(problem: str) -> DiffusionPrior:
    """The ready-made prior of a problem.

    >>> builtin_prior("labeled-arms").n_arms
    500
    """
    if problem not in builtin_names():
        raise InvalidInputError(
            f"prior: none is built in for {problem!r}; there are {', '.join(builtin_names())}"
        )
    return DiffusionPrior.load(_FOLDER / problem)
