"""Information-directed sampling: little regret for what is learned about the best action."""

from __future__ import annotations

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from diffts.bandits.actions import Actions
from diffts.bandits.beliefs.belief import Belief, State
from diffts.bandits.rules.choices import Choices
from diffts.bandits.rules.rule import Rule
from diffts.seeding import KeyArray
from diffts.validation import whole_number


@final
class InformationDirectedRule(Rule):
    """Plays one of two actions, by the lottery of the least information ratio ``Δ²/g``.

    ``Δ`` is the expected regret of an action. ``g`` is what its rewards tell: the variance, over
    which action is the best, of its arms' means given that (Russo and Van Roy 2018, the variance
    form). Both are averages over draws. It weighs all arms against each other; where actions are
    sets, those that are the best under some draw.

    Attributes:
        draws: how many; they follow from the state, so that only the coin is random.
    """

    draws: int = eqx.field(static=True)

    def __init__(self, draws: int = 64) -> None:
        self.draws = whole_number("draws", draws, 2)

    def select(
        self, key: KeyArray, belief: Belief, state: State, actions: Actions
    ) -> Bool[Array, " K"]:
        """One of the two, by a coin."""
        draws = belief.sample(state, self.draws)
        choices = Choices(actions, draws)
        mean = jnp.mean(draws, axis=0)  # of these draws: no choice is better than their best
        regret = choices.expected_best - choices.total(mean)
        told = choices.total(information(draws, choices.best))
        one, other, chance = least_ratio(jnp.where(choices.playable, regret, jnp.inf), told)
        heads = jax.random.uniform(key) < chance
        return choices.action(jnp.where(heads, one, other))


def information(draws: Float[Array, "n K"], best: Bool[Array, "n K"]) -> Float[Array, " K"]:
    """``Var E[θ_a | which action is the best]`` of each arm.

    >>> draws = jnp.array([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> information(draws, draws == draws.max(1, keepdims=True)).tolist()
    [1.0, 0.25]
    """
    same = jnp.all(best[:, None, :] == best[None, :, :], axis=-1).astype(draws.dtype)  # (n, n)
    centred = draws - jnp.mean(draws, axis=0)
    # In full precision: these are means of differences.
    sums = jnp.matmul(same, centred, precision=jax.lax.Precision.HIGHEST)
    return jnp.mean((sums / jnp.sum(same, axis=1)[:, None]) ** 2, axis=0)


def least_ratio(
    regret: Float[Array, " m"], told: Float[Array, " m"]
) -> tuple[Int[Array, ""], Int[Array, ""], Float[Array, ""]]:
    """The two choices i and j, and the chance q of i, with the least ``(EΔ)²/Eg``.

    A lottery of two is enough (Russo and Van Roy 2018, Proposition 6). The ratio of a pair is
    convex in q, with its minimum at ``Δ_j/(Δ_i - Δ_j) - 2g_j/(g_i - g_j)``, at 0 or at 1; the last
    two are the pairs of a choice with itself. What cannot be played has an infinite ``Δ``.
    """
    playable = jnp.isfinite(regret)
    finite = jnp.where(playable, regret, 0.0)
    more_regret = finite[:, None] - finite[None, :]
    more_told = told[:, None] - told[None, :]
    chance = finite[None, :] / _nonzero(more_regret) - 2.0 * told[None, :] / _nonzero(more_told)
    chance = jnp.clip(chance, 0.0, 1.0)
    expected = finite[None, :] + chance * more_regret
    ratio = expected**2 / jnp.maximum(told[None, :] + chance * more_told, 1e-30)
    ratio = jnp.where(playable[:, None] & playable[None, :], ratio, jnp.inf)
    least = jnp.argmin(ratio)
    one, other = least // len(regret), least % len(regret)
    return one, other, chance[one, other]


def _nonzero(values: Array) -> Array:
    return jnp.where(values == 0.0, 1.0, values)
