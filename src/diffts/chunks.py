"""Batches cut into chunks of one size: bounded memory, and few sizes to compile."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

Tree = TypeVar("Tree")

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


def in_host_chunks(
    compiled: Callable[[Int[np.ndarray, " chunk"]], Tree], rows: int, entries: int
) -> Tree:
    """``compiled`` on the numbers of rows, in chunks; its arrays put together on the host.

    The last numbers may be beyond ``rows``: what is made of them is dropped. A row takes
    ``entries`` numbers in memory.
    """
    most = max(1, CHUNK_ENTRIES.get(jax.default_backend(), 2**18) // entries)
    chunk = padded_size(math.ceil(rows / math.ceil(rows / most)))
    parts = [
        jax.tree.map(np.asarray, compiled(np.arange(start, start + chunk)))
        for start in range(0, rows, chunk)
    ]
    return jax.tree.map(
        lambda *leaves: (leaves[0] if len(leaves) == 1 else np.concatenate(leaves))[:rows], *parts
    )


def cut(tree: Tree, most: int) -> Tree:
    """Arrays ``(rows, …)`` as ``(chunks, rows of a chunk, …)``, zeros added; for use in a scan.

    >>> cut(jnp.arange(1, 6), most=3).tolist()
    [[1, 2, 3], [4, 5, 0]]
    """
    rows = len(jax.tree.leaves(tree)[0])
    chunks = -(-rows // max(1, most))
    size = -(-rows // chunks)

    def cut_leaf(leaf: Any) -> Any:
        widths = [(0, chunks * size - rows)] + [(0, 0)] * (leaf.ndim - 1)
        return jnp.pad(leaf, widths).reshape(chunks, size, *leaf.shape[1:])

    return jax.tree.map(cut_leaf, tree)
