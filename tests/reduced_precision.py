"""What a GPU does to matrix products, done on a CPU: operands rounded to TF32's ten bits."""

import jax
import jax.numpy as jnp
from jax._src.lax import lax as products  # where jax.numpy looks it up


def tf32(x):
    """``x`` with ten bits of mantissa instead of 23, rounded to nearest."""
    if x.dtype != jnp.float32:
        return x
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32)
    rounded = (bits + jnp.uint32(0x1000)) & jnp.uint32(0xFFFFE000)
    return jax.lax.bitcast_convert_type(rounded, jnp.float32)


def round_products(monkeypatch):
    """From here on, products that do not ask for the highest precision get rounded operands."""
    exact = products.dot_general

    def rounded(lhs, rhs, dimension_numbers, precision=None, *args, **kwargs):
        asked = jax.config.jax_default_matmul_precision if precision is None else precision
        both = asked if isinstance(asked, tuple) else (asked, asked)
        words = {str(one).lower().rsplit(".", 1)[-1] for one in both}
        if not words <= {"highest", "float32"}:
            lhs, rhs = tf32(lhs), tf32(rhs)
        return exact(lhs, rhs, dimension_numbers, precision, *args, **kwargs)

    monkeypatch.setattr(products, "dot_general", rounded)
    jax.clear_caches()
