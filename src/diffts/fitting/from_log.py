"""From a log to a belief: fit the candidates, judge them on other tasks, keep the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
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
from diffts.bandits.policy import Policy
from diffts.bandits.rules import make_rule
from diffts.circumstances import circumstances
from diffts.diffusion.prior import DiffusionPrior
from diffts.errors import InvalidInputError
from diffts.evidence import Evidence
from diffts.fitting.budget import Budget
from diffts.fitting.candidates import Candidate, fit_candidates, rows_of
from diffts.fitting.entries import enter
from diffts.fitting.facts import arms_of, facts_of, judged_row, summary, why
from diffts.fitting.fitted import KINDS, Fitted, Law
from diffts.fitting.judging import Prediction, mean_and_error, predict
from diffts.fitting.new_arms import estimate_new_arms
from diffts.fitting.race import (
    LEAST_DECISIONS,
    MOST_DECISIONS,
    TRIAL,
    Outcome,
    baselines,
    complete,
    play,
    rewards_like,
    seconds_of_a_task,
    spans,
)
from diffts.fitting.side_by_side import has_accelerator, results_of
from diffts.fitting.support import doubt, worthwhile
from diffts.fitting.verdict import Gain, verdict
from diffts.learning.fits import fit_factor_gaussian, fit_independent, weighted_moments
from diffts.learning.held_out import hide
from diffts.logs import Columns, Log, read_log
from diffts.seeding import as_generator
from diffts.validation import one_of, whole_number

#: Tasks that are kept from the fits; and of these, those that predictions are judged on at most.
JUDGED_SHARE, MOST_PREDICTED = 0.25, 300
#: Pulls of one arm in one task, beyond the first, from which the noise is known well enough.
KNOWN_NOISE = 100
LEAST_TASKS, LEAST_ARMS = 8, 2
#: The learning curve has Gaussians from a quarter and from half of the tasks, and from all.
#: Their ranks are searched from here on: each more is another program to compile.
CURVE, CURVE_RANK = (4, 2), 4


def fit(
    log: Any,
    columns: Columns | None = None,
    *,
    minutes: float | Budget = 8.0,
    decisions: int = 100,
    rule: str = "default",
    kinds: Sequence[str] | None = None,
    seed: int = 0,
    command: str = "",
    on_progress: Callable[[str], None] = lambda _: None,
    on_candidate: Callable[[str, Law], None] = lambda *_: None,
) -> Fitted:
    """Learn what a log teaches of a new task.

    Independent Gaussians, a factor Gaussian, a mixture and a diffusion prior (with the factor
    Gaussian below it) are fitted to three quarters of the tasks. The others judge: how well each
    predicts entries that were hidden, and how it plays tasks that are completed from the data. The
    least regret after as many decisions as a new task gets wins, or the simplest belief within one
    standard error of it.

    Args:
        log: what ``read_log`` has read; or what it reads: a file, a folder, a table.
        columns: which column is which, for ``read_log``.
        minutes: time for all of it, or a :class:`Budget` that is running. The diffusion prior is
            trained for half of what the others leave (for fewer steps, or not at all), and where
            little is left the race has fewer tasks. What takes too long for 1.3 times that and a
            minute is not begun.
        decisions: how many a new task typically gets: the length of the race.
        rule: the rule of the race.
        kinds: candidates, all by default.
        seed: of splits, fits and the race.
        command: what was typed, to be kept with the result.
        on_progress: told what is being done.
        on_candidate: given the kind and the law of every belief that was fitted.
    """
    budget = minutes if isinstance(minutes, Budget) else Budget(minutes)
    decisions = whole_number("decisions", decisions, LEAST_DECISIONS, MOST_DECISIONS)
    if not isinstance(log, Log):
        on_progress("reading the log")
        with budget.part("reading"):
            log = read_log(log, columns)
    make_rule(rule)  # what cannot be is refused before anything takes time
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
    held_out = hide(rows_of(judged, np.arange(min(n_judged, MOST_PREDICTED))), 0.3, seed)

    fitted: list[Candidate] = []
    predictions: dict[str, Prediction] = {}
    for candidate in fit_candidates(train, kinds, budget=budget, seed=seed, tell=on_progress):
        fitted.append(candidate)
        if candidate.law is not None:
            on_candidate(candidate.kind, candidate.law)
            on_progress(f"judging: {candidate.kind}")
            with budget.part("judging"):
                predictions[candidate.kind] = predict(candidate.law, held_out, seed)
    laws = {one.kind: one.law for one in fitted if one.law is not None}
    if not laws:
        raise InvalidInputError(f"kinds: none could be fitted ({fitted[0].note})")

    plausible = explains_well(predictions)
    rewards = rewards_like(log.is_binary, log.noise_std)
    new_arms = estimate_new_arms(log.counts, log.means, log.noise_std)

    def completed(count: int) -> NDArray[np.float64]:
        found = complete(rows_of(judged, np.arange(count)), [laws[k] for k in plausible], seed)
        return np.clip(found, 0.0, 1.0) if log.is_binary else found

    def policy(kind: str, law: Law) -> Policy:
        return Fitted(kind, law, log.arms, noise, new_arms).policy(rule, horizon=decisions)

    def race(kind: str, law: Law) -> Outcome:
        on_progress(f"racing: {kind}")
        with budget.part("race"):
            return play(policy(kind, law), tasks, rewards, seed, decisions)

    of_gaussian = budget.parts.get("fitting: gaussian", 0.0)
    costs = dict.fromkeys(laws, 0.0)
    if n_judged > TRIAL and not has_accelerator():  # there, compiling takes longer than playing
        on_progress("timing the race")
        with budget.part("race"):
            few = completed(TRIAL)
            for kind, law in laws.items():
                costs[kind] = seconds_of_a_task(policy(kind, law), few, rewards, decisions)
    # Two more fits and races of Gaussians for the learning curve, and a last fit to all tasks.
    after = 2 * of_gaussian
    entries = enter(costs, n_judged, budget, kept_back=after, plausible=plausible)
    with budget.part("race"):
        tasks = completed(entries.tasks)
    overall = weighted_moments(train).mean
    ways = baselines(log.counts.sum(0), overall, log.noise_std, decisions)

    def of_fewer(share: int) -> Outcome | None:
        again = of_gaussian + entries.tasks * costs.get("gaussian", 0.0)
        if len(train.mean) // share < 2 * LEAST_TASKS or again > budget.most_left:
            return None
        with suppress(InvalidInputError):  # some tasks of a log may be too odd for a Gaussian
            with budget.part("learning curve"):
                law = gaussian_of_the_first(train, len(train.mean) // share)
            return race("gaussian", law)
        return None

    jobs: list[Callable[[], Outcome | None]] = [
        *(partial(race, kind, laws[kind]) for kind in entries.kinds),
        *(partial(way, tasks, rewards, seed) for way in ways.values()),
        *(partial(of_fewer, share) for share in CURVE),
    ]
    raced = results_of(jobs)
    outcomes = {kind: found for kind in entries.kinds if (found := next(raced)) is not None}
    others = {name: found for name in ways if (found := next(raced)) is not None}
    chosen = simplest_of_the_best({kind: one.missed for kind, one in outcomes.items()})
    whole = [] if (of_all := outcomes.get("gaussian")) is None else [(1, of_all)]
    fewer = [(share, found) for share in CURVE if (found := next(raced)) is not None]
    curve = [point_of_curve(len(train.mean) // share, found) for share, found in fewer + whole]
    earned = outcomes[chosen].earned
    worth = worthwhile(log, tasks, decisions)
    gains = [
        Gain(name, *mean_and_error(earned - other.earned), worth) for name, other in others.items()
    ]
    on_progress(f"keeping: {chosen}")
    law = laws[chosen]
    with budget.part("last fit"):
        if of_gaussian <= budget.most_left:
            with suppress(InvalidInputError):
                law = refitted(chosen, law, evidence, seed)
    facts: dict[str, Any] = {
        "log": facts_of(log),
        "arms": arms_of(log),
        "tasks": list(log.tasks),  # a backtest should judge by others
        "decisions": decisions,
        "judged": [
            judged_row(
                one, predictions.get(one.kind), outcomes, chosen, entries.too_slow.get(one.kind)
            )
            for one in fitted
        ],
        "baselines": [{"name": name, **summary(outcome)} for name, outcome in others.items()],
        "best_possible": {str(t): float(tasks.max(1).mean()) for t in spans(decisions)},
        "completed": (
            f"{len(tasks)} tasks that no belief was fitted to; what is not known of them was drawn "
            f"from their posterior, by turns under: {', '.join(plausible)}"
        ),
        "predicted_tasks": len(held_out.hidden),
        "race_tasks": len(tasks),
        "race_note": entries.note,
        "rule": rule,
        "chosen": chosen,
        "fitted_to_all_tasks": law is not laws[chosen],
        "why": why(chosen, outcomes, decisions),
        "learning_curve": curve,
        "verdict": verdict(
            chosen, n_tasks, gains, curve, decisions, doubt(log, float(earned.mean()))
        ),
        "time": budget.facts(),
        "seconds": budget.used,
        "versions": circumstances(),
        "command": command,
    }
    if isinstance(law, DiffusionPrior):  # so that ThompsonSampling(prior) needs to be told nothing
        law = law.with_errors(law.tau, noise=noise_to_json(noise), arms=list(log.arms))
    past = np.where(log.counts > 0, log.means, np.nan)
    return Fitted(chosen, law, log.arms, noise, new_arms, facts, past)


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


def gaussian_of_the_first(train: Evidence, count: int) -> Law:
    """The factor Gaussian from so many training tasks; a sixth of them tell its rank."""
    some, others = np.arange(count // 6, count), np.arange(count // 6)
    few = fit_factor_gaussian(rows_of(train, some), rows_of(train, others), first_rank=CURVE_RANK)
    return few.gaussian


def point_of_curve(count: int, outcome: Outcome) -> dict[str, float]:
    """Regret of the factor Gaussian from so many tasks (plain JSON)."""
    mean, error = mean_and_error(outcome.missed)
    return {"tasks": count, "regret": mean, "regret_se": error}


def refitted(kind: str, law: Law, evidence: Evidence, seed: int) -> Law:
    """The cheap ones once more, from all tasks; the others stay as they were judged."""
    if kind == "independent":
        return fit_independent(evidence)
    if kind == "gaussian":
        order = as_generator(seed).permutation(len(evidence.mean))
        sixth = max(1, len(order) // 6)
        some, others = rows_of(evidence, order[sixth:]), rows_of(evidence, order[:sixth])
        return fit_factor_gaussian(some, others).gaussian
    return law
