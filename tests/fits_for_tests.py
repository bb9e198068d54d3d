"""Made-up fits for tests of what is done with them: facts as `fit` fills them, and a belief."""

import numpy as np

from diffts.bandits.noise import BernoulliNoise, FixedNoise
from diffts.diffusion.exact import Gaussian, GaussianMixture
from diffts.fitting import Fitted, NewArms

TOPICS = (
    "Football", "Tennis", "Cycling", "Elections", "Parliament", "Taxes", "Recipes", "Restaurants",
    "Wine", "Films", "Concerts", "Books", "Hiking", "City trips", "Flights", "Phones",
)  # fmt: skip
SPANS = ("10", "30", "100")
ADVICE = ("use it", "use the simple one", "collect more data")

_SAID = {
    "use it": {
        "headline": "Use this fit for new users: it knows which topics go together, and pays from "
        "the first decisions on.",
        "reasons": [
            "In the first 10 decisions a new user brings 0.61 instead of 0.42 a decision.",
            "It beats the simple belief clearly: 9.4 ± 2.1 less reward is missed in 100 decisions.",
            "Its intervals can be trusted: 89% of hidden rewards fell into its 90% intervals.",
        ],
        "tasks_wanted": None,
    },
    "use the simple one": {
        "headline": "Use the simple belief (Gaussian): nothing more elaborate decides better here.",
        "reasons": [
            "The diffusion model is not better: it misses 0.4 ± 1.6 more reward in 100 decisions.",
            "The Gaussian is fitted in seconds and decides in microseconds.",
        ],
        "tasks_wanted": None,
    },
    "collect more data": {
        "headline": "Collect more data first: with 60 tasks one cannot tell whether this is better "
        "than what you do today.",
        "reasons": [
            "The intervals of this fit and of today's decisions overlap.",
            "The learning curve still falls: each doubling of the log has helped.",
        ],
        "tasks_wanted": 487,
    },
}
_CHOSEN = {"use it": "diffusion", "use the simple one": "gaussian", "collect more data": "gaussian"}


def arm_names(n_arms):
    return [*TOPICS[:n_arms], *(f"Topic {i}" for i in range(len(TOPICS), n_arms))]


def example_facts(advice="use it", *, arms=None, binary=False):
    """Facts as `fit` fills them, for a piece of advice; numbers that could be true."""
    arms = arm_names(16) if arms is None else list(arms)
    few = advice == "collect more data"
    error, n_tasks = (0.03, 60) if few else (0.006, 1840)
    chosen = _CHOSEN[advice]
    missed = {"independent": 31.0, "gaussian": 21.7, "mixture": 19.0, "diffusion": 12.3}
    if chosen == "gaussian":
        missed = {"independent": 31.0, "gaussian": 14.9, "mixture": 15.8, "diffusion": 15.3}
    spread = 100 * error
    judged = [
        {
            "kind": kind, "crps": 0.08 + 0.001 * regret, "crps_se": 0.0021,
            "log_score": 0.9 - 0.02 * regret, "log_score_se": 0.018,
            "coverage": {"0.5": 0.53 - 0.001 * regret, "0.9": 0.91 - 0.002 * regret},
            "regret": {"10": 0.25 * regret, "30": 0.5 * regret, "100": regret},
            "regret_se": {"10": 0.2 * spread, "30": 0.4 * spread, "100": spread},
            "reward": {"10": 0.78 - 0.014 * regret, "30": 0.78 - 0.009 * regret,
                       "100": 0.78 - 0.006 * regret},
            "reward_se": dict.fromkeys(SPANS, error),
            "gap": regret - missed[chosen], "gap_se": 0.0 if kind == chosen else 0.8 * spread,
            "seconds": seconds, "note": None,
        }
        for (kind, regret), seconds in zip(missed.items(), (0.3, 4.2, 21.0, 190.0), strict=True)
    ]  # fmt: skip
    if few:  # the last one was never fitted
        judged[-1] = {"kind": "diffusion", "note": "left out: fewer than 100 tasks to learn from"}
    baselines = [
        {"name": name, "reward": dict(zip(SPANS, reward, strict=True)),
         "reward_se": dict.fromkeys(SPANS, error),
         "regret": dict.fromkeys(SPANS, 30.0)}
        for name, reward in (
            ("as logged", (0.42, 0.43, 0.43) if not few else (0.56, 0.57, 0.57)),
            ("best arm for all", (0.52, 0.52, 0.52)),
            ("ucb1", (0.33, 0.41, 0.55)),
        )
    ]  # fmt: skip
    return {
        "log": {
            "rows_read": 12 * n_tasks + 57, "rows_used": 12 * n_tasks,
            "dropped": {"no reward": 41, "duplicate row": 16}, "tasks": n_tasks, "arms": len(arms),
            "pulls": 12 * n_tasks, "observed_share": 0.41, "reward_mean": 0.437,
            "low": -0.62, "high": 1.71, "first": "2025-03-01T00:04:11+00:00",
            "last": "2025-05-31T23:58:02+00:00", "binary": binary, "noise_std": 0.2031,
            "rare_arms": arms[-2:] if len(arms) > 2 else [],
        },
        "arms": [
            {"name": name, "pulls": 1300 - 2 * i, "tasks": 900 - i, "mean": 0.55 - 0.02 * (i % 15),
             "std": 0.12 + 0.02 * (i * 7 % 11)}
            for i, name in enumerate(arms)
        ],
        "judged": judged,
        "baselines": baselines,
        "best_possible": dict.fromkeys(SPANS, 0.8),
        "completed": "Arms that a task had not tried were filled in with the rewards of the most "
        "similar tasks that had.",
        "race_tasks": n_tasks // 5,
        "rule": "default",
        "chosen": chosen,
        "why": {
            "diffusion": "The diffusion model missed the least reward, clearly less than the next.",
            "gaussian": "The Gaussian is the simplest within one standard error of the best.",
        }[chosen],
        "learning_curve": [
            {"tasks": max(n_tasks // part, 5), "regret": missed[chosen] * (1 + 0.35 * i),
             "regret_se": spread}
            for i, part in enumerate((1, 2, 4, 8))
        ][::-1],
        "verdict": {"advice": advice, **_SAID[advice]},
        "seconds": 218.4,
        "versions": {"diffts": "0.1.0", "python": "3.11.2", "jax": "0.10.2"},
        "command": "diffts fit clicks.csv --task user --arm topic --out fits/topics",
    }  # fmt: skip


def example_fit(advice="use it", *, arms=None, tasks=80, facts=None, binary=False, seed=0):
    """A fit with some structure (groups of three arms go together), and the log's means (N, K)."""
    arms = arm_names(16) if arms is None else list(arms)
    facts = example_facts(advice, arms=arms, binary=binary) if facts is None else facts
    n_arms, generator = len(arms), np.random.default_rng(seed)
    groups = (np.arange(n_arms)[:, None] // 3 == np.arange((n_arms + 2) // 3)) * 1.0
    groups *= 1 - 0.05 * (np.arange(n_arms) % 7)[:, None]
    means = 0.55 - 0.02 * (np.arange(n_arms) % 15)
    covariance = 0.05 * groups @ groups.T + 0.012 * np.eye(n_arms)
    first, second = groups[:, 0], groups[:, 1 % groups.shape[1]]
    if n_arms > 3:
        covariance -= 0.03 * (np.outer(first, second) + np.outer(second, first))
    law = Gaussian(means, covariance)
    kind = facts.get("chosen", "gaussian")
    if kind == "diffusion":  # drawn as a mixture: a network would take minutes to learn
        kind, law = "mixture", GaussianMixture([0.5, 0.5], [means, means + 0.2], [covariance] * 2)
    past = GaussianMixture.of(law).sample(tasks, seed=seed) + 0.08 * generator.normal(
        size=(tasks, n_arms)
    )
    past[generator.random(past.shape) > 0.6] = np.nan
    noise = BernoulliNoise() if binary else FixedNoise(0.2)
    return Fitted(kind, law, tuple(arms), noise, NewArms(0.4, 0.1, 0.2), facts), past
