"""From a log to a belief: fit the candidates, judge them on other tasks, keep the best."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffts.bandits.noise import (
    BernoulliNoise,
    FixedNoise,
    Noise,
    PooledNoise,
    noise_to_json,
)
from diffts.bandits.rules import make_rule
from diffts.circumstances import circumstances
from diffts.diffusion.prior import DiffusionPrior
from diffts.errors import InvalidInputError
from diffts.evidence import Evidence
from diffts.fitting.candidates import Candidate, fit_candidates, rows_of
from diffts.fitting.fitted import KINDS, Fitted, Law
from diffts.fitting.judging import Prediction, mean_and_error, predict
from diffts.fitting.new_arms import estimate_new_arms
from diffts.fitting.race import HORIZONS, Outcome, baselines, complete, play, rewards_like
from diffts.fitting.verdict import Gain, verdict
from diffts.learning.fits import fit_diagonal, fit_factor_gaussian
from diffts.learning.held_out import hide
from diffts.logs import Columns, Log, read_log
from diffts.seeding import as_generator
from diffts.validation import number_between, one_of

#: Tasks that are kept from the fits, and raced at most.
JUDGED_SHARE, MOST_RACED = 0.25, 100
#: Pulls of one arm in one task, beyond the first, from which the noise is known well enough.
KNOWN_NOISE = 100
LEAST_TASKS, LEAST_ARMS = 8, 2
LAST = str(max(HORIZONS))


def fit(
    log: Any,
    columns: Columns | None = None,
    *,
    minutes: float = 8.0,
    rule: str = "default",
    kinds: Sequence[str] | None = None,
    seed: int = 0,
    command: str = "",
    on_progress: Callable[[str], None] = lambda _: None,
) -> Fitted:
    """Learn what a log teaches of a new task.

    Independent Gaussians, a factor Gaussian, a mixture and a diffusion prior (with the factor
    Gaussian below it) are fitted to three quarters of the tasks. The others judge: how well each
    predicts entries that were hidden, and how it plays tasks that are completed from the data. The
    least regret wins, or the simplest belief within one standard error of it.

    Args:
        log: what ``read_log`` has read; or what it reads: a file, a folder, a table.
        columns: which column is which, for ``read_log``.
        minutes: time for the fits, roughly; the diffusion prior is left out if none is left.
        rule: the rule of the race.
        kinds: candidates, all by default.
        seed: of splits, fits and the race.
        command: what was typed, to be kept with the result.
        on_progress: told what is being done.
    """
    started = time.perf_counter()
    if not isinstance(log, Log):
        on_progress("reading the log")
        log = read_log(log, columns)
    make_rule(rule)  # what cannot be is refused before anything takes time
    minutes = number_between("minutes", minutes, 0.0, 1e6)
    kinds = KINDS if kinds is None else [one_of("kinds", kind, KINDS) for kind in kinds]
    if not kinds:
        raise InvalidInputError("kinds: none given")
    n_tasks, n_arms = log.counts.shape
    if n_tasks < LEAST_TASKS or n_arms < LEAST_ARMS:
        raise InvalidInputError(
            f"log: {n_tasks} task(s) and {n_arms} arm(s); at least {LEAST_TASKS} and {LEAST_ARMS} "
            "are needed to learn anything"
        )
    noise = noise_of(log)
    evidence = log.evidence()
    order = as_generator(seed).permutation(n_tasks)
    n_judged = max(2, round(JUDGED_SHARE * n_tasks))
    train, judged = rows_of(evidence, order[n_judged:]), rows_of(evidence, order[:n_judged])
    held_out = hide(judged, 0.3, seed)

    fitted: list[Candidate] = []
    predictions: dict[str, Prediction] = {}
    for candidate in fit_candidates(train, kinds, minutes=minutes, seed=seed, tell=on_progress):
        fitted.append(candidate)
        if candidate.law is not None:
            on_progress(f"judging: {candidate.kind}")
            predictions[candidate.kind] = predict(candidate.law, held_out, seed)
    laws = {one.kind: one.law for one in fitted if one.law is not None}
    if not laws:
        raise InvalidInputError(f"kinds: none could be fitted ({fitted[0].note})")

    plausible = explains_well(predictions)
    raced = rows_of(judged, np.arange(min(n_judged, MOST_RACED)))
    tasks = complete(raced, [laws[kind] for kind in plausible], seed)
    tasks = np.clip(tasks, 0.0, 1.0) if log.is_binary else tasks
    rewards = rewards_like(log.is_binary, log.noise_std)

    new_arms = estimate_new_arms(log.counts, log.means, log.noise_std)

    def race(kind: str, law: Law) -> Outcome:
        on_progress(f"racing: {kind}")
        belief = Fitted(kind, law, log.arms, noise, new_arms)
        return play(belief.policy(rule, horizon=max(HORIZONS)), tasks, rewards, seed)

    outcomes = {kind: race(kind, law) for kind, law in laws.items()}
    chosen = simplest_of_the_best({kind: one.regret[LAST] for kind, one in outcomes.items()})
    overall = _mean_over_tasks(log.means[order[n_judged:]], log.counts[order[n_judged:]])
    others = {
        name: way(tasks, rewards, seed)
        for name, way in baselines(log.counts.sum(0), overall, log.noise_std).items()
    }
    curve = learning_curve(train, lambda law: race("gaussian", law), outcomes.get("gaussian"))
    gains = [
        Gain(name, *mean_and_error(outcomes[chosen].reward[LAST] - other.reward[LAST]))
        for name, other in others.items()
    ]
    on_progress(f"keeping: {chosen}")
    facts: dict[str, Any] = {
        "log": facts_of(log),
        "arms": arms_of(log),
        "tasks": list(log.tasks),  # a backtest should judge by others
        "judged": [judged_row(one, predictions.get(one.kind), outcomes, chosen) for one in fitted],
        "baselines": [{"name": name, **_summary(outcome)} for name, outcome in others.items()],
        "best_possible": {str(t): float(tasks.max(1).mean()) for t in HORIZONS},
        "completed": (
            f"{len(tasks)} tasks that no belief was fitted to; what is not known of them was drawn "
            f"from their posterior, by turns under: {', '.join(plausible)}"
        ),
        "race_tasks": len(tasks),
        "rule": rule,
        "chosen": chosen,
        "why": why(chosen, outcomes),
        "learning_curve": curve,
        "verdict": verdict(chosen, n_tasks, gains, curve),
        "seconds": time.perf_counter() - started,
        "versions": circumstances(),
        "command": command,
    }
    law = refitted(chosen, laws[chosen], evidence, seed)
    if isinstance(law, DiffusionPrior):  # so that ThompsonSampling(prior) needs to be told nothing
        law = law.with_errors(law.tau, noise=noise_to_json(noise), arms=list(log.arms))
    return Fitted(chosen, law, log.arms, noise, new_arms, facts)


def noise_of(log: Log) -> Noise:
    """Of a reward: clicks and wins vary as they do; else what the log shows within arms."""
    if log.is_binary:
        return BernoulliNoise(start=max(log.noise_std, 0.03), weight=10.0)
    repeats = float(np.maximum(log.counts - 1, 0).sum())
    if repeats >= KNOWN_NOISE:
        return FixedNoise(log.noise_std)
    return PooledNoise(log.noise_std, weight=max(1.0, repeats))


def explains_well(predictions: dict[str, Prediction]) -> list[str]:
    """Kinds whose log score is within two standard errors of the best, task by task."""
    best = max(predictions, key=lambda kind: float(predictions[kind].log_score.mean()))
    kept = []
    for kind, prediction in predictions.items():
        behind, error = mean_and_error(predictions[best].log_score - prediction.log_score)
        if kind == best or behind <= 2 * error:
            kept.append(kind)
    return kept


def simplest_of_the_best(regrets: dict[str, NDArray[np.float64]]) -> str:
    """The least regret, or the first (simplest) within one standard error of it, task by task."""
    best = min(regrets, key=lambda kind: float(regrets[kind].mean()))
    for kind, regret in regrets.items():
        more, error = mean_and_error(regret - regrets[best])
        if more <= error or kind == best:
            return kind
    return best


def learning_curve(
    train: Evidence, race: Callable[[Law], Outcome], whole: Outcome | None
) -> list[dict[str, float]]:
    """Regret of the factor Gaussian from a quarter, from half and from all training tasks."""
    n_tasks, curve = len(train.mean), []
    for share in (4, 2, 1):
        count = n_tasks // share
        if count < 2 * LEAST_TASKS:
            continue
        if share == 1 and whole is not None:
            outcome = whole
        else:
            some, others = np.arange(count // 6, count), np.arange(count // 6)
            law = fit_factor_gaussian(rows_of(train, some), rows_of(train, others)).gaussian
            outcome = race(law)
        mean, error = mean_and_error(outcome.regret[LAST])
        curve.append({"tasks": count, "regret": mean, "regret_se": error})
    return curve


def refitted(kind: str, law: Law, evidence: Evidence, seed: int) -> Law:
    """The cheap ones once more, from all tasks; the others stay as they were judged."""
    if kind == "independent":
        return fit_diagonal(evidence)
    if kind == "gaussian":
        order = as_generator(seed).permutation(len(evidence.mean))
        sixth = max(1, len(order) // 6)
        some, others = rows_of(evidence, order[sixth:]), rows_of(evidence, order[:sixth])
        return fit_factor_gaussian(some, others).gaussian
    return law


def why(chosen: str, outcomes: dict[str, Outcome]) -> str:
    """One sentence."""
    best = min(outcomes, key=lambda kind: float(outcomes[kind].regret[LAST].mean()))
    if best == chosen:
        return f"It had the least regret after {LAST} decisions."
    more, error = mean_and_error(outcomes[chosen].regret[LAST] - outcomes[best].regret[LAST])
    return (
        f"It is the simplest within one standard error of the best, {best} "
        f"({more:+.3g} ± {error:.2g} regret after {LAST} decisions)."
    )


def judged_row(
    candidate: Candidate,
    prediction: Prediction | None,
    outcomes: dict[str, Outcome],
    chosen: str,
) -> dict[str, Any]:
    """What is told of a candidate."""
    row: dict[str, Any] = {
        "kind": candidate.kind,
        "seconds": candidate.seconds,
        "note": candidate.note,
    }
    if prediction is None:
        return row
    outcome = outcomes[candidate.kind]
    crps, crps_se = mean_and_error(prediction.crps)
    log_score, log_score_se = mean_and_error(prediction.log_score)
    gap, gap_se = mean_and_error(outcome.regret[LAST] - outcomes[chosen].regret[LAST])
    return row | {
        "crps": crps,
        "crps_se": crps_se,
        "log_score": log_score,
        "log_score_se": log_score_se,
        "coverage": prediction.coverage,
        "gap": gap,
        "gap_se": gap_se,
        **_summary(outcome),
    }


def _summary(outcome: Outcome) -> dict[str, dict[str, float]]:
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
    mean = _mean_over_tasks(log.means, log.counts)
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


def _mean_over_tasks(
    means: NDArray[np.float64], counts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Each arm's mean over the tasks that tried it ``(K,)``; the least of all if none did."""
    seen = counts > 0
    sums = np.where(seen, means, 0.0).sum(0)
    average = sums / np.maximum(seen.sum(0), 1)
    return np.where(seen.any(0), average, average[seen.any(0)].min(initial=0.0))
