"""The pulls of one task, as far as beliefs and rules need them."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from diffts.evidence import Evidence


class History(eqx.Module):
    """What the pulls of one task come down to, for each base arm.

    Attributes:
        counts: pulls of each arm, ``(K,)``.
        sums: sum of the rewards of each arm, ``(K,)``.
        squares: sum of their squared distances from the arm's mean, ``(K,)``.
            NaN where it is not known: an older diffts did not keep it.
        rounds: actions played so far.
    """

    counts: Float[Array, " K"]
    sums: Float[Array, " K"]
    squares: Float[Array, " K"]
    rounds: Int[Array, ""]

    @staticmethod
    def empty(n_arms: int) -> History:
        """Nothing played yet."""
        return History(jnp.zeros(n_arms), jnp.zeros(n_arms), jnp.zeros(n_arms), jnp.int32(0))

    def add(self, action: Bool[Array, " K"], rewards: Float[Array, " K"]) -> History:
        """The history after one more action (semi-bandit: a reward for each of its arms).

        ``Σ(r - r̄)²`` grows by ``(r - r̄)² n/(n+1)`` with the mean and the count from before:
        a difference of ``Σr²`` and ``n r̄²`` would cancel in float32.
        """
        distance = jnp.where(action, rewards - self.means, 0.0)
        return History(
            self.counts + action,
            self.sums + jnp.where(action, rewards, 0.0),
            self.squares + distance**2 * (self.counts / (self.counts + 1.0)),
            self.rounds + 1,
        )

    def without(self, arms: Bool[Array, " K"]) -> History:
        """The history as if these arms had given nothing; the rounds stay."""
        counts, sums, squares = (
            jnp.where(arms, 0.0, of) for of in (self.counts, self.sums, self.squares)
        )
        return History(counts, sums, squares, self.rounds)

    @property
    def means(self) -> Float[Array, " K"]:
        """Empirical mean of each arm, 0 where it was never pulled."""
        return self.sums / jnp.maximum(self.counts, 1.0)

    def evidence(self, noise_std: Float[Array, " K"]) -> Evidence:
        """``y^a`` the mean, ``σ^a = σ̂^a/√n^a``, ``m^a = 1[n^a > 0]``."""
        std = noise_std / jnp.sqrt(jnp.maximum(self.counts, 1.0))
        return Evidence(self.means, std, self.counts > 0)
