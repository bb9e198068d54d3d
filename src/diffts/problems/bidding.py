"""iPinYou Bidding: how much to bid for an ad slot whose market price is random."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike, NDArray

from diffts.bandits.rewards import RewardModel
from diffts.errors import InvalidInputError
from diffts.problems.ipinyou_logs import read_slot_prices
from diffts.problems.problem import (
    Problem,
    SuggestedArms,
    SuggestedNetwork,
    Tasks,
    fixed_array,
)
from diffts.problems.simulated_slots import simulate_price_cdfs
from diffts.seeding import KeyArray
from diffts.validation import finite_array

N_BIDS = 300
ITEM_VALUE = 300


class WinLoseRewards(RewardModel):
    """``r = payoff^b`` if the bid ``b`` wins, else 0, with ``payoff^b = (300 - b) / 300``.

    The chance to win is what the mean says: ``P(win) = μ^b / payoff^b``. The variance is
    ``μ^b (payoff^b - μ^b)``, which differs from bid to bid.

    >>> certain_win = jnp.asarray((300 - np.arange(300)) / 300)
    >>> WinLoseRewards()(jax.random.key(0), certain_win, jnp.array([0, 150])).tolist()
    [1.0, 0.5]
    """

    bounds: ClassVar[tuple[float, float] | None] = (0.0, 1.0)

    def __call__(
        self, key: KeyArray, means: Float[Array, " K"], arms: Int[Array, "*shape"]
    ) -> Float[Array, "*shape"]:
        """One auction for each entry of ``arms``."""
        expected = jnp.asarray(means)[arms]
        payoff = jnp.asarray(payoffs(), expected.dtype)[arms]
        wins = jax.random.uniform(key, expected.shape, expected.dtype) < expected / payoff
        return jnp.where(wins, payoff, 0.0)


@final
@dataclass(frozen=True, eq=False)
class Bidding(Problem):
    """300 bids on an item worth 300; a task is an ad slot, that is a distribution of its price.

    Bid ``b ∈ {0, …, 299}`` wins when the price is at most ``b`` and earns ``300 - b``, so that

        ``μ^b = (300 - b) / scale · P(price ≤ b)``.

    The paper scales by the largest reward that can ever be had. Here ``scale = 300``, what a
    bid of 0 earns if it wins: rewards lie in [0, 1], and one scale serves all slots, simulated
    or real, and every way to split them.

    By default the slots are simulated (see :mod:`diffts.problems.simulated_slots` for the family
    and how it was tuned); :meth:`from_logs` takes real ones.

    Attributes:
        win_rates: ``P(price ≤ b)`` of real slots, shape ``(slots, 300)``; None for simulated ones.
        source: where the slots come from, in words.

    >>> problem = Bidding()
    >>> problem.source, problem.sample(2, seed=0).shape
    ('simulated ad slots', (2, 300))
    """

    name: ClassVar[str] = "bidding"
    n_arms: ClassVar[int] = N_BIDS
    noise_std: ClassVar[float] = 0.2
    horizon: ClassVar[int] = 1000
    default_sizes: ClassVar[tuple[int, int, int]] = (1200, 100, 52)

    rewards: ClassVar[RewardModel] = WinLoseRewards()
    # Neighbouring bids have similar rewards: a curve, to be seen as one.
    suggested_network: ClassVar[SuggestedNetwork] = SuggestedNetwork("unet-1d", predicts="noise")

    win_rates: NDArray[np.float64] | None = None
    source: str = "simulated ad slots"

    @property
    def suggested_arms(self) -> SuggestedArms:
        """A small network: past slots are few, and it is nearer to others than a large one."""
        return SuggestedArms({}, {"width": 64, "n_blocks": 1, "code": 4, "own": 4})

    @classmethod
    def from_logs(cls, path: str | PathLike[str], min_prices: int = 1000) -> Bidding:
        """Real ad slots from iPinYou logs, each with the empirical distribution of its prices.

        Tasks are then picked from these slots without replacement, so there are only so many.

        Args:
            path: a log file or a folder of logs; layouts as in :mod:`diffts.problems.ipinyou_logs`.
            min_prices: leave out slots with fewer prices (the paper: 1000).
        """
        found = read_slot_prices(path, min_prices)
        rates = win_rates_from_counts(found.counts)
        return cls(rates, source=f"{len(found.slots)} real ad slots from {Path(path).name}")

    def __post_init__(self) -> None:
        if self.win_rates is None:
            return
        rates = finite_array("win_rates", self.win_rates, ndim=2).copy()
        if rates.shape[1] != N_BIDS or not len(rates):
            raise InvalidInputError(
                f"win_rates: expected shape (slots, {N_BIDS}), got {rates.shape}"
            )
        if (rates < 0).any() or (rates > 1).any() or (np.diff(rates, axis=1) < 0).any():
            raise InvalidInputError("win_rates: must lie in [0, 1] and never fall with the bid")
        object.__setattr__(self, "win_rates", fixed_array(rates))

    @property
    def pool(self) -> Tasks | None:
        """The real slots; simulated ones never end."""
        return None if self.win_rates is None else mean_rewards(self.win_rates)

    def _draw(self, n: int, rng: np.random.Generator) -> Tasks:
        return mean_rewards(simulate_price_cdfs(n, rng)[:, :N_BIDS])


def payoffs() -> NDArray[np.float64]:
    """What each bid earns if it wins, ``(300 - b) / 300``, shape ``(300,)``."""
    return (ITEM_VALUE - np.arange(N_BIDS)) / ITEM_VALUE


def mean_rewards(win_rates: NDArray[np.float64]) -> Tasks:
    """``μ^b = payoff^b · P(price ≤ b)``, shapes ``(slots, 300)``."""
    return (payoffs() * win_rates).astype(np.float32)


def win_rates_from_counts(counts: ArrayLike) -> NDArray[np.float64]:
    """``P(price ≤ b)`` for each bid, from price counts of shape ``(slots, 301)``.

    >>> all_at_20 = np.eye(301)[[20]] * 7
    >>> win_rates_from_counts(all_at_20)[0, 18:22].tolist()
    [0.0, 0.0, 1.0, 1.0]
    """
    cumulative = np.cumsum(np.asarray(counts, np.float64), axis=1)
    return cumulative[:, :N_BIDS] / cumulative[:, -1:]
