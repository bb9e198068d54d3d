"""Noise: how far a reward lies from its arm's mean, given the pulls of the task so far.

A number, if somebody knows it; else ``"auto"`` (a level from the rewards themselves) or
``"bernoulli"`` (clicks, wins and other rewards from 0 to 1). Both follow from the history of the
task alone, so that a state can be worked out anew from it.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar, TypeAlias, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike, NDArray

from diffts.bandits.history import History
from diffts.errors import InvalidInputError
from diffts.validation import number_between, positive_number

#: No variance counts as less: float32 has little below.
LEAST_VARIANCE = 1e-36


class Noise(eqx.Module):
    """The assumed standard deviation ``σ̂^a`` of one reward of each arm.

    Attributes:
        constant: whether it is one number, whatever was pulled. Exact posteriors can then follow
            each pull by a small update; else they are solved anew in every round.
        bounds: the least and the largest reward there can be, None if there are none. Draws,
            means and quantiles of a belief stay between them.
    """

    constant: ClassVar[bool]
    bounds: ClassVar[tuple[float, float] | None] = None

    @abc.abstractmethod
    def std(self, history: History) -> Float[Array, " K"]:
        """``σ̂^a`` of each arm, above 0."""

    def under(self, mean: ArrayLike, std: ArrayLike) -> Noise:
        """The noise, with what was left open filled in from a prior.

        Args:
            mean: the prior's mean of each arm, ``(K,)``.
            std: the prior's standard deviation of each arm, ``(K,)``.
        """
        del mean, std
        return self

    def check(self, rewards: NDArray[np.float64]) -> None:
        """Refuse rewards that cannot be; for use outside of compiled functions."""
        if self.bounds is None:
            return
        low, high = self.bounds
        outside = ~((rewards >= low) & (rewards <= high))
        if outside.any():
            raise InvalidInputError(
                f"reward: must be from {low:g} to {high:g} with noise {type(self).__name__}, "
                f"got {rewards[outside].flat[0]:g}"
            )


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


@final
class PooledNoise(Noise):
    """``"auto"``: one level for all arms, from a start and from pulls of the same arm.

    ``σ̂² = (ν σ_0² + Σ_a Σ_i (r_i^a - r̄^a)²) / (ν + Σ_a (n^a - 1)^+)``

    the mean of a scaled inverse chi-squared posterior, but for two degrees of freedom: at first
    the start, in the end the variance within arms. What arms differ by is no part of it.

    Tasks of one problem mostly have the same noise. So the best start is a level learned from past
    tasks: the ``std`` of imperfect evidence of single pulls, or what :meth:`learned` takes from
    histories. Without one, a belief with a prior starts at the spread of its arms (one pull says
    as much as the prior); a belief without one starts at the spread of all rewards so far.

    Attributes:
        start: the start ``σ_0``; None if it is to be filled in.
        weight: how many pulls it is worth, ``ν``.

    >>> two_pulls = History(jnp.array([2.0, 0.0]), jnp.array([3.0, 0.0]), jnp.array([0.5, 0.0]), 2)
    >>> PooledNoise(start=0.5, weight=1.0).std(two_pulls).round(4).tolist()
    [0.6124..., 0.6124...]
    """

    constant: ClassVar[bool] = False
    start: Float[Array, ""] | None
    weight: Float[Array, ""]

    def __init__(self, start: float | None = None, weight: float = 2.0) -> None:
        given = None if start is None else positive_number("start", start)
        self.start = None if given is None else jnp.float32(given)
        self.weight = jnp.float32(positive_number("weight", weight))

    def std(self, history: History) -> Float[Array, " K"]:
        """The level so far, for each arm."""
        squares, repeats = _within_arms(history)
        before = _spread_of_rewards(history) if self.start is None else self.start**2
        variance = (self.weight * before + squares) / (self.weight + repeats)
        return jnp.full(history.counts.shape, jnp.sqrt(jnp.maximum(variance, LEAST_VARIANCE)))

    def under(self, mean: ArrayLike, std: ArrayLike) -> Noise:
        """Starts at the root mean square of the arms' standard deviations, unless told where."""
        del mean
        spread = float(np.sqrt(np.mean(np.square(np.asarray(std, np.float64)))))
        if self.start is not None or not np.isfinite(spread) or spread <= 1e-18:
            return self
        # Four digits: the same on every machine, so that it is the same policy there.
        return PooledNoise(float(f"{spread:.4g}"), float(self.weight))


@final
class BernoulliNoise(Noise):
    """``"bernoulli"``: rewards from 0 to 1 (clicks, wins), each arm with a variance of its own.

    Attributes:
        centre: the mean reward to expect before the first pull.
        strength: pulls that the mean over all arms is worth to each of them.
    """

    constant: ClassVar[bool] = False
    bounds: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    centre: Float[Array, ""] | None
    strength: Float[Array, ""]

    def __init__(self, centre: float | None = None, strength: float = 2.0) -> None:
        given = None if centre is None else number_between("centre", centre, 0.0, 1.0)
        self.centre = None if given is None else jnp.float32(given)
        self.strength = jnp.float32(positive_number("strength", strength))

    def std(self, history: History) -> Float[Array, " K"]:
        """TODO."""
        centre = jnp.float32(0.5) if self.centre is None else self.centre
        sums = jnp.clip(history.sums, 0.0, history.counts)
        pooled = (self.strength * centre + jnp.sum(sums)) / (
            self.strength + jnp.sum(history.counts)
        )
        shrunk = (self.strength * pooled + sums) / (self.strength + history.counts)
        return jnp.sqrt(jnp.maximum(shrunk * (1 - shrunk), 1e-6))

    def under(self, mean: ArrayLike, std: ArrayLike) -> Noise:
        """Expects the prior's mean over arms."""
        del std
        if self.centre is not None:
            return self
        centre = float(np.clip(np.mean(np.asarray(mean, np.float64)), 0.05, 0.95))
        return BernoulliNoise(float(f"{centre:.4g}"), float(self.strength))


def _within_arms(history: History) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """``Σ_a Σ_i (r_i^a - r̄^a)²`` and its degrees of freedom, ``Σ_a (n^a - 1)^+``.

    Squares that are not finite were not kept, and do not count.
    """
    known = jnp.isfinite(history.squares)
    repeats = jnp.where(known, jnp.maximum(history.counts - 1.0, 0.0), 0.0)
    return jnp.sum(jnp.where(known, history.squares, 0.0)), jnp.sum(repeats)


def _spread_of_rewards(history: History) -> Float[Array, ""]:
    """The variance of all rewards, whatever the arm: at least that of the noise, on average.

    ``(Σ(r - r̄)² + r̄²) / N``: what is not known from few rewards is taken from their size. If all
    of them are 0, or there are none, it is 1.
    """
    pulls = jnp.maximum(jnp.sum(history.counts), 1.0)
    squares, _ = _within_arms(history)
    mean = jnp.sum(history.sums) / pulls
    between = jnp.sum(history.counts * (history.means - mean) ** 2)
    spread = (squares + between + mean**2) / pulls
    return jnp.where(spread > 0, spread, 1.0)


#: What a noise may be given as.
NoiseLike: TypeAlias = float | str | Noise

#: Noises by name.
NOISES: dict[str, type[Noise]] = {"auto": PooledNoise, "bernoulli": BernoulliNoise}


def as_noise(value: Any) -> Noise:
    """A noise model: itself, one by its name, or a number above 0."""
    if isinstance(value, Noise):
        return value
    if isinstance(value, str):
        if value not in NOISES:
            known = ", ".join(map(repr, NOISES))
            raise InvalidInputError(
                f"noise: unknown {value!r}; expected a number above 0, or one of {known}"
            )
        return NOISES[value]()
    return FixedNoise(value)
