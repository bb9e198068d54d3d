"""The paper's network for unordered arms: DiffWave-like residual blocks between linear layers."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from diffts.diffusion.networks.network import Layers, Network, embed_step, embedding_layers
from diffts.seeding import KeyArray
from diffts.validation import whole_number


class ResidualConv(Network):
    """Linear ``K → channels × length``, gated residual convolutions, linear back to ``K``.

    The arms have no order, so the first and last layers are fully connected and the
    convolutions work on learned features (paper: 6 channels of length 128, 5 blocks).
    """

    n_arms: int = eqx.field(static=True)
    channels: int = eqx.field(static=True)
    length: int = eqx.field(static=True)
    inward: eqx.nn.Linear
    embed: Layers
    blocks: tuple[GatedBlock, ...]
    mix: eqx.nn.Conv1d
    outward: eqx.nn.Linear

    def __init__(
        self,
        n_arms: int,
        *,
        channels: int = 6,
        length: int = 128,
        n_blocks: int = 5,
        embedding_size: int = 64,
        key: KeyArray,
    ) -> None:
        self.n_arms = n_arms
        self.channels = whole_number("channels", channels, 1)
        self.length = whole_number("length", length, 1)
        keys = jax.random.split(key, 5 + whole_number("n_blocks", n_blocks, 0))
        self.inward = eqx.nn.Linear(n_arms, channels * length, key=keys[0])
        self.embed = embedding_layers(embedding_size, keys[1:3])
        self.mix = eqx.nn.Conv1d(channels, channels, 1, key=keys[3])
        self.outward = eqx.nn.Linear(channels * length, n_arms, key=keys[4])
        self.blocks = tuple(
            GatedBlock(channels, embedding_size, dilation=2 ** (i % 2), key=keys[5 + i])
            for i in range(n_blocks)
        )

    def __call__(self, x: Float[Array, " K"], step: Int[Array, ""]) -> Float[Array, " K"]:
        """The raw output for one latent."""
        embedding = embed_step(self.embed, step, like=x)
        h = jax.nn.leaky_relu(self.inward(x).reshape(self.channels, self.length), 0.4)
        total = jnp.zeros_like(h)
        for block in self.blocks:
            h, skip = block(h, embedding)
            total = total + skip
        h = jax.nn.leaky_relu(self.mix(total / jnp.sqrt(len(self.blocks))), 0.4)
        return self.outward(h.reshape(-1))

    def evaluate(self, x: Float[Array, " K"], step: Int[Array, ""]) -> Float[Array, " K"]:
        """The same as a call, almost three times as fast on a CPU for a batch (``_BatchLast``)."""
        last, shape = _BatchLast(x), (self.channels, self.length)
        embedding = embed_step(self.embed, step, like=x)
        h = jnp.tensordot(self.inward.weight.reshape(*shape, -1), x, 1)
        h = jax.nn.leaky_relu(h + last.spread(_bias(self.inward).reshape(shape)), 0.4)
        total = last.spread(jnp.zeros(shape))
        for block in self.blocks:
            h, skip = block.evaluate(h, embedding, last)
            total = total + skip
        h = last.layer(self.mix.weight[:, :, 0], total / math.sqrt(len(self.blocks)), self.mix)
        out = jnp.tensordot(self.outward.weight.reshape(-1, *shape), jax.nn.leaky_relu(h, 0.4), 2)
        return out + last.spread(_bias(self.outward))


class GatedBlock(eqx.Module):
    """Dilated convolution, ``tanh · sigmoid`` gate, then a residual and a skip output."""

    step_shift: eqx.nn.Linear
    convolution: eqx.nn.Conv1d
    split: eqx.nn.Conv1d

    def __init__(self, channels: int, embedding_size: int, dilation: int, *, key: KeyArray) -> None:
        keys = jax.random.split(key, 3)
        self.step_shift = eqx.nn.Linear(embedding_size, channels, key=keys[0])
        self.convolution = eqx.nn.Conv1d(
            channels, 2 * channels, 3, padding="SAME", dilation=dilation, key=keys[1]
        )
        self.split = eqx.nn.Conv1d(channels, 2 * channels, 1, key=keys[2])

    def __call__(
        self, h: Float[Array, "C N"], embedding: Float[Array, " E"]
    ) -> tuple[Float[Array, "C N"], Float[Array, "C N"]]:
        """The next hidden state and this block's share of the skip sum.

        The dilated convolution is one matrix product over the three shifted copies of ``h``: six
        channels are too few for a convolution to be fast, and on a CPU the gradient of XLA's own
        inside a ``scan``, where training is, takes several times as long.
        """
        left, middle, right = self._shifted(h + self.step_shift(embedding)[:, None])
        y = self._weight() @ jnp.concatenate([left, middle, right])
        gate, signal = jnp.split(y + _bias(self.convolution)[:, None], 2)
        gated = jax.nn.sigmoid(gate) * jnp.tanh(signal)
        y = self.split.weight[:, :, 0] @ gated + _bias(self.split)[:, None]
        residual, skip = jnp.split(y, 2)
        return (h + residual) / jnp.sqrt(2.0), skip

    def evaluate(
        self, h: Float[Array, "C N"], embedding: Float[Array, " E"], last: _BatchLast
    ) -> tuple[Float[Array, "C N"], Float[Array, "C N"]]:
        """The same as a call."""
        channels, length = h.shape
        shifted = self._shifted(h + last.along(self.step_shift(embedding), length))
        y = last.layer(self._weight(), last.concatenate(shifted), self.convolution)
        gated = jax.nn.sigmoid(y[:channels]) * jnp.tanh(y[channels:])
        y = last.layer(self.split.weight[:, :, 0], gated, self.split)
        return (h + y[:channels]) * math.sqrt(0.5), y[channels:]

    def _shifted(self, h: Float[Array, "C N"]) -> tuple[Float[Array, "C N"], ...]:
        """Each position's left neighbour, itself and its right neighbour, zeros beyond the ends."""
        (dilation,) = self.convolution.dilation
        zero = jnp.zeros((), h.dtype)
        padded = jax.lax.pad(h, zero, [(0, 0, 0), (dilation, dilation, 0)])
        return padded[:, : h.shape[1]], h, padded[:, 2 * dilation :]

    def _weight(self) -> Float[Array, "2C 3C"]:
        """The convolution's weight, for the three shifted copies one below the other."""
        weight = self.convolution.weight
        return jnp.swapaxes(weight, 1, 2).reshape(len(weight), -1)


class _BatchLast:
    """Operations that keep the batch axis of ``jax.vmap`` *last*: ``(C, N, batch)``.

    Then a convolution is one product of a small matrix and one with a column for each position
    of each row: faster on a CPU than a small product for each row. ``vmap`` keeps an axis last
    through products, slices, padding, and sums of arrays that all have it; anything else would
    move it to the front, and copy.
    """

    def __init__(self, x: Float[Array, " K"]) -> None:
        # A one for each row of the batch.
        self.one = jax.lax.pad(x[:0], jnp.ones((), x.dtype), [(0, 1, 0)])

    def spread(self, a: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """``a``, the same for each row of the batch."""
        return jnp.tensordot(a[..., None], self.one, 1)

    def along(self, a: Float[Array, " C"], length: int) -> Float[Array, "C N"]:
        """One value for each channel (and row), repeated over the positions."""
        by_row = a + self.spread(jnp.zeros_like(a))
        ones = jnp.ones((len(a), length, 1), a.dtype)
        return jax.lax.dot_general(ones, by_row[:, None], (((2,), (1,)), ((0,), (0,))))

    def concatenate(self, parts: tuple[Float[Array, "C N"], ...]) -> Float[Array, "M N"]:
        """The parts, one below the other, as a sum of padded ones."""
        count, zero = len(parts[0]), jnp.zeros((), parts[0].dtype)
        padded = [
            jax.lax.pad(part, zero, [(i * count, (len(parts) - 1 - i) * count, 0), (0, 0, 0)])
            for i, part in enumerate(parts)
        ]
        return sum(padded[1:], start=padded[0])

    def layer(
        self, weight: Float[Array, "D C"], h: Float[Array, "C N"], bias_of: eqx.nn.Conv1d
    ) -> Float[Array, "D N"]:
        """``weight @ h`` plus the layer's bias at each position."""
        return jnp.tensordot(weight, h, 1) + self.along(_bias(bias_of), h.shape[1])


def _bias(layer: eqx.nn.Linear | eqx.nn.Conv1d) -> Float[Array, " D"]:
    assert layer.bias is not None
    return layer.bias.reshape(-1)
