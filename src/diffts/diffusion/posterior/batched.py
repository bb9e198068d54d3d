"""Many posterior draws: compiled once for each of a few batch sizes, in bounded memory.

Row ``i`` of a batch uses the key ``fold_in(key, i)``: a draw does not depend on how the rows
were padded or cut into chunks, nor on how many there are.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray

from diffts.diffusion.denoiser import Denoiser
from diffts.diffusion.posterior.sampler import (
    Limits,
    PosteriorSampler,
    draw,
    reverse_steps,
)
from diffts.diffusion.schedule import Schedule
from diffts.evidence import Evidence
from diffts.seeding import KeyArray

#: Latent entries (rows × arms) of one compiled call: bounds the memory of activations.
CHUNK_ENTRIES = {"cpu": 2**18, "gpu": 2**22, "tpu": 2**22}


def padded_size(rows: int) -> int:
    """The compiled batch size for ``rows``: four sizes an octave, so at most a quarter wasted.

    Never a power of two from 8 on: with such a stride between the rows of a matrix, a CPU keeps
    throwing them out of its cache.

    >>> [padded_size(rows) for rows in (1, 3, 7, 8, 9, 100, 1000)]
    [1, 3, 7, 9, 10, 112, 1025]
    """
    grain = max(1, 2 ** (math.ceil(math.log2(max(rows, 1))) - 3))
    size = math.ceil(rows / grain) * grain
    return size + 1 if size >= 8 and size & (size - 1) == 0 else size


#: An observation with a larger standard deviation, standardised, tells nothing; its square and
#: the products of squares would be too large for float32.
WEAKEST = 1e4


class Units(NamedTuple):
    """A user's value is ``shift + scale ·`` the standardised one; it lies in ``[low, high]``."""

    shift: Float[Array, ""]
    scale: Float[Array, ""]
    low: Float[Array, ""]
    high: Float[Array, ""]

    def standardise(self, evidence: Evidence) -> Evidence:
        """The same evidence in standardised units (for use inside ``jit``)."""
        std = evidence.std / self.scale
        tells = evidence.mask & (std < WEAKEST)
        mean = jnp.where(tells, (evidence.mean - self.shift) / self.scale, 0.0)
        return Evidence(mean, jnp.where(tells, std, 0.0), tells)

    @property
    def limits(self) -> Limits:
        """The smallest and the largest value, standardised."""
        return Limits((self.low - self.shift) / self.scale, (self.high - self.shift) / self.scale)

    def restore(self, values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Standardised values in the user's units."""
        return self.shift + self.scale * values


class Chain(NamedTuple):
    """Which reverse chain to run: schedule, calibrated errors, length and variance mode."""

    schedule: Schedule
    tau: Float[Array, "L K"]
    steps: int | None
    variance: str


def draw_batch(
    sampler: PosteriorSampler,
    key: KeyArray,
    denoiser: Denoiser,
    reverse: Chain,
    units: Units,
    evidence: Evidence,
    n: int = 1,
    chain: bool = False,
) -> NDArray[np.float32]:
    """``n`` draws for each of the B tasks of a flat batch, in the user's units.

    Everything but the evidence's copy for each row happens inside one compiled program: for one
    decision the host's own work would cost more than the network.

    Args:
        sampler: how to take a step.
        key: the key of the whole batch.
        denoiser: the denoiser ``h``.
        reverse: the reverse chain.
        units: the standardisation.
        evidence: evidence of shape ``(B, K)``.
        n: draws for each task.
        chain: whether to return all latents, ``x_0`` first.

    Returns:
        ``(n, B, K)``, or ``(n, B, S+1, K)`` with ``chain``.
    """
    tasks, n_arms = evidence.mean.shape
    rows = n * tasks
    host = jax.tree.map(np.asarray, evidence)
    most = max(1, CHUNK_ENTRIES.get(jax.default_backend(), 2**18) // n_arms)
    chunk = padded_size(math.ceil(rows / math.ceil(rows / most)))
    draws = []
    for start in range(0, rows, chunk):
        row = np.arange(start, start + chunk)
        of_task: Evidence = jax.tree.map(lambda leaf, row=row: leaf[row % tasks], host)
        compiled = _draw_rows(sampler, key, row, denoiser, reverse, units, of_task, chain)
        draws.append(np.asarray(compiled))
    joined = draws[0] if len(draws) == 1 else np.concatenate(draws)
    return joined[:rows].reshape(n, tasks, *joined.shape[1:])


@eqx.filter_jit
def _draw_rows(
    sampler: PosteriorSampler,
    key: KeyArray,
    row: Int[Any, " rows"],
    denoiser: Denoiser,
    reverse: Chain,
    units: Units,
    evidence: Evidence,
    chain: bool,
) -> Float[Array, "rows *chain K"]:
    steps = reverse_steps(*reverse)

    def one(index: Int[Array, ""], of_task: Evidence) -> Float[Array, "*chain K"]:
        row_key = jax.random.fold_in(key, index)
        return draw(sampler, row_key, denoiser, steps, of_task, units.limits, chain)

    return units.restore(jax.vmap(one)(jnp.asarray(row), units.standardise(evidence)))
