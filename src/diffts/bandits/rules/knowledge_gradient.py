"""The knowledge gradient: what one more pull of an arm is worth to the rounds that follow."""

from __future__ import annotations

from typing import ClassVar, final

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float

from diffts.bandits.actions import Actions
from diffts.bandits.beliefs.belief import Belief, State
from diffts.bandits.rules.rule import Rule, as_horizon
from diffts.seeding import KeyArray
from diffts.validation import whole_number


@final
class KnowledgeGradientRule(Rule):
    """``argmax μ_a + (T - t) v_a``, with ``v_a`` what a pull of ``a`` adds to the best mean.

    One more pull moves the mean of an arm by about ``s_a = var_a / √(var_a + σ̂²)``. It changes the
    best action if that exceeds the distance to the arm's rival (the best other arm):
    ``v_a = s_a f(-|μ_a - rival_a| / s_a)`` with ``f(z) = φ(z) + zΦ(z)`` (Ryzhov, Powell and Frazier
    2012). Other arms' means move, too; that is left out.

    Without a horizon, as many rounds are expected as were played, and at least one for each arm.

    Attributes:
        horizon: rounds T of the task; None if nobody knows.
        draws: what mean and variance are taken of where there is no closed form.
    """

    arm_by_arm: ClassVar[bool] = True
    horizon: Float[Array, ""] | None
    draws: int = eqx.field(static=True)

    def __init__(self, horizon: int | None = None, draws: int = 64) -> None:
        self.horizon = as_horizon(horizon)
        self.draws = whole_number("draws", draws, 2)

    def select(
        self, key: KeyArray, belief: Belief, state: State, actions: Actions
    ) -> Bool[Array, " K"]:
        """Mean plus the value of knowing more, in all rounds that are left."""
        del key
        mean, std = belief.moments(state, belief.sample(state, self.draws))
        rounds = state.history.rounds
        if self.horizon is None:
            left = jnp.maximum(rounds, jnp.sum(actions.offered))
        else:
            left = jnp.maximum(self.horizon - rounds - 1, 0.0)
        moves = std**2 / jnp.sqrt(std**2 + belief.noise_std(state) ** 2)
        gap = jnp.abs(mean - actions.rivals(mean))
        worth = expected_excess(gap, jnp.maximum(moves, 1e-30))
        return actions.best(mean + left * worth)


def expected_excess(gap: Float[Array, " K"], std: Float[Array, " K"]) -> Float[Array, " K"]:
    """``E max(std · Z - gap, 0)`` with ``Z ~ N(0, 1)``: ``std · (φ(z) + zΦ(z))``, ``z = -gap/std``.

    >>> expected_excess(jnp.array([0.0]), jnp.array([1.0])).round(4).tolist()
    [0.398...]
    """
    z = -gap / std
    # Far below 0 the two terms cancel; what is left is less than float32 can hold anyway.
    return jnp.where(z > -10.0, std * (norm.pdf(z) + z * norm.cdf(z)), 0.0)
