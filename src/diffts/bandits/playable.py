"""What may be played: which sets of base arms, and the best one under given values.

An action is a mask over the K base arms. Its value is the sum of its arms' values.
"""

from __future__ import annotations

import abc

import equinox as eqx
from jaxtyping import Array, Bool, Float


class Actions(eqx.Module):
    """The actions of a problem; its methods are functions of one task, for use inside ``jit``."""

    n_arms: eqx.AbstractVar[int]

    @property
    @abc.abstractmethod
    def single_arm(self) -> bool:
        """Whether an action is one arm."""

    @abc.abstractmethod
    def best(self, values: Float[Array, " K"]) -> Bool[Array, " K"]:
        """The action of the largest total value."""

    @property
    @abc.abstractmethod
    def arm_by_arm(self) -> bool:
        """Whether it is any k of the arms on offer, so that arms compete one by one."""

    @property
    @abc.abstractmethod
    def offered(self) -> Bool[Array, " K"]:
        """The arms that some action plays."""

    @abc.abstractmethod
    def nearly_best(
        self, values: Float[Array, " K"], tolerance: Float[Array, ""], favour: Float[Array, " K"]
    ) -> Bool[Array, " K"]:
        """Of the actions whose value is within a tolerance of the best, the most favoured one."""

    @abc.abstractmethod
    def rivals(self, values: Float[Array, " K"]) -> Float[Array, " K"]:
        """The value at which an arm, all others as they are, would enter or leave the best action.

        Only where arms compete one by one.
        """

    @abc.abstractmethod
    def cover(self) -> Bool[Array, "n K"]:
        """A few actions ``(n, K)`` that together play every base arm on offer: the start of UCB.

        A row without any arm is no action, and is never played.
        """
