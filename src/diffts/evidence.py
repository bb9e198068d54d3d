"""Evidence: all that a posterior sampler knows about a task.

Per arm an empirical mean ``y``, its standard deviation ``σ``, and whether it was observed
``m``: the likelihood is ``y^a ~ N(x_0^a, (σ^a)²)`` for observed arms (paper, 'From Bandit to
Partially Observed Vector').
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy.typing import ArrayLike

from diffts.errors import InvalidInputError
from diffts.stacking import stack
from diffts.validation import finite_array, float_array, require_finite, whole_number


class Evidence(eqx.Module):
    """Partial noisy observations of one task, or of a batch of tasks.

    Attributes:
        mean: empirical mean reward ``y`` of each arm, shape ``(*batch, K)``; 0 where unobserved.
        std: standard deviation ``σ`` of that mean, same shape; 0 is an exact observation.
        mask: True where the arm was observed, same shape.

    ``std`` and ``mask`` broadcast against ``mean``. Without ``mask``, NaN means unobserved.

    >>> Evidence(mean=[0.2, float("nan"), 0.9], std=0.1).mask.tolist()
    [True, False, True]
    """

    mean: Float[Array, "*batch K"]
    std: Float[Array, "*batch K"]
    mask: Bool[Array, "*batch K"]

    def __init__(self, mean: ArrayLike, std: ArrayLike, mask: ArrayLike | None = None) -> None:
        if any(isinstance(value, jax.core.Tracer) for value in (mean, std, mask)):
            # Inside a compiled function the values are unknown: shapes are all there is.
            self.mean, self.std, self.mask = (jnp.asarray(value) for value in (mean, std, mask))
            return
        y, sigma = float_array("mean", mean), float_array("std", std)
        if y.ndim == 0 or y.shape[-1] == 0:
            raise InvalidInputError(f"mean: expected shape (*batch, arms), got {y.shape}")
        observed = ~np.isnan(y) if mask is None else _as_mask(mask)
        sigma, observed = (
            _broadcast(name, value, y.shape) for name, value in (("std", sigma), ("mask", observed))
        )
        require_finite("mean (where mask is True)", np.where(observed, y, 0.0))
        require_finite("std (where mask is True)", np.where(observed, sigma, 0.0))
        if (negative := observed & (sigma < 0)).any():
            where = tuple(int(i) for i in np.argwhere(negative)[0])
            raise InvalidInputError(f"std: negative ({sigma[where]}) at index {where}")
        self.mean = jnp.asarray(np.where(observed, y, 0.0), jnp.float32)
        self.std = jnp.asarray(np.where(observed, sigma, 0.0), jnp.float32)
        self.mask = jnp.asarray(observed)

    @property
    def n_arms(self) -> int:
        """Number of arms ``K``."""
        return self.mean.shape[-1]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch of tasks, ``()`` for one task."""
        return self.mean.shape[:-1]

    @staticmethod
    def none(n_arms: int, batch_shape: tuple[int, ...] = ()) -> Evidence:
        """No observation at all: the posterior is the prior."""
        shape = (*batch_shape, whole_number("n_arms", n_arms, 1))
        return Evidence(np.zeros(shape), std=0.0, mask=False)

    @staticmethod
    def exact(values: ArrayLike) -> Evidence:
        """Exact data: every arm observed, with no noise (std 0 and a full mask)."""
        return Evidence(values, std=0.0, mask=True)

    @staticmethod
    def from_history(
        arms: ArrayLike, rewards: ArrayLike, n_arms: int, noise_std: ArrayLike
    ) -> Evidence:
        """Evidence from the pulls of one task: ``y^a`` the mean, ``σ^a = σ̂/√n^a``.

        Args:
            arms: pulled arm of each round, integers in ``[0, n_arms)``, shape ``(rounds,)``.
            rewards: reward of each round, shape ``(rounds,)``.
            n_arms: number of arms ``K``.
            noise_std: assumed noise level ``σ̂`` of one reward, a number or one for each arm.

        >>> evidence = Evidence.from_history([0, 2, 2], [1.0, 0.5, 0.7], n_arms=3, noise_std=0.2)
        >>> evidence.mean.round(3).tolist(), evidence.std.round(3).tolist()
        ([1.0, 0.0, 0.6...], [0.2..., 0.0, 0.141...])
        """
        n_arms = whole_number("n_arms", n_arms, 1)
        pulled = np.asarray(arms)
        if pulled.size == 0:
            pulled = pulled.astype(np.int64)
        if pulled.ndim != 1 or not np.issubdtype(pulled.dtype, np.integer):
            raise InvalidInputError(
                f"arms: expected a list of whole numbers, got {pulled.dtype} {pulled.shape}"
            )
        if len(unknown := pulled[(pulled < 0) | (pulled >= n_arms)]):
            raise InvalidInputError(f"arms: unknown arm {unknown[0]}; arms are 0 to {n_arms - 1}")
        values = finite_array("rewards", rewards)
        if values.shape != pulled.shape:
            raise InvalidInputError(
                f"rewards: expected one for each pull, shape {pulled.shape}, got {values.shape}"
            )
        noise = _broadcast("noise_std", finite_array("noise_std", noise_std), (n_arms,))
        if (noise < 0).any():
            raise InvalidInputError(f"noise_std: negative ({noise.min()})")
        counts = np.bincount(pulled, minlength=n_arms)
        sums = np.bincount(pulled, weights=values, minlength=n_arms)
        at_least_one = np.maximum(counts, 1)
        return Evidence(sums / at_least_one, noise / np.sqrt(at_least_one), counts > 0)

    @staticmethod
    def from_table(
        table: Any,
        task: str = "task",
        arm: str = "arm",
        reward: str = "reward",
        *,
        count: str | None = None,
        noise_std: ArrayLike | None = None,
    ) -> Evidence:
        """Evidence from a table with one row a pull, shape ``(tasks, arms)``.

        Needs ``diffts[logs]``. :func:`diffts.logs.read_log` gives the names of tasks and arms, too.

        Args:
            table: whatever :func:`diffts.logs.read_log` reads: a CSV or Parquet file, a pandas or
                Arrow table, a table of a database.
            task: the column of tasks; rows of the evidence are in the order of their names.
            arm: the column of arms; likewise.
            reward: the column of rewards.
            count: the column of how many pulls a row stands for; by default each is one.
            noise_std: the noise of one reward; by default that of the table, pooled within tasks
                and arms.

        >>> import pandas
        >>> rows = {"task": ["ann", "ann", "bob"], "arm": ["x", "y", "x"], "reward": [1, 0.5, 0.2]}
        >>> Evidence.from_table(pandas.DataFrame(rows), noise_std=0.1).mask.tolist()
        [[True, True], [True, False]]
        """
        from diffts.logs import Columns, read_log

        columns = Columns(task=task, arm=arm, reward=reward, count=count)
        return read_log(table, columns, to_learn=False).evidence(noise_std)

    @staticmethod
    def stack(tasks: Sequence[Evidence]) -> Evidence:
        """One batch from several tasks of the same number of arms."""
        if not tasks:
            raise InvalidInputError("tasks: expected at least one Evidence")
        if len(shapes := {task.mean.shape for task in tasks}) > 1:
            raise InvalidInputError(f"tasks: shapes differ: {sorted(shapes)}")
        return stack(tasks)


def _as_mask(mask: ArrayLike) -> np.ndarray:
    values = np.asarray(mask)
    is_binary = values.dtype == bool or (
        np.issubdtype(values.dtype, np.number) and np.isin(values, (0, 1)).all()
    )
    if not is_binary:
        raise InvalidInputError("mask: expected booleans (or 0 and 1)")
    return values.astype(bool)


def _broadcast(name: str, value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    try:
        return np.broadcast_to(value, shape)
    except ValueError:
        raise InvalidInputError(
            f"{name}: shape {value.shape} does not fit the expected shape {shape}"
        ) from None
