"""What is told of a fit: of the log, of its arms, of each candidate, and why one was chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffts.diffusion.prior import DiffusionPrior
from diffts.fitting.candidates import PLAN, Candidate
from diffts.fitting.judging import Prediction, mean_and_error
from diffts.fitting.race import Outcome
from diffts.logs import Log


def why(chosen: str, outcomes: Mapping[str, Outcome], decisions: int) -> str:
    """One sentence."""
    best = min(outcomes, key=lambda kind: float(outcomes[kind].missed.mean()))
    if best == chosen:
        return f"It had the least regret after {decisions} decisions."
    more, error = mean_and_error(outcomes[chosen].missed - outcomes[best].missed)
    return (
        f"It is the simplest within one standard error of the best, {best} "
        f"({more:+.3g} ± {error:.2g} regret after {decisions} decisions)."
    )


def judged_row(
    candidate: Candidate,
    prediction: Prediction | None,
    outcomes: Mapping[str, Outcome],
    chosen: str,
    too_slow: str | None,
) -> dict[str, Any]:
    """What is told of a candidate; ``too_slow``: why it was not raced, if it was not."""
    row: dict[str, Any] = {
        "kind": candidate.kind,
        "seconds": candidate.seconds,
        "note": candidate.note or too_slow,
    }
    if isinstance(candidate.law, DiffusionPrior):
        row |= _steps_of(candidate.law)
    if prediction is None:
        return row
    crps, crps_se = mean_and_error(prediction.crps)
    log_score, log_score_se = mean_and_error(prediction.log_score)
    row |= {
        "crps": crps,
        "crps_se": crps_se,
        "log_score": log_score,
        "log_score_se": log_score_se,
        "coverage": prediction.coverage,
    }
    outcome = outcomes.get(candidate.kind)
    if outcome is None:
        return row
    gap, gap_se = mean_and_error(outcome.missed - outcomes[chosen].missed)
    return row | {"gap": gap, "gap_se": gap_se, **summary(outcome)}


def _steps_of(prior: DiffusionPrior) -> dict[str, Any]:
    """Gradient steps: those of the whole plan, those that the time was enough for, those made."""
    kept = prior.metadata["procedure"]
    return {
        "steps": {
            "whole": PLAN["warmup_steps"] + PLAN["rounds"] * PLAN["inner_steps"],
            "planned": kept["warmup_steps"] + kept["rounds"] * kept["inner_steps"],
            "made": prior.metadata["learning"]["steps"],
        }
    }


def summary(outcome: Outcome) -> dict[str, dict[str, float]]:
    """Mean rewards and regrets over tasks, with their standard errors."""
    parts = {"reward": outcome.reward, "regret": outcome.regret}
    return {
        name + ending: {t: mean_and_error(values)[which] for t, values in of_each.items()}
        for name, of_each in parts.items()
        for which, ending in enumerate(("", "_se"))
    }


def facts_of(log: Log) -> dict[str, Any]:
    """What was in it."""
    facts = log.facts
    return {
        "rows_read": facts.rows_read,
        "rows_used": facts.rows_used,
        "dropped": dict(facts.dropped),
        "tasks": len(log.tasks),
        "arms": len(log.arms),
        "pulls": float(log.counts.sum()),
        "observed_share": float((log.counts > 0).mean()),
        "reward_mean": float((log.counts * log.means).sum() / log.counts.sum()),
        "low": facts.least_reward,
        "high": facts.largest_reward,
        "first": facts.first_time,
        "last": facts.last_time,
        "binary": log.is_binary,
        "noise_std": log.noise_std,
        "noise_is_assumed": log.noise_is_assumed,
        "rare_arms": [*facts.rare_arms, *facts.seldom_arms],
        "remarks": facts.sentences(),
        "source": facts.source,
    }


def arms_of(log: Log) -> list[dict[str, Any]]:
    """What the log has of each arm."""
    seen = log.counts > 0
    mean = mean_over_tasks(log.means, log.counts)
    spread = np.sqrt(
        np.where(seen, (log.means - mean) ** 2, 0.0).sum(0) / np.maximum(seen.sum(0), 1)
    )
    return [
        {
            "name": name,
            "pulls": int(log.counts[:, arm].sum()),
            "tasks": int(seen[:, arm].sum()),
            "mean": float(mean[arm]),
            "std": float(spread[arm]),
        }
        for arm, name in enumerate(log.arms)
    ]


def mean_over_tasks(means: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each arm's mean over the tasks that tried it ``(K,)``; the least of all if none did."""
    seen = counts > 0
    sums = np.where(seen, means, 0.0).sum(0)
    average = sums / np.maximum(seen.sum(0), 1)
    return np.where(seen.any(0), average, average[seen.any(0)].min(initial=0.0))
