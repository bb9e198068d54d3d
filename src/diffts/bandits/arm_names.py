"""The names of arms: what people call them, and which base arm is meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from diffts.errors import InvalidInputError


class ArmNames:
    """The names of all K arms, all different; by default their numbers.

    >>> names = ArmNames(["red", "blue"], 2)
    >>> names.index_of("blue"), names.offered(["red"]).tolist()
    (1, [True, False])
    """

    def __init__(self, arms: Sequence[Any] | None, n_arms: int) -> None:
        self.all = _different(arms, n_arms)
        self._index = {name: index for index, name in enumerate(self.all)}

    def index_of(self, name: Any) -> int:
        """The number of an arm."""
        try:
            return self._index[name]
        except (KeyError, TypeError):
            shown = ", ".join(map(repr, self.all[:5])) + (", …" if len(self.all) > 5 else "")
            raise InvalidInputError(f"arm: unknown arm {name!r}; arms are {shown}") from None

    def offered(self, among: Sequence[Any]) -> NDArray[np.bool_]:
        """Which arms are on offer, ``(K,)``, if those in a list are."""
        if _is_no_list(among):
            raise InvalidInputError(f"among: expected a list of arms, got {among!r}")
        indices = [self.index_of(name) for name in among]
        if not indices:
            raise InvalidInputError("among: no arm on offer")
        return np.isin(np.arange(len(self.all)), indices)

    def pulled(self, arm: Any) -> tuple[bool, list[Any]]:
        """Whether several arms are meant, and which; a tuple may be the name of one."""
        if isinstance(arm, np.ndarray | jax.Array):
            named = np.asarray(arm).tolist()
            if not isinstance(named, list):
                return False, [named]
            return True, [tuple(row) if isinstance(row, list) else row for row in named]
        if isinstance(arm, list):
            return True, arm
        if isinstance(arm, tuple) and not self._is_name(arm):
            return True, list(arm)
        return False, [arm]

    def _is_name(self, name: Any) -> bool:
        try:
            return name in self._index
        except TypeError:  # a tuple of lists, say
            return False


def _different(arms: Sequence[Any] | None, n_arms: int) -> list[Any]:
    """The arms' names, all different; by default their numbers."""
    if arms is None:
        return list(range(n_arms))
    if _is_no_list(arms) or isinstance(arms, set | frozenset):  # a set has no order
        raise InvalidInputError(f"arms: expected a list of {n_arms} names, got {arms!r}")
    names = arms.tolist() if isinstance(arms, np.ndarray) else list(arms)
    try:
        different = len(set(names))
    except TypeError as error:
        raise InvalidInputError(
            f"arms: names must be strings, numbers or tuples of them ({error})"
        ) from None
    if len(names) != n_arms or different != n_arms:
        raise InvalidInputError(
            f"arms: expected {n_arms} different names, got {len(names)} ({different} different)"
        )
    return names


def _is_no_list(value: Any) -> bool:
    """Whether something cannot be several arms: one word, or nothing to go through."""
    word = isinstance(value, str | bytes) or not isinstance(value, Iterable)
    return word or (isinstance(value, np.ndarray) and value.ndim == 0)
