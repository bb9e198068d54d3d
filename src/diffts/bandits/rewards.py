"""Rewards: the law of one pull, given the task's mean rewards."""

from __future__ import annotations

import abc
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from diffts.seeding import KeyArray


class RewardModel(eqx.Module):
    """The law of one reward given the task's mean rewards; traceable by JAX.

    Attributes:
        bounds: the least and the largest reward there can be; None if there are none.
    """

    bounds: ClassVar[tuple[float, float] | None] = None

    @abc.abstractmethod
    def __call__(
        self, key: KeyArray, means: Float[Array, " K"], arms: Int[Array, "*shape"]
    ) -> Float[Array, "*shape"]:
        """One independent reward for each entry of ``arms``."""


class GaussianRewards(RewardModel):
    """``r ~ N(μ^a, std²)``, independent from pull to pull.

    >>> noiseless = GaussianRewards(std=0.0)
    >>> noiseless(jax.random.key(0), jnp.array([0.25, 0.5]), jnp.array([1, 0, 1])).tolist()
    [0.5, 0.25, 0.5]
    """

    std: float = eqx.field(static=True)

    def __call__(
        self, key: KeyArray, means: Float[Array, " K"], arms: Int[Array, "*shape"]
    ) -> Float[Array, "*shape"]:
        """The means of ``arms`` plus fresh Gaussian noise."""
        expected = jnp.asarray(means)[arms]
        return expected + self.std * jax.random.normal(key, expected.shape, expected.dtype)


class BernoulliRewards(RewardModel):
    """``r = 1`` with the chance ``μ^a``, else 0: clicks, wins. Means beyond 0 and 1 count as those.

    >>> BernoulliRewards()(jax.random.key(0), jnp.array([0.0, 1.0]), jnp.array([1, 0, 1])).tolist()
    [1.0, 0.0, 1.0]
    """

    bounds: ClassVar[tuple[float, float] | None] = (0.0, 1.0)

    def __call__(
        self, key: KeyArray, means: Float[Array, " K"], arms: Int[Array, "*shape"]
    ) -> Float[Array, "*shape"]:
        """A coin for each of ``arms``."""
        chance = jnp.asarray(means)[arms]
        return (jax.random.uniform(key, chance.shape) < chance).astype(jnp.float32)
