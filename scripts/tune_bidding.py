"""How close simulated ad slots are to real ones: the figures behind the simulation's constants.

Run ``python scripts/tune_bidding.py DATA_FOLDER``. The folder holds

- ``ipinyou_campaigns/*.info.json``, with a ``price_counter_train`` histogram of 301 prices; the
  five campaigns of season 2 are used;
- ``ipinyou_slots/merged_slot_prices.csv``, with columns ``slotid`` and ``payprice``.

Change the constants in ``diffts/problems/simulated_slots.py`` and run again: lower is better.

With ``--split`` the score sees only one half of the real slots, the same one every time; how far
the simulation is from the other half is printed below it, and is not to be looked at while tuning.
(Today's constants were fitted to all slots, before there was a split.)
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from diffts.problems.bidding import N_BIDS, payoffs
from diffts.problems.ipinyou_logs import read_slot_prices
from diffts.problems.simulated_slots import simulate_price_cdfs

SEASON_2 = (1458, 3358, 3386, 3427, 3476)
PRICES = np.arange(301)
SLOT_QUANTILES = np.linspace(0.05, 0.95, 19)
SHOWN = (0.01, 0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99)

# Weights of the four distances in the score that was searched; each brings a distance that is
# felt to be large (15 price units, a third of the mass, …) to about 1.
WEIGHTS = {"wasserstein": 1 / 15, "variation": 3.0, "slot means": 1 / 20, "slot stds": 1 / 40}

Floats = NDArray[np.float64]

SPLIT_SEED = 0  # the halves belong to the data: every search sees the same ones


def pooled_campaigns(folder: Path) -> Floats:
    """Share of each price over all auctions of the season-2 campaigns, shape ``(301,)``."""
    counts = np.zeros(len(PRICES))
    for campaign in SEASON_2:
        text = (folder / f"{campaign}.info.json").read_text(encoding="utf-8")
        counts += json.loads(text)["price_counter_train"]
    return counts / counts.sum()


def moments(histograms: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the price in each slot, from ``(slots, 301)`` shares."""
    mean = histograms @ PRICES
    variance = histograms @ PRICES**2 - mean**2
    return mean, np.sqrt(np.maximum(variance, 0.0))


def halves(slots: Floats) -> tuple[Floats, Floats]:
    """Two fixed random halves of the slots, one to fit to and one held out."""
    order = np.random.default_rng(SPLIT_SEED).permutation(len(slots))
    half = len(slots) // 2
    return slots[order[:half]], slots[order[half:]]


def quantile_distance(values: Floats, others: Floats) -> float:
    """Mean distance between the quantiles 5% to 95% of two samples."""
    gaps = np.quantile(values, SLOT_QUANTILES) - np.quantile(others, SLOT_QUANTILES)
    return float(np.abs(gaps).mean())


def quantiles_of(histogram: Floats) -> list[int]:
    """The price below which each of the ``SHOWN`` shares lies."""
    return [int(np.searchsorted(histogram.cumsum(), level)) for level in SHOWN]


def main() -> None:
    """Print the distances and the quantiles side by side."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", type=Path, help="folder with ipinyou_campaigns and ipinyou_slots")
    parser.add_argument("--slots", type=int, default=20_000, help="simulated slots")
    parser.add_argument("--min-prices", type=int, default=50, help="prices a real slot must have")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--split", action="store_true", help="fit to one half of the real slots")
    arguments = parser.parse_args()

    real_pool = pooled_campaigns(arguments.data / "ipinyou_campaigns")
    csv_file = arguments.data / "ipinyou_slots" / "merged_slot_prices.csv"
    counts = read_slot_prices(csv_file, arguments.min_prices).counts
    fitted_to, held_out = halves(counts) if arguments.split else (counts, counts[:0])
    real_means, real_stds = moments(fitted_to / fitted_to.sum(axis=1, keepdims=True))

    cdfs = simulate_price_cdfs(arguments.slots, np.random.default_rng(arguments.seed))
    histograms = np.diff(cdfs, axis=1, prepend=0.0)
    pool = histograms.mean(axis=0)
    means, stds = moments(histograms)

    distances = {
        "wasserstein": float(np.abs(np.cumsum(pool - real_pool)).sum()),
        "variation": float(0.5 * np.abs(pool - real_pool).sum()),
        "slot means": quantile_distance(means, real_means),
        "slot stds": quantile_distance(stds, real_stds),
    }
    score = sum(WEIGHTS[name] * distance for name, distance in distances.items())
    print(f"{arguments.slots} simulated slots, {len(real_means)} real ones")
    print("pooled prices, simulated against the season-2 campaigns")
    print(f"  Wasserstein-1 distance     {distances['wasserstein']:.2f}")
    print(f"  total variation distance   {distances['variation']:.3f}")
    print(f"  mean                       {pool @ PRICES:.1f} and {real_pool @ PRICES:.1f}")
    print(f"  levels                     {' '.join(f'{level:>4.0%}' for level in SHOWN)}")
    for label, histogram in (("simulated", pool), ("real", real_pool)):
        print(f"  {label:<26} {' '.join(f'{value:>4}' for value in quantiles_of(histogram))}")
    for title, simulated, real in (
        ("slot means", means, real_means),
        ("slot stds", stds, real_stds),
    ):
        print(f"{title}: quantiles differ by {distances[title]:.1f} on average")
        for label, values in (("simulated", simulated), ("real", real)):
            shown = " ".join(f"{value:>4.0f}" for value in np.quantile(values, SHOWN))
            print(f"  {label:<26} {shown}   from {values.min():.0f} to {values.max():.0f}")
    wins = cdfs[:, :N_BIDS]
    reward_stds = payoffs() * np.sqrt(wins * (1.0 - wins))
    print(
        f"third quartile of the rewards' standard deviations: {np.quantile(reward_stds, 0.75):.3f}"
    )
    print(f"score: {score:.3f}")
    if arguments.split:
        print(f"the other {len(held_out)} real slots, which the score does not see")
        others = moments(held_out / held_out.sum(axis=1, keepdims=True))
        for title, simulated, seen, unseen in zip(
            ("slot means", "slot stds"), (means, stds), (real_means, real_stds), others, strict=True
        ):
            print(
                f"  {title}: quantiles differ by {quantile_distance(simulated, unseen):.1f} on "
                f"average; those of the two halves of the real slots by "
                f"{quantile_distance(seen, unseen):.1f}"
            )


if __name__ == "__main__":
    main()
