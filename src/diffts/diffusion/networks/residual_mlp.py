"""Our network for unordered arms: a residual multi-layer perceptron, modulated by the step."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from diffts.diffusion.networks.network import Layers, Network, embed_step, embedding_layers
from diffts.seeding import KeyArray
from diffts.validation import whole_number


class ResidualMLP(Network):
    """Linear ``K → width``, residual blocks, linear ``width → K``.

    Nothing but dense matrix products, which every chip does at full speed, where the paper's
    network spends its time in convolutions over six channels.
    """

    n_arms: int = eqx.field(static=True)
    inward: eqx.nn.Linear
    embed: Layers
    blocks: tuple[ModulatedBlock, ...]
    outward: eqx.nn.Linear

    def __init__(
        self,
        n_arms: int,
        *,
        width: int = 256,
        n_blocks: int = 3,
        embedding_size: int = 64,
        key: KeyArray,
    ) -> None:
        width = whole_number("width", width, 1)
        n_blocks = whole_number("n_blocks", n_blocks, 0)
        self.n_arms = n_arms
        keys = jax.random.split(key, 4 + n_blocks)
        self.inward = eqx.nn.Linear(n_arms, width, key=keys[0])
        self.embed = embedding_layers(embedding_size, keys[1:3], growth=2)
        self.outward = eqx.nn.Linear(width, n_arms, key=keys[3])
        self.blocks = tuple(
            ModulatedBlock(width, 2 * embedding_size, key=keys[4 + i]) for i in range(n_blocks)
        )

    def __call__(self, x: Float[Array, " K"], step: Int[Array, ""]) -> Float[Array, " K"]:
        """The raw output for one latent."""
        embedding = embed_step(self.embed, step, like=x)
        h = self.inward(x)
        for block in self.blocks:
            h = block(h, embedding)
        return self.outward(jax.nn.silu(h))

    evaluate = __call__


class ModulatedBlock(eqx.Module):
    """``h + W₂ silu((1 + a) ⊙ W₁ silu(h) + b)`` with ``a, b`` from the step's embedding."""

    modulation: eqx.nn.Linear
    first: eqx.nn.Linear
    second: eqx.nn.Linear

    def __init__(self, width: int, embedding_size: int, *, key: KeyArray) -> None:
        keys = jax.random.split(key, 3)
        self.modulation = eqx.nn.Linear(embedding_size, 2 * width, key=keys[0])
        self.first = eqx.nn.Linear(width, width, key=keys[1])
        self.second = eqx.nn.Linear(width, width, key=keys[2])

    def __call__(self, h: Float[Array, " W"], embedding: Float[Array, " E"]) -> Float[Array, " W"]:
        """The next hidden state."""
        scale, shift = jnp.split(self.modulation(embedding), 2)
        return h + self.second(jax.nn.silu((1 + scale) * self.first(jax.nn.silu(h)) + shift))
