"""The noise schedule, its strided sub-schedules, and the coefficients of one reverse step.

Forward process: ``x_ℓ = √ᾱ_ℓ x_0 + √(1-ᾱ_ℓ) z`` with ``ᾱ_ℓ = Π_{i≤ℓ} α_i`` and ``ᾱ_0 = 1``.
All coefficients are computed in float64 on the host: ``1-ᾱ_1 = 1e-4`` would lose three digits
in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike, NDArray

from diffts.errors import InvalidInputError
from diffts.validation import finite_array, whole_number


class NoiseLevel(NamedTuple):
    """How noisy a latent is: ``x_ℓ = signal · x_0 + noise · z``.

    ``step`` is ``ℓ`` counted in the full schedule, also on a strided sub-schedule: it is what a
    network was trained with.
    """

    step: Int[Array, ...]
    signal: Float[Array, ...]
    noise: Float[Array, ...]


class Transition(NamedTuple):
    """Coefficients of the reverse step from ``ℓ+1`` (source) to ``ℓ`` (target).

    ``q(x_ℓ | x_{ℓ+1}, x_0) = N(c0 x_0 + c1 x_{ℓ+1}, variance)`` (Eq. DDPM-reverse).
    ``is_last`` is 1 for the step that ends at ``ℓ = 0``, where ``c0 = 1, c1 = 0, variance = 0``.
    """

    source: NoiseLevel
    target: NoiseLevel
    c0: Float[Array, ...]
    c1: Float[Array, ...]
    variance: Float[Array, ...]
    is_last: Float[Array, ...]


@dataclass(frozen=True)
class Schedule:
    """Signal levels ``ᾱ_0 = 1 > ᾱ_1 > … > ᾱ_L > 0``.

    >>> schedule = Schedule.linear()
    >>> schedule.n_steps, round(schedule.alpha_bar[-1], 4)
    (100, 0.0056)
    >>> schedule.strided(4)
    (0, 25, 50, 75, 100)
    """

    alpha_bar: tuple[float, ...]

    def __post_init__(self) -> None:
        levels = finite_array("alpha_bar", self.alpha_bar, ndim=1)
        if len(levels) < 2 or levels[0] != 1.0 or levels[-1] <= 0 or (np.diff(levels) >= 0).any():
            raise InvalidInputError(
                "alpha_bar: must start at 1 and decrease strictly towards a value above 0"
            )

    @staticmethod
    def from_betas(betas: ArrayLike) -> Schedule:
        """``ᾱ_ℓ = Π_{i≤ℓ} (1-β_i)`` from the variances ``β_1 … β_L`` of the forward steps."""
        beta = finite_array("betas", betas, ndim=1)
        if not ((beta > 0) & (beta < 1)).all():
            raise InvalidInputError("betas: each must lie strictly between 0 and 1")
        return Schedule((1.0, *np.cumprod(1.0 - beta).tolist()))

    @staticmethod
    def linear(n_steps: int = 100, first: float = 1e-4, last: float = 0.1) -> Schedule:
        """The paper's schedule: ``β`` linear from ``first`` to ``last``."""
        return Schedule.from_betas(np.linspace(first, last, whole_number("n_steps", n_steps, 1)))

    @staticmethod
    def cosine(n_steps: int = 100, offset: float = 0.008, largest_beta: float = 0.5) -> Schedule:
        """``ᾱ`` along a squared cosine (Nichol and Dhariwal 2021), with ``β`` capped."""
        n_steps = whole_number("n_steps", n_steps, 1)
        angle = (np.linspace(0, 1, n_steps + 1) + offset) / (1 + offset) * np.pi / 2
        levels = np.cos(angle) ** 2
        return Schedule.from_betas(np.minimum(1 - levels[1:] / levels[:-1], largest_beta))

    @property
    def n_steps(self) -> int:
        """Number of diffusion steps ``L``."""
        return len(self.alpha_bar) - 1

    def strided(self, steps: int | None = None, lateness: float = 1.0) -> tuple[int, ...]:
        """``steps + 1`` step indices from 0 to L: the k-th is about ``L (k/S)^lateness``.

        Evenly spaced by default. With a lateness above 1 more of them are where there is little
        noise, the end of a reverse chain.

        >>> Schedule.linear().strided(4, lateness=2.0)
        (0, 6, 25, 56, 100)
        """
        steps = whole_number("steps", self.n_steps if steps is None else steps, 1, self.n_steps)
        if not (np.isfinite(lateness) and lateness >= 1.0):
            raise InvalidInputError(f"lateness: must be at least 1, got {lateness}")
        even = np.linspace(0, self.n_steps, steps + 1)
        wanted = np.round(even * (even / self.n_steps) ** (lateness - 1.0)).astype(int)
        # All different, and none beyond what leaves room for those above it.
        rank = np.arange(steps + 1)
        apart = np.maximum.accumulate(wanted - rank) + rank
        return tuple(int(i) for i in np.minimum(apart, self.n_steps - steps + rank))

    def level(self, step: Any) -> NoiseLevel:
        """The noise level of step ``ℓ`` (a whole number or an array of them, 0 to L)."""
        index = np.asarray(step)
        levels = np.asarray(self.alpha_bar)[index]
        return NoiseLevel(
            index.astype(np.int32),  # type: ignore[arg-type]
            _single(np.sqrt(levels)),
            _single(np.sqrt(1.0 - levels)),
        )

    def levels(self) -> NoiseLevel:
        """The noise levels 1 to L, as arrays ``(L,)`` on the device."""
        return jax.tree.map(jnp.asarray, self.level(np.arange(1, self.n_steps + 1)))

    def transitions(self, steps: int | None = None, lateness: float = 1.0) -> Transition:
        """All reverse steps of a strided sub-schedule, noisiest first, leaves of shape ``(S,)``.

        On a sub-schedule ``α_{ℓ+1}`` is ``ᾱ_{ℓ+1}/ᾱ_ℓ`` of the two neighbouring kept steps.
        """
        kept = np.asarray(self.strided(steps, lateness))[::-1]
        levels = np.asarray(self.alpha_bar)
        source, target = levels[kept[:-1]], levels[kept[1:]]
        alpha = source / target
        return Transition(
            source=self.level(kept[:-1]),
            target=self.level(kept[1:]),
            c0=_single(np.sqrt(target) * (1 - alpha) / (1 - source)),
            c1=_single(np.sqrt(alpha) * (1 - target) / (1 - source)),
            variance=_single((1 - target) * (1 - alpha) / (1 - source)),
            is_last=_single(kept[1:] == 0),
        )


def _single(values: NDArray[Any]) -> Any:
    return np.asarray(values, dtype=np.float32)
