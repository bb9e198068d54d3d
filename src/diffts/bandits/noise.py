"""Noise: how far a reward lies from its arm's mean, given the pulls of the task so far.

A number, if somebody knows it; else ``"auto"`` (a level from the rewards themselves) or
``"bernoulli"`` (clicks, wins and other rewards from 0 to 1). Both follow from the history of the
task alone, so that a state can be worked out anew from it.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike, NDArray

from diffts.bandits.history import History
from diffts.errors import InvalidInputError
from diffts.validation import positive_number

#: The variance of a reward 0 or 1 whose chance is anything from 0 to 1, on average.
_ANY_CHANCE = 1.0 / 6.0

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

    def check_law(self, bounds: tuple[float, float] | None) -> None:
        """Refuse a law of rewards, all from one bound to the other, that it cannot explain."""
        if self.bounds is None:
            return
        low, high = self.bounds
        if bounds is None or bounds[0] < low or bounds[1] > high:
            raise InvalidInputError(
                f"noise: {type(self).__name__} is for rewards from {low:g} to {high:g}, and these "
                "may lie outside"
            )

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
    tasks, the ``std`` of imperfect evidence of single pulls, say: ``PooledNoise(0.1, weight=50)``.
    Without one, a belief with a prior starts at the spread of its arms (one pull says as much as
    the prior); a belief without a prior, at the spread of all rewards so far.

    Attributes:
        start: the start ``σ_0``; None if it is to be filled in.
        weight: how many pulls it is worth, ``ν``.

    >>> two_pulls = History(jnp.array([2.0, 0.0]), jnp.array([3.0, 0.0]), jnp.array([0.5, 0.0]), 2)
    >>> f"{PooledNoise(start=0.5, weight=1.0).std(two_pulls)[1]:.4f}"
    '0.6124'
    """

    constant: ClassVar[bool] = False
    start: Float[Array, ""] | None
    weight: Float[Array, ""]

    def __init__(self, start: float | None = None, weight: float = 1.0) -> None:
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
        return PooledNoise(_four_digits(spread), float(self.weight))


@final
class BernoulliNoise(Noise):
    """``"bernoulli"``: rewards from 0 to 1 (clicks, wins), each arm with a variance of its own.

    With ``Q^a = Σ_i (r_i^a - r̄^a)²`` of an arm (of 0 and 1: ``n p̂(1-p̂)``), the variance of all arms
    and then that of each is

    ``v = (ν v_0 + Σ_a Q^a) / (ν + Σ_a (n^a - 1)^+)``
    ``(σ̂^a)² = (s v + Q^a) / (s + (n^a - 1)^+)``

    It uses squares, not ``p(1-p)``: a win that pays less than 1 varies less. The first
    reward of an arm is weighed the same, whatever it is, and so are ten wins and ten losses: where
    luck changed the variance, it would count more on one side. No arm has a variance of 0.

    Attributes:
        start: the start ``v_0^(1/2)``; None if it is to be filled in. Under a prior with means
            ``m^a`` and variances ``w^a`` it is what 0 and 1 have, the mean of ``m(1-m) - w``.
        weight: how many pulls it is worth, ``ν``.
        strength: pulls that the level of all arms is worth to each of them, ``s``.
        scale: what the standard deviation is multiplied by; below 1, rewards are believed more
            than they deserve, which explores less.

    >>> four_of_five = History(jnp.array([5.0]), jnp.array([4.0]), jnp.array([0.8]), 5)
    >>> f"{BernoulliNoise(start=0.4, weight=2.0, strength=4.0).std(four_of_five)[0]:.4f}"
    '0.4397'
    """

    constant: ClassVar[bool] = False
    bounds: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    start: Float[Array, ""] | None
    weight: Float[Array, ""]
    strength: Float[Array, ""]
    scale: Float[Array, ""]

    def __init__(
        self,
        start: float | None = None,
        weight: float = 1.0,
        strength: float = 4.0,
        scale: float = 1.0,
    ) -> None:
        given = None if start is None else positive_number("start", start)
        self.start = None if given is None else jnp.float32(given)
        self.weight = jnp.float32(positive_number("weight", weight))
        self.strength = jnp.float32(positive_number("strength", strength))
        self.scale = jnp.float32(positive_number("scale", scale))

    def std(self, history: History) -> Float[Array, " K"]:
        """That of each arm so far."""
        most = jnp.maximum(history.sums * (1.0 - history.means), 0.0)  # of any rewards in [0, 1]
        squares = jnp.where(jnp.isfinite(history.squares), history.squares, most)
        repeats = jnp.maximum(history.counts - 1.0, 0.0)
        before = _ANY_CHANCE if self.start is None else self.start**2
        pooled = (self.weight * before + jnp.sum(squares)) / (self.weight + jnp.sum(repeats))
        variance = (self.strength * pooled + squares) / (self.strength + repeats)
        return self.scale * jnp.sqrt(jnp.maximum(variance, LEAST_VARIANCE))

    def under(self, mean: ArrayLike, std: ArrayLike) -> Noise:
        """Starts at the mean variance of rewards 0 and 1 under the prior, unless told where."""
        if self.start is not None:
            return self
        chance, spread = np.asarray(mean, np.float64), np.asarray(std, np.float64)
        variance = float(np.mean(chance * (1.0 - chance) - spread**2))
        start = float(
            np.sqrt(np.clip(variance, 0.01, 0.25))
        )  # priors are only nearly within [0, 1]
        return BernoulliNoise(
            _four_digits(start), float(self.weight), float(self.strength), float(self.scale)
        )


def _four_digits(value: float) -> float:
    """Rounded: the same on every machine, so that it is the same policy there."""
    return float(f"{value:.4g}")


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


_BY_NAME: dict[str, type[Noise]] = {"fixed": FixedNoise, **NOISES}


def noise_to_json(noise: Noise) -> dict[str, Any]:
    """A noise as plain numbers, to be kept with what was learned."""
    (name,) = [name for name, kind in _BY_NAME.items() if isinstance(noise, kind)]
    numbers = {k: None if v is None else float(v) for k, v in vars(noise).items()}
    return {"name": name, **numbers}


def noise_from_json(content: Mapping[str, Any]) -> Noise:
    """The noise that :func:`noise_to_json` wrote.

    >>> noise_from_json(noise_to_json(FixedNoise(0.5))).std(History.empty(1)).tolist()
    [0.5]
    """
    numbers = {name: value for name, value in content.items() if name != "name"}
    return _BY_NAME[content["name"]](**numbers)


def number_or_word(text: str) -> float | str:
    """What somebody typed: a number if it is one.

    >>> number_or_word("0.1"), number_or_word("auto")
    (0.1, 'auto')
    """
    try:
        return float(text)
    except ValueError:
        return text
