"""Seeds: an int, a NumPy generator or a JAX key, turned into a JAX key. No global state."""

from __future__ import annotations

import secrets
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from diffts.errors import InvalidInputError

KeyArray: TypeAlias = Key[Array, ""]
Seed: TypeAlias = "int | np.random.Generator | KeyArray"
#: The largest seed of what takes several: its parts use the numbers that follow it.
MOST_SEED = 2**63 - 1 - 100


def as_key(seed: Any) -> KeyArray:
    """A JAX key from ``seed``; a generator is advanced, an int always gives the same key.

    >>> bool((jax.random.key_data(as_key(3)) == jax.random.key_data(jax.random.key(3))).all())
    True
    """
    if isinstance(seed, np.random.Generator):
        return jax.random.key(int(seed.integers(2**31)))
    if isinstance(seed, jax.Array) and jnp.issubdtype(seed.dtype, jax.dtypes.prng_key):
        if seed.ndim:
            raise InvalidInputError(f"seed: expected one key, got keys of shape {seed.shape}")
        return seed
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool):
        if not 0 <= int(seed) < 2**63:
            raise InvalidInputError(f"seed: must be in [0, 2**63), got {seed}")
        # Without 64-bit mode JAX keeps the low 32 bits only: fold the high ones in.
        low, high = int(seed) & 0x7FFFFFFF, int(seed) >> 31
        key = jax.random.key(low)
        return jax.random.fold_in(key, high) if high else key
    raise InvalidInputError(
        f"seed: expected an int, a numpy Generator or a JAX key, got {type(seed).__name__}"
    )


def fresh_key() -> KeyArray:
    """A key that nobody else has, from the operating system's randomness."""
    return as_key(secrets.randbits(62))


def as_generator(seed: Any) -> np.random.Generator:
    """A NumPy generator from the same kinds of seed (for data made on the host)."""
    if isinstance(seed, np.random.Generator):
        return seed
    words = np.asarray(jax.random.key_data(as_key(seed))).ravel()
    return np.random.default_rng([int(word) for word in words])
