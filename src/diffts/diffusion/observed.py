"""The observed arms of each task alone: small matrices for what is exact in a Gaussian mixture.

With noise ``D = diag(σ²)``, the observed arms ``o`` of a task from ``N(μ, Σ)`` are distributed as
``N(μ[o], Σ[o, o] + D)``: one small Cholesky factor gives likelihood, posterior and draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import NDArray

from diffts.diffusion.units import Units
from diffts.evidence import Evidence

#: Entries of the small matrices that are worked on together: bounds the memory.
CHUNK_ENTRIES = 2**23


class Observed(NamedTuple):
    """The observed arms of each task, in front, padded to the largest number ``P`` of them."""

    arm: Int[Any, "N P"]
    value: Float[Any, "N P"]
    variance: Float[Any, "N P"]
    present: Bool[Any, "N P"]

    @staticmethod
    def pack(evidence: Evidence, units: Units) -> Observed:
        """The observed entries of tasks ``(N, K)``, standardised."""
        mask = np.asarray(evidence.mask)
        width = max(1, int(mask.sum(1).max(initial=0)))
        arm = np.argsort(~mask, axis=1, kind="stable")[:, :width]
        rows = np.arange(len(mask))[:, None]
        present = mask[rows, arm]
        value = units.standard(np.asarray(evidence.mean)[rows, arm])
        # Noiseless arms get a millionth of the variance as noise: float32 cannot invert more.
        variance = np.maximum(np.asarray(evidence.std)[rows, arm] ** 2 / units.scale**2, 1e-6)
        return Observed(
            jnp.asarray(arm, jnp.int32),
            jnp.asarray(np.where(present, value, 0.0), jnp.float32),
            jnp.asarray(np.where(present, variance, 0.0), jnp.float32),
            jnp.asarray(present),
        )

    def chunk_rows(self, components: int = 1) -> int:
        """Tasks to work on together, of which each has a matrix for each component."""
        return max(1, CHUNK_ENTRIES // (components * self.arm.shape[-1] ** 2))


class Parameters(NamedTuple):
    """A mixture: weights ``(C,)``, means ``(C, K)``, covariances ``(C, K, K)``."""

    log_weights: Float[Array, " C"]
    means: Float[Array, "C K"]
    covariances: Float[Array, "C K K"]

    @staticmethod
    def of(mixture: Any) -> Parameters:
        """A mixture on the device."""
        return Parameters(
            jnp.asarray(np.log(np.maximum(mixture.weights, 1e-30)), jnp.float32),
            jnp.asarray(mixture.means, jnp.float32),
            jnp.asarray(mixture.covariances, jnp.float32),
        )


def factor(
    mean: Float[Array, " K"], covariance: Float[Array, "K K"], task: Observed
) -> tuple[Float[Array, "P P"], Float[Array, " P"]]:
    """Cholesky factor of ``Σ[o, o] + D`` (the identity where padded), and ``y - μ[o]``."""
    both = task.present[:, None] & task.present[None, :]
    spread = jnp.where(both, covariance[task.arm[:, None], task.arm[None, :]], 0.0)
    spread = spread + jnp.diag(jnp.where(task.present, task.variance, 1.0))
    residual = jnp.where(task.present, task.value - mean[task.arm], 0.0)
    return jnp.linalg.cholesky(spread), residual


def log_density(factor: Float[Array, "P P"], residual: Float[Array, " P"]) -> Float[Array, ""]:
    """Log density of ``N(0, LL')`` at the residual, without the constant."""
    whitened = jax.scipy.linalg.solve_triangular(factor, residual, lower=True)
    return -0.5 * jnp.sum(whitened**2) - jnp.sum(jnp.log(jnp.diag(factor)))


def root(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """A matrix whose product with its transpose is the covariance, ``(…, K, K)``."""
    eigenvalues, basis = np.linalg.eigh(covariance)
    product: NDArray[np.float64] = basis * np.sqrt(np.maximum(eigenvalues, 0.0))[..., None, :]
    return product


@contextmanager
def on_cpu() -> Iterator[None]:
    """Run what is inside on the CPU, whatever the default device; a factorisation has one thread.

    In a first try on a GPU the fits took longer than all the training after them; we take it that
    compiling batched factorisations for each of their many sizes costs more than it saves.
    Matrices are small: threads of BLAS would wait for one another (a fourth of the time on two
    cores). Without threadpoolctl, which scikit-learn brings, they do.
    """
    with ExitStack() as stack:
        stack.enter_context(jax.default_device(jax.devices("cpu")[0]))
        if find_spec("threadpoolctl") is not None:
            limits = import_module("threadpoolctl").threadpool_limits
            stack.enter_context(limits(1, user_api="blas"))
        yield
