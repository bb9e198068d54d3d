"""Prices of ad auctions as a log of decisions: a slot is a task, a bid is an arm.

python examples/slot_prices.py --data ipinyou_slots --out slots

DIR of --data holds merged_slot_prices.csv: a row an auction, with its slot and the price that was
paid. Any table with these two columns will do. Writes log.csv into --out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

VALUE = 300  # of an impression, in the unit of the prices


def decisions(auctions: pd.DataFrame, step: int = 30, at_least: int = 50) -> pd.DataFrame:
    """One row for each auction and bid: what that bid would have earned.

    A bid wins if it reaches the price, and then earns the value less the bid, as a share of the
    value. Bids end below the one that the log was made with: of higher prices it knows nothing.
    """
    seen = auctions.groupby("slotid").payprice.transform("size")
    bids = pd.DataFrame({"bid": range(step, auctions.bidprice.min() + 1, step)})
    log = auctions[seen >= at_least].merge(bids, how="cross")
    log["reward"] = (log.bid >= log.payprice) * (VALUE - log.bid) / VALUE
    return log.rename(columns={"slotid": "slot"})[["slot", "bid", "reward"]]


def main() -> None:
    """From the prices to log.csv."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    options = parser.parse_args()
    auctions = pd.read_csv(options.data / "merged_slot_prices.csv", dtype={"slotid": str})
    log = decisions(auctions)
    options.out.mkdir(parents=True, exist_ok=True)
    log.to_csv(options.out / "log.csv", index=False)
    print(f"{len(log)} rows, {log.slot.nunique()} slots, {log.bid.nunique()} bids")


if __name__ == "__main__":
    main()
