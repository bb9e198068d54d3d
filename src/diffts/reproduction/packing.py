"""Regrets in little room: what is kept of thousands of races, and committed.

A regret is kept to 11 bits. Its floats, as whole numbers, then grow with it, and mostly by little;
of what they grow by from record to record, the high bytes are almost all zero. Bytes of one kind
side by side halve the size of the file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Bits of a single-precision number that are dropped: 0.02% of it at most.
_DROPPED = 12
#: What is left is 20 bits; steps of it, modulo 2²⁴, are three bytes.
_BYTES = 3
_MODULUS = 1 << 8 * _BYTES


def packed(values: NDArray[np.floating[Any]]) -> NDArray[np.uint8]:
    """Values ``(R, N)``, R records of N tasks, as bytes ``(3, R, N)`` of the steps between records.

    It holds any values; it is small for those that grow along the first axis.
    """
    bits = values.astype(np.float32).view(np.uint32)
    rounded = ((bits + (1 << (_DROPPED - 1))) >> _DROPPED).astype(np.int64)
    steps = rounded.copy()
    steps[1:] -= rounded[:-1]
    steps %= _MODULUS
    return np.stack([(steps >> 8 * byte).astype(np.uint8) for byte in range(_BYTES)])


def unpacked(kept: NDArray[Any]) -> NDArray[np.float64]:
    """The values ``(R, N)`` again, to 11 bits; parts from before there was packing as they are."""
    if kept.dtype != np.uint8:
        return np.asarray(kept, np.float64)
    steps = sum(plane.astype(np.int64) << 8 * byte for byte, plane in enumerate(kept))
    rounded = np.cumsum(steps, axis=0) % _MODULUS
    return (rounded.astype(np.uint32) << _DROPPED).view(np.float32).astype(np.float64)
