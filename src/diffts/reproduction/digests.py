"""What a result was made from, in a few letters: arrays, and plain values."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffts.diffusion.posterior import SAMPLERS

#: Of real data, which we may not hand on: so that results from them are known without them.
KNOWN = {"real slots": "50b1997eac40", "mnist": "a71451c6a647", "fashion_mnist": "dd856ffad192"}

_SKETCH = 4  # sums of rows and of columns: 4 × 4 numbers for an array
_BLOCK = 4096  # tasks that are converted to double precision at once


def digest(*content: Any) -> str:
    """Twelve letters for plain values and dataclasses."""
    text = json.dumps(content, sort_keys=True, default=dataclasses.asdict)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def sampler_versions(names: Iterable[str]) -> dict[str, int]:
    """The versions of some posterior samplers: another one draws differently."""
    return {name: SAMPLERS[name].version for name in sorted(names)}


def fingerprint(tasks: NDArray[Any]) -> str:
    """Twelve letters for an array ``(tasks, K)`` of values of about 1.

    Not of its bytes: logarithms and normal quantiles end in other bits on another processor or
    with another version of NumPy, and finished results must be known again there. The letters
    are those of 16 sums of all entries with fixed random signs ``r_i c_a``, each rounded to a
    whole number. Another law or other random numbers change these sums by hundreds, other last
    bits by less than 1e-4; that this crosses a rounding happens once in hundreds of machines.

    >>> tasks = np.random.default_rng(0).random((50, 20), np.float32)
    >>> fingerprint(tasks) == fingerprint(np.nextafter(tasks, np.float32(2)))
    True
    >>> fingerprint(tasks) == fingerprint(tasks[::-1])
    False
    """
    rng = np.random.default_rng(0)
    rows, columns = (2.0 * rng.integers(2, size=(n, _SKETCH)) - 1.0 for n in tasks.shape)
    sums = np.zeros((_SKETCH, _SKETCH))
    for start in range(0, len(tasks), _BLOCK):
        block = np.asarray(tasks[start : start + _BLOCK], np.float64)
        sums += rows[start : start + _BLOCK].T @ (block @ columns)
    return digest(list(tasks.shape), np.rint(sums).astype(int).tolist())
