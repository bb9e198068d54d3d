"""How optimistic to be: the level of the quantile that the default rule plays by."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

#: Where an action is one arm, the tail beyond the quantile; and the rounds after which it shrinks.
TAIL, UNTIL = 0.05, 1000
#: Where it is a set of arms, the tail at first, and how it falls to the other: ``FALLS / t``.
TAIL_OF_SETS, FALLS = 0.2, 2.0


def slow_level(rounds: Float[Array, "*n"], single_arm: bool) -> Float[Array, "*n"]:
    """``1 - min(1/20, 50/t)`` after t rounds: 0.95 for the first 1000 rounds, then it grows.

    A set of arms whose every arm is at such a quantile would be one of very good luck. So where
    actions are sets, it is 0.8 for ten rounds, then ``1 - 2/t`` until that is 0.95, too.
    """
    t = jnp.maximum(rounds, 1.0)
    tail = jnp.minimum(TAIL, TAIL * UNTIL / t)
    if not single_arm:
        tail = jnp.minimum(TAIL_OF_SETS, jnp.maximum(FALLS / t, tail))
    return 1.0 - tail
