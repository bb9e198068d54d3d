"""Several pytrees of one structure as one, with a new first axis: what ``vmap`` maps over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

Tree = TypeVar("Tree")


def stack(trees: Sequence[Tree]) -> Tree:
    """One tree whose arrays have a new first axis, from several of the same structure."""
    return jax.tree.map(
        lambda *leaves: jnp.stack(leaves) if eqx.is_array(leaves[0]) else leaves[0], *trees
    )


def unstack(tree: Tree, count: int) -> list[Tree]:
    """The trees again."""
    return [
        jax.tree.map(lambda leaf, i=i: leaf[i] if eqx.is_array(leaf) else leaf, tree)
        for i in range(count)
    ]


def layout(tree: Any) -> Any:
    """What two trees must agree in to be stacked: structure, shapes and types."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple(
        (leaf.shape, str(leaf.dtype)) if eqx.is_array(leaf) else leaf for leaf in leaves
    )
