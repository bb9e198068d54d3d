"""Noise: how far a reward lies from its arm's mean, given the pulls of the task so far."""

from __future__ import annotations

import abc
from typing import Any, ClassVar, TypeAlias, final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from diffts.bandits.history import History
from diffts.errors import InvalidInputError
from diffts.validation import positive_number


class Noise(eqx.Module):
    """The assumed standard deviation ``σ̂^a`` of one reward of each arm.

    Attributes:
        constant: whether it is one number, whatever was pulled. Exact posteriors can then follow
            each pull by a small update; else they are solved anew in every round.
    """

    constant: ClassVar[bool]

    @abc.abstractmethod
    def std(self, history: History) -> Float[Array, " K"]:
        """``σ̂^a`` of each arm, above 0."""


@final
class FixedNoise(Noise):
    """One number: somebody knows it, or says so.

    >>> FixedNoise(0.5).std(History.empty(2)).tolist()
    [0.5, 0.5]
    """

    constant: ClassVar[bool] = True
    level: Float[Array, ""]

    def __init__(self, level: float) -> None:
        self.level = jnp.float32(positive_number("noise_std", level))

    def std(self, history: History) -> Float[Array, " K"]:
        """The number, for each arm."""
        return jnp.full(history.counts.shape, self.level)


#: What a noise may be given as.
NoiseLike: TypeAlias = float | str | Noise


def as_noise(value: Any) -> Noise:
    """A noise model: itself, or a number above 0."""
    if isinstance(value, Noise):
        return value
    if isinstance(value, str):
        raise InvalidInputError(f"noise: unknown {value!r}; expected a number above 0")
    return FixedNoise(value)


def number_or_word(text: str) -> float | str:
    """What somebody typed: a number if it is one.

    >>> number_or_word("0.1"), number_or_word("auto")
    (0.1, 'auto')
    """
    try:
        return float(text)
    except ValueError:
        return text
