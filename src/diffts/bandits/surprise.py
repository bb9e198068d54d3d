"""How far the rewards of a task lie from what a belief expects of them, arm by arm."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray

from diffts.bandits.beliefs.belief import Belief, State
from diffts.bandits.history import History
from diffts.chunks import in_host_chunks
from diffts.errors import InvalidInputError


def scores_left_out(
    belief: Belief, state: State, draws: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The arms that were pulled, and ``z^a = (y^a - m^a) / √((s^a)² + (σ̂^a)²/n^a)`` of each.

    ``m^a`` and ``s^a`` are what the belief thinks of the arm given the pulls of the others alone;
    of ``draws`` draws where there is no closed form. For use outside of compiled functions.
    """
    if not belief.has_prior:
        raise InvalidInputError(
            f"surprise: {type(belief).__name__} expects nothing of an arm before its first pull"
        )
    history = state.history
    counts = np.asarray(history.counts, np.float64)
    pulled = np.flatnonzero(counts > 0)
    if len(pulled) == 0:
        return pulled, np.zeros(0)

    def some(rows: NDArray[np.int64]) -> Any:
        arms = pulled[np.minimum(rows, len(pulled) - 1)]
        return _expected(belief, history, jnp.asarray(arms, jnp.int32), draws)

    # Chunks on the host: what a belief factorises stays out of a scan.
    kept = sum(leaf.size for leaf in jax.tree.leaves(state))
    mean, std = in_host_chunks(some, len(pulled), kept + draws * belief.n_arms)
    if not (np.isfinite(mean).all() and np.isfinite(std).all()):
        raise InvalidInputError(
            f"surprise: {type(belief).__name__} has no finite mean and spread for an arm that "
            "nothing is known of"
        )
    y = np.asarray(history.sums, np.float64)[pulled] / counts[pulled]
    noise = np.asarray(belief.noise_std(state), np.float64)[pulled] ** 2 / counts[pulled]
    return pulled, (y - mean) / np.sqrt(std.astype(np.float64) ** 2 + noise)


@eqx.filter_jit
def _expected(
    belief: Belief, history: History, arms: Int[Array, " n"], draws: int
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Mean and standard deviation of each of some arms, given the pulls of all others."""

    def of_one(arm: Int[Array, ""]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        state = belief.resume(history.without(jnp.arange(belief.n_arms) == arm))
        mean, std = belief.moments(state, belief.sample(state, draws))
        return mean[arm], std[arm]

    return jax.vmap(of_one)(arms)
