"""A convolution whose gradients are fast on a CPU inside a loop, too.

The same function as ``jax.lax.conv_general_dilated``; only its derivatives are spelled out.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float


def convolve(
    x: Float[Array, "N *sizes I"], weight: Float[Array, "*window I O"]
) -> Float[Array, "N *sizes O"]:
    """Convolution with a window of odd sizes: zeros beyond the edges, channels last.

    JAX's own, except that its derivatives are written as channels-last convolutions, too. On a
    CPU, XLA has fast code for that layout alone, and turns others into it only outside of
    loops: inside a ``scan``, where training is, the gradient of JAX's own takes many times
    as long (https://github.com/jax-ml/jax/issues/12868).
    """
    y: Array = _convolve_p.bind(x, weight)
    return y


def _convolve(x: Array, weight: Array) -> Array:
    """JAX's own convolution."""
    return jax.lax.conv_general_dilated(
        x, weight, (1,) * (x.ndim - 2), "SAME", dimension_numbers=_channels_last(x)
    )


def _weight_gradient(x: Array, y: Array, *, window: tuple[int, ...]) -> Array:
    """The transpose of ``weight ↦ convolve(x, weight)``, applied to ``y``."""
    weight = jnp.zeros((*window, x.shape[-1], y.shape[-1]), x.dtype)  # for its shape alone
    gradient: Array = jax.linear_transpose(partial(_convolve, x), weight)(y)[0]
    return gradient


def _weight_gradient_on_cpu(x: Array, y: Array, *, window: tuple[int, ...]) -> Array:
    """The same in the one fast layout: ``x`` seen through windows ``y``, summed over ``N``."""
    gradient = jax.lax.conv_general_dilated(
        jnp.swapaxes(x, 0, -1),
        jnp.moveaxis(y, 0, -2),
        (1,) * len(window),
        [(size // 2, size // 2) for size in window],
        dimension_numbers=_channels_last(x),
    )
    return jnp.moveaxis(gradient, 0, -2)


def _flipped(weight: Array) -> Array:
    """The weight for the transpose of ``x ↦ convolve(x, weight)``."""
    return jnp.swapaxes(jnp.flip(weight, range(weight.ndim - 2)), -1, -2)


def _channels_last(x: Array) -> tuple[str, str, str]:
    axes = "DHW"[-(x.ndim - 2) :]
    return f"N{axes}C", f"{axes}IO", f"N{axes}C"


def _windows(x: Array, window: tuple[int, ...]) -> Array:
    """What the window sees at each position, ``(N, *sizes, cells of the window · I)``."""
    sizes = x.shape[1:-1]
    padded = jnp.pad(x, [(0, 0), *((size // 2, size // 2) for size in window), (0, 0)])
    seen = [
        padded[(slice(None), *(slice(o, o + size) for o, size in zip(offset, sizes, strict=True)))]
        for offset in itertools.product(*map(range, window))
    ]
    return jnp.concatenate(seen, axis=-1)


def _convolve_as_product(x: Array, weight: Array) -> Array:
    """The convolution as one matrix product."""
    *window, _, outputs = weight.shape
    product: Array = _windows(x, tuple(window)) @ weight.reshape(-1, outputs)
    return product


def _weight_gradient_as_product(x: Array, y: Array, *, window: tuple[int, ...]) -> Array:
    gradient = jnp.einsum("...i,...o->io", _windows(x, window), y)
    return gradient.reshape(*window, x.shape[-1], y.shape[-1])


def _batched_convolve(operands: Any, axes: Any) -> tuple[Array, int]:
    """Under ``vmap``: more images; or, with several weights, one matrix product for each.

    (A convolution with several weights would be a grouped one, which is slow on every chip.)
    """
    x, weight = operands
    if axes[1] is not None:
        return jax.vmap(_convolve_as_product, axes)(x, weight), 0
    x = jnp.moveaxis(x, axes[0], 0)
    y = convolve(x.reshape(-1, *x.shape[2:]), weight)
    return y.reshape(*x.shape[:2], *y.shape[1:]), 0


def _batched_weight_gradient(operands: Any, axes: Any, window: Any) -> tuple[Array, int]:
    return jax.vmap(partial(_weight_gradient_as_product, window=window), axes)(*operands), 0


# Two bilinear functions, each of whose transposes is one of the two again: so every derivative
# of any order and mode is made of them.
_convolve_p: Any = Primitive("convolve")
_weight_gradient_p: Any = Primitive("convolve_weight_gradient")
_define_bilinear: Any = ad.defbilinear  # Any: JAX has no types here

_convolve_p.def_impl(_convolve)
_convolve_p.def_abstract_eval(lambda x, w: ShapedArray((*x.shape[:-1], w.shape[-1]), x.dtype))
_define_bilinear(
    _convolve_p,
    lambda ct, _, w: convolve(ct, _flipped(w)),
    lambda ct, x, w: _weight_gradient_p.bind(x, ct, window=w.aval.shape[:-2]),
)
batching.primitive_batchers[_convolve_p] = _batched_convolve
mlir.register_lowering(_convolve_p, mlir.lower_fun(_convolve, multiple_results=False))

_weight_gradient_p.def_impl(_weight_gradient)
_weight_gradient_p.def_abstract_eval(
    lambda x, y, *, window: ShapedArray((*window, x.shape[-1], y.shape[-1]), x.dtype)
)
_define_bilinear(
    _weight_gradient_p,
    lambda ct, _, y, **__: convolve(y, _flipped(ct)),
    lambda ct, x, _, **__: convolve(x, ct),
)
batching.primitive_batchers[_weight_gradient_p] = _batched_weight_gradient
for _rule, _platform in ((_weight_gradient, None), (_weight_gradient_on_cpu, "cpu")):
    mlir.register_lowering(
        _weight_gradient_p, mlir.lower_fun(_rule, multiple_results=False), platform=_platform
    )
