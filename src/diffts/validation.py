"""Checks of user input: each raises an error that names the argument and what was wrong."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffts.errors import InvalidInputError

FloatArray = NDArray[np.floating[Any]]


def float_array(name: str, value: ArrayLike, ndim: int | None = None) -> NDArray[np.float64]:
    """``value`` as a float64 array, or an error that names ``name``.

    >>> float_array("mean", [1, 2])
    array([1., 2.])
    >>> float_array("mean", ["a"])
    Traceback (most recent call last):
    ...
    diffts.errors.InvalidInputError: mean: not an array of numbers (could not convert ...
    """
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"{name}: not an array of numbers ({error})") from None
    if ndim is not None and array.ndim != ndim:
        raise InvalidInputError(f"{name}: expected {ndim} dimension(s), got shape {array.shape}")
    return array


def require_finite(name: str, array: FloatArray) -> None:
    """Refuse NaN, infinities and what float32 cannot hold, naming the first bad position."""
    bad = ~(np.abs(array) <= np.finfo(np.float32).max)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InvalidInputError(
            f"{name}: {int(bad.sum())} value(s) are not finite, the first is {array[where]} "
            f"at index {where}"
        )


def finite_array(name: str, value: ArrayLike, ndim: int | None = None) -> NDArray[np.float64]:
    """A float64 array without NaN or infinities."""
    array = float_array(name, value, ndim)
    require_finite(name, array)
    return array


def whole_number(name: str, value: Any, low: int, high: int | None = None) -> int:
    """An integer in ``[low, high]``.

    >>> whole_number("steps", 0, 1, 100)
    Traceback (most recent call last):
    ...
    diffts.errors.InvalidInputError: steps: must be a whole number from 1 to 100, got 0
    """
    limits = f"from {low} to {high}" if high is not None else f"of at least {low}"
    is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_)
    if not is_whole or value < low or (high is not None and value > high):
        raise InvalidInputError(f"{name}: must be a whole number {limits}, got {value!r}")
    return int(value)


def positive_number(name: str, value: Any) -> float:
    """A number above 0 that float32, and its square, can hold.

    >>> positive_number("noise_std", float("inf"))
    Traceback (most recent call last):
    ...
    diffts.errors.InvalidInputError: noise_std: must be a number from 1e-18 to 1e+18, got inf
    """
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if isinstance(value, bool | np.bool_) or np.ndim(value) or not 1e-18 <= number <= 1e18:
        raise InvalidInputError(f"{name}: must be a number from 1e-18 to 1e+18, got {value!r}")
    return number


def number_between(name: str, value: Any, low: float, high: float) -> float:
    """A number from ``low`` to ``high``.

    >>> number_between("floor", 2, 0.0, 1.0)
    Traceback (most recent call last):
        ...
    diffts.errors.InvalidInputError: floor: must be a number from 0 to 1, got 2
    """
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not is_number or not low <= value <= high:  # NaN is in no range
        raise InvalidInputError(f"{name}: must be a number from {low:g} to {high:g}, got {value!r}")
    return float(value)


def covariance_matrix(name: str, value: ArrayLike, size: int) -> NDArray[np.float64]:
    """A symmetric positive semi-definite ``(size, size)`` matrix."""
    matrix = finite_array(name, value, ndim=2)
    if matrix.shape != (size, size):
        raise InvalidInputError(f"{name}: expected shape {(size, size)}, got {matrix.shape}")
    largest = float(np.abs(matrix).max(initial=0.0))
    asymmetry = float(np.abs(matrix - matrix.T).max(initial=0.0))
    if asymmetry > 1e-6 * largest:
        raise InvalidInputError(f"{name}: not symmetric (entries differ by up to {asymmetry:.3g})")
    matrix = 0.5 * (matrix + matrix.T)
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if smallest < -1e-6 * largest:
        raise InvalidInputError(
            f"{name}: indefinite (smallest eigenvalue {smallest:.3g}, must not be below 0)"
        )
    return matrix


def one_of(name: str, value: Any, choices: Iterable[str]) -> str:
    """A value among ``choices``; the error lists them."""
    known = sorted(choices)
    if not isinstance(value, str) or value not in known:
        raise InvalidInputError(f"{name}: unknown {value!r}; choose from {', '.join(known)}")
    return value
