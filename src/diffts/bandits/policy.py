"""A policy is a belief and a rule: what is thought of a task, and what to play then."""

from __future__ import annotations

from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from diffts.bandits.actions import Actions
from diffts.bandits.beliefs.belief import Belief, State
from diffts.bandits.history import History
from diffts.bandits.rules import Rule, make_rule
from diffts.errors import InvalidInputError
from diffts.seeding import KeyArray
from diffts.validation import number_between

#: Draws that advice is taken of where there is no closed form, and as many that its chance is
#: counted in.
ADVICE_DRAWS = 32


class Advice(NamedTuple):
    """What to settle for, and how likely it is the best.

    Attributes:
        action: the action, ``(K,)``.
        chance: the belief's own probability that no other is better (by more than it can tell).
    """

    action: Bool[Array, " K"]
    chance: Float[Array, ""]


@final
class Policy(eqx.Module):
    """Pure functions of one task's state, for use inside ``jit``, ``vmap`` and ``scan``.

    Any belief goes with any rule; those with names of their own are in
    :mod:`diffts.bandits.policies`.

    Attributes:
        belief: what is thought of a task.
        rule: what to play then.
        floor: the least chance f of every arm on offer; None for none. Each of n arms is played
            with the chance ``f + (1 - nf) w``, ``w`` the rule's, so that a log of the decisions can
            judge any other rule. Where actions are sets, n is the number of covering actions, and
            every arm is in one. An f above ``1/n`` counts as that.
    """

    belief: Belief
    rule: Rule
    floor: Float[Array, ""] | None = None

    @property
    def n_arms(self) -> int:
        """Number of base arms ``K``."""
        return self.belief.n_arms

    def playing(
        self, rule: str | Rule, *, horizon: int | None = None, floor: float | None = None
    ) -> Policy:
        """The same belief with another rule, by its name or itself; and another floor, if given."""
        made = make_rule(rule, horizon)
        if floor is None:
            return Policy(self.belief, made, self.floor)
        least = number_between("floor", floor, 0.0, 1.0)
        return Policy(self.belief, made, jnp.float32(least) if least else None)

    def init(self) -> State:
        """The state before the first round; it has an attribute ``history``."""
        return self.belief.init()

    def resume(self, history: History) -> State:
        """The state after a history of pulls that another policy may have made."""
        return self.belief.resume(history)

    def check(self, actions: Actions) -> None:
        """Refuse actions that this policy cannot play."""
        if actions.n_arms != self.n_arms:
            raise InvalidInputError(
                f"actions: of {actions.n_arms} arms, the policy has {self.n_arms}"
            )
        if self.belief.single_arm and not actions.single_arm:
            raise InvalidInputError(
                "actions: sets of arms, but the policy was made for single ones (single_arm=False)"
            )
        if self.rule.arm_by_arm and not actions.arm_by_arm:
            raise InvalidInputError(
                f"rule: {type(self.rule).__name__} compares arms one by one, and has no meaning "
                f"for {type(actions).__name__}"
            )

    def select(self, key: KeyArray, state: State, actions: Actions) -> Bool[Array, " K"]:
        """The action to play."""
        if self.floor is None:
            return self.rule.select(key, self.belief, state, actions)
        coin_key, any_key, rule_key = jax.random.split(key, 3)
        chosen = self.rule.select(rule_key, self.belief, state, actions)
        cover = actions.cover()
        playable = jnp.any(cover, axis=1)
        any_one = jax.random.categorical(any_key, jnp.where(playable, 0.0, -jnp.inf))
        explore = jax.random.uniform(coin_key) < self.floor * jnp.sum(playable)
        return jnp.where(explore, cover[any_one], chosen)

    def update(self, state: State, action: Bool[Array, " K"], rewards: Float[Array, " K"]) -> State:
        """The state after ``action`` gave ``rewards`` (read only where ``action`` is True)."""
        return self.belief.update(state, action, rewards)

    def advise(self, state: State, actions: Actions) -> Advice:
        """The action to settle for: the best one under the belief's estimate, whatever the rule."""
        # Draws that chose the action would speak for it: others count its chance.
        choosing, counting = jnp.split(self.belief.sample(state, 2 * ADVICE_DRAWS), 2)
        action = actions.best(self.belief.estimate(state, choosing))

        def is_best(drawn: Float[Array, " K"]) -> Bool[Array, ""]:
            missed = jnp.sum(jnp.where(actions.best(drawn), drawn, 0.0))
            missed -= jnp.sum(jnp.where(action, drawn, 0.0))
            return missed <= self.belief.resolution

        return Advice(action, jnp.mean(jax.vmap(is_best)(counting)))
