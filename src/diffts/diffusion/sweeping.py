"""Inverse and determinant of symmetric matrices with eigenvalues of at least 1, by arithmetic.

LAPACK's factorisations, mapped and scanned, can make XLA wait for ever on two cores; a loop of
additions and products cannot. A GPU has a Cholesky factorisation of its own, which is one program
where the loop is hundreds of small ones.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def inverse(matrix: Float[Array, "r r"]) -> Float[Array, "r r"]:
    """The inverse."""
    return jax.lax.platform_dependent(
        matrix, cuda=_inverse_by_factors, default=lambda m: inverse_and_log_determinant(m)[0]
    )


def _inverse_by_factors(matrix: Float[Array, "r r"]) -> Float[Array, "r r"]:
    factor = jnp.linalg.cholesky(matrix)
    return jax.scipy.linalg.cho_solve((factor, True), jnp.eye(len(matrix), dtype=matrix.dtype))


def inverse_and_log_determinant(
    matrix: Float[Array, "r r"],
) -> tuple[Float[Array, "r r"], Float[Array, ""]]:
    """Gauss-Jordan in place; the determinant is the product of the pivots.

    No pivot is below 1, so none has to be searched for. Rows and columns scaled alike, by
    ``S A S``, give errors scaled alike: a matrix of large and small entries loses nothing by it.
    """
    number = jnp.arange(len(matrix))

    def eliminate(
        i: int, state: tuple[Float[Array, "r r"], Float[Array, ""]]
    ) -> tuple[Float[Array, "r r"], Float[Array, ""]]:
        swept, log_determinant = state
        row, column, is_i = swept[i], swept[:, i], number == i
        scaled = row / row[i]
        others = swept - column[:, None] * scaled
        others = jnp.where(is_i[:, None], scaled, others)
        others = jnp.where(is_i, -(column / row[i])[:, None], others)
        swept = jnp.where(is_i[:, None] & is_i, 1.0 / row[i], others)
        return swept, log_determinant + jnp.log(row[i])

    start = matrix, jnp.zeros((), matrix.dtype)
    swept, log_determinant = jax.lax.fori_loop(0, len(matrix), eliminate, start)
    return swept, log_determinant
