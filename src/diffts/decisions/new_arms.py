"""What one task may think of a new arm, given what other tasks have seen of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from diffts.decisions.store import Elsewhere, Totals
from diffts.fitting.fitted import NewArms


class ArmLaw(NamedTuple):
    """``N(mean, std²)``: an arm's mean reward in a task that has not pulled it."""

    mean: float
    std: float


def law_of_new_arm(
    law: NewArms, noise_std: float, elsewhere: Iterable[Elsewhere], own: Totals | None = None
) -> ArmLaw:
    """The law of an arm in one task, after what the others have seen of it.

    ``M ~ N(m, b²)`` is the arm's mean over tasks, ``r̄_i ~ N(M, w²+σ²/n_i)`` what n_i rewards of
    task i say of it. With the precisions ``p_i = 1/(w² + σ²/n_i)``,

    ``V = 1/(1/b² + Σ p_i)``, ``M̂ = V (m/b² + Σ p_i r̄_i)``, and ``μ ~ N(M̂, V + w²)``.

    So the first tasks try a bad arm, and the next ones know.

    Args:
        law: what arms are like that nobody has seen.
        noise_std: of one reward, σ.
        elsewhere: what all tasks have seen.
        own: what this task itself has seen of it, which is not to count twice.

    >>> law_of_new_arm(NewArms(0.5, 0.3, 0.4), 0.1, [])
    ArmLaw(mean=0.5, std=0.5)
    """

    def precision(pulls: int) -> float:
        return 1.0 / (law.within**2 + noise_std**2 / pulls)

    told = shifted = 0.0  # Σ p and Σ p (r̄ - m)
    for pulls, tasks, means in elsewhere:
        told += tasks * precision(pulls)
        shifted += precision(pulls) * (means - tasks * law.mean)
    if own is not None and own.pulls:
        told -= precision(own.pulls)
        shifted -= precision(own.pulls) * (own.mean - law.mean)
    told = max(told, 0.0)  # rounding
    shrunk = law.between**2 / (1.0 + law.between**2 * told)
    return ArmLaw(law.mean + shrunk * shifted, (shrunk + law.within**2) ** 0.5)
