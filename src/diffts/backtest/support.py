"""Whether a log has what a policy would play; a refusal in one line where it has not.

The weights ``w = π/p`` average 1 if the log can play all that the policy would. Where it cannot,
they average the share of the policy's choices that it can: the rest of its value is in no round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from diffts.backtest.estimators import clustered_error, effective_size
from diffts.backtest.rounds import Floats, LoggedRounds
from diffts.backtest.targets import Chances
from diffts.errors import InvalidInputError

#: A policy of whose choices the log has less than this share is refused.
LEAST_SHARE = 0.95
#: Standard errors that the mean weight may be off before anything is said.
ERRORS = 4.0
#: Effective rounds, and tasks, below which estimates are said to rest on little.
FEW_ROUNDS, FEW_TASKS = 30.0, 20
#: Degrees of freedom of an error below which an interval is said to be rough.
FEW_FREEDOM = 5.0

ADVICE = "log with a floor, a least chance of every arm (floor=0.01, say)"


class NoOverlapError(InvalidInputError):
    """The log does not have what the policy would play."""


@dataclass(frozen=True)
class Support:
    """What a log has of a policy's choices.

    Attributes:
        share_on_logged_arms: of the policy's probability, that on arms that the log plays at all.
        mean_weight: mean of ``w``; 1 if the log can play all that the policy would.
        mean_weight_stderr: its standard error, by task.
        known_missing: of the policy's probability, what the log certainly could not play: other
            arms where it played one with propensity 1, and arms that it never has.
        largest_weight: the largest ``w``.
        effective_rounds: ``(Σw)²/Σw²``.
        rounds: all of them.
        rounds_without_overlap: rounds whose arm the policy would never play.
        deterministic: whether the policy always has one arm that it plays for sure.
    """

    share_on_logged_arms: float
    mean_weight: float
    mean_weight_stderr: float
    known_missing: float
    largest_weight: float
    effective_rounds: float
    rounds: int
    rounds_without_overlap: int
    deterministic: bool


@dataclass
class Tally:
    """What is added up over the blocks of a log."""

    on_logged_arms: float = 0.0
    missing: float = 0.0
    certain: bool = True

    def add(self, rounds: LoggedRounds, start: int, stop: int, chances: Chances) -> None:
        """One more block of rounds."""
        by_arm = chances.by_arm
        own = by_arm[np.arange(stop - start), rounds.arm[start:stop]]
        here = rounds.on_offer(start, stop) & rounds.played
        covered = np.sum(by_arm, axis=1, where=here)
        sure = rounds.propensity[start:stop] >= 1.0
        self.on_logged_arms += float(covered.sum())
        self.missing += float(np.sum(np.where(sure, 1.0 - own, 1.0 - covered)))
        self.certain &= bool(np.isin(chances.logged, (0.0, 1.0)).all())

    def support(self, rounds: LoggedRounds, weights: Floats) -> Support:
        """The whole of it."""
        count, mean = len(rounds), float(weights.mean())
        error = clustered_error((weights - mean) / count, rounds.clusters)[0]
        return Support(
            share_on_logged_arms=self.on_logged_arms / count,
            mean_weight=mean,
            mean_weight_stderr=0.0 if np.isnan(error) else error,
            known_missing=max(0.0, self.missing / count),
            largest_weight=float(weights.max()),
            effective_rounds=effective_size(weights),
            rounds=count,
            rounds_without_overlap=int(np.sum(weights == 0)),
            deterministic=self.certain,
        )


def refuse(name: str, support: Support) -> None:
    """Raise an error where estimates would be of something else than the policy."""
    if support.rounds_without_overlap == support.rounds:
        raise NoOverlapError(
            f"{name}: no overlap: in none of {support.rounds} rounds does the log play what it "
            f"would; {ADVICE}"
        )
    if support.known_missing > 1.0 - LEAST_SHARE:
        raise NoOverlapError(
            f"{name}: no overlap: {support.known_missing:.0%} of its choices had no chance in the "
            f"log; {ADVICE}"
        )
    if support.mean_weight + ERRORS * support.mean_weight_stderr < LEAST_SHARE:
        raise NoOverlapError(
            f"{name}: no overlap: the log has a chance of only {support.mean_weight:.0%} of its "
            f"choices (weights average {support.mean_weight:.3g} ± "
            f"{support.mean_weight_stderr:.2g}, not 1); {ADVICE}"
        )


def doubts(name: str, support: Support) -> Iterator[str]:
    """What a reader of the estimates should know."""
    off = abs(support.mean_weight - 1.0)
    if off > ERRORS * support.mean_weight_stderr and off > 1e-6:
        yield (
            f"{name}: weights average {support.mean_weight:.3g} ± "
            f"{support.mean_weight_stderr:.2g}, not 1: propensities are not the true ones, or the "
            f"log lacks some of its choices; {ADVICE}"
        )
    elif support.known_missing > 1e-3:
        yield (
            f"{name}: {support.known_missing:.1%} of its choices had no chance in the log; {ADVICE}"
        )
    if support.effective_rounds < FEW_ROUNDS:
        yield (
            f"{name}: weighted estimates rest on {support.effective_rounds:.0f} effective rounds "
            f"of {support.rounds}: their intervals are not to be relied on"
        )
