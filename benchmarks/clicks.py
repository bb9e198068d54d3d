"""How far the promise of a fit can be trusted, by how many clicks an arm has: simulated logs.

python -m benchmarks.clicks [--first-seed 100] [--out results/clicks.json]

Each log is fitted by independent arms and a Gaussian, and the belief that was chosen plays 200 new
tasks whose rates are known. `fitting/support.py` has its threshold from here: it was chosen with
seeds from 0, and checked with seeds from 100, which are those of results/clicks.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np

from diffts.circumstances import circumstances
from diffts.fitting import fit
from diffts.fitting.race import play, rewards_like
from diffts.logs import Facts, Log

#: Arms, tasks, mean pulls of a task and arm, and seeds.
SIZES = ((8, 133, 2.4, 3), (8, 300, 5.0, 3), (20, 133, 2.4, 1))
RATES = (0.003, 0.01, 0.03, 0.1, 0.3)
#: Coefficients of variation of a task's rates: one factor is common to all arms, one is each arm's.
COMMON, OWN = 0.5, (0.3, 1.0)


def rates_of(base: np.ndarray, n: int, own: float, rng: np.random.Generator) -> np.ndarray:
    """Rates of new tasks ``(n, K)``: an arm's own, times two gamma factors with mean 1."""
    shared = rng.gamma(1 / COMMON**2, COMMON**2, (n, 1))
    alone = rng.gamma(1 / own**2, own**2, (n, len(base)))
    return np.minimum(base * shared * alone, 1.0)


def click_log(rates: np.ndarray, pulls: float, rng: np.random.Generator) -> Log:
    """Clicks of tasks with these rates; some pairs are shown often, most seldom or never."""
    counts = rng.poisson(pulls * rng.gamma(1.0, 1.0, rates.shape))
    means = rng.binomial(counts, rates) / np.maximum(counts, 1)
    tasks, arms = ([str(i) for i in range(n)] for n in rates.shape)
    return Log(tasks, arms, counts, means, counts * means * (1 - means), Facts(binary=True))


def run(arms: int, tasks: int, pulls: float, rate: float, own: float, seed: int) -> dict[str, Any]:
    """One log: what the fit promised of 100 decisions, and what it earned."""
    rng = np.random.default_rng(seed)
    base = np.exp(np.random.default_rng(1).normal(0.0, 0.4, arms))
    base *= rate / base.mean()
    log = click_log(rates_of(base, tasks, own, rng), pulls, rng)
    fitted = fit(log, minutes=0, kinds=["independent", "gaussian"], seed=seed)
    new = rates_of(base, 200, own, rng)
    earned = play(fitted.policy(horizon=100), new, rewards_like(True, 0.5), seed).earned
    (row,) = [one for one in fitted.facts["judged"] if one["kind"] == fitted.kind]
    return {
        "arms": arms,
        "tasks": tasks,
        "rate": rate,
        "own": own,
        "seed": seed,
        "clicks_of_an_arm": float((log.counts * log.means).sum() / arms),
        "kind": fitted.kind,
        "advice": fitted.facts["verdict"]["advice"],
        "promised": row["reward"]["100"],
        "earned": float(earned.mean()),
    }


def main() -> None:
    """All logs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    for (arms, tasks, pulls, seeds), own, rate in itertools.product(SIZES, OWN, RATES):
        for seed in range(options.first_seed, options.first_seed + seeds):
            rows.append(row := run(arms, tasks, pulls, rate, own, seed))
            print(
                f"{row['arms']} arms, {row['clicks_of_an_arm']:.1f} clicks each: promised "
                f"{row['promised']:.4f}, earned {row['earned']:.4f}, {row['advice']}",
                flush=True,
            )
    if options.out is not None:
        kept = {
            "made_with": f"python -m benchmarks.clicks --first-seed {options.first_seed}",
            "rows": rows,
        } | circumstances()
        options.out.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
