"""The paper's network for unordered arms: DiffWave-like residual blocks between linear layers."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from diffts.diffusion.networks.network import Network, embedding_length, sinusoidal_embedding
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
    embedding_size: int = eqx.field(static=True)
    inward: eqx.nn.Linear
    embed: tuple[eqx.nn.Linear, eqx.nn.Linear]
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
        self.embedding_size = embedding_length(embedding_size)
        n_blocks = whole_number("n_blocks", n_blocks, 0)
        keys = jax.random.split(key, 5 + n_blocks)
        self.inward = eqx.nn.Linear(n_arms, channels * length, key=keys[0])
        self.embed = (
            eqx.nn.Linear(embedding_size, embedding_size, key=keys[1]),
            eqx.nn.Linear(embedding_size, embedding_size, key=keys[2]),
        )
        self.mix = eqx.nn.Conv1d(channels, channels, 1, key=keys[3])
        self.outward = eqx.nn.Linear(channels * length, n_arms, key=keys[4])
        self.blocks = tuple(
            GatedBlock(channels, embedding_size, dilation=2 ** (i % 2), key=keys[5 + i])
            for i in range(n_blocks)
        )

    def __call__(self, x: Float[Array, " K"], step: Int[Array, ""]) -> Float[Array, " K"]:
        """The raw output for one latent."""
        embedding = sinusoidal_embedding(step, self.embedding_size).astype(x.dtype)
        for layer in self.embed:
            embedding = jax.nn.silu(layer(embedding))
        h = jax.nn.leaky_relu(self.inward(x).reshape(self.channels, self.length), 0.4)
        total = jnp.zeros_like(h)
        for block in self.blocks:
            h, skip = block(h, embedding)
            total = total + skip
        h = jax.nn.leaky_relu(self.mix(total / jnp.sqrt(len(self.blocks))), 0.4)
        return self.outward(h.reshape(-1))

    def evaluate(self, x: Float[Array, " K"], step: Int[Array, ""]) -> Float[Array, " K"]:
        """The same as a call, faster on a CPU for a batch (see ``_Spread``)."""
        spread = _Spread(x)
        embedding = sinusoidal_embedding(step, self.embedding_size).astype(x.dtype)
        for layer in self.embed:
            embedding = jax.nn.silu(layer(embedding))
        shape = self.channels, self.length
        h = jnp.tensordot(self.inward.weight.reshape(*shape, -1), x, 1)
        h = jax.nn.leaky_relu(h + spread(_bias(self.inward).reshape(shape)), 0.4)
        total = spread(jnp.zeros(shape))
        for block in self.blocks:
            h, skip = block.evaluate(h, embedding, spread)
            total = total + skip
        mixed = _pointwise(self.mix, total / math.sqrt(len(self.blocks)), spread)
        weight = self.outward.weight.reshape(-1, *shape)
        return jnp.tensordot(weight, jax.nn.leaky_relu(mixed, 0.4), 2) + spread(_bias(self.outward))


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
        """The next hidden state and this block's share of the skip sum."""
        gate, signal = jnp.split(self._convolve(h + self.step_shift(embedding)[:, None]), 2)
        gated = jax.nn.sigmoid(gate) * jnp.tanh(signal)
        residual, skip = jnp.split(_biased(self.split, self.split.weight[:, :, 0] @ gated), 2)
        return (h + residual) / jnp.sqrt(2.0), skip

    def _convolve(self, h: Float[Array, "C N"]) -> Float[Array, "2C N"]:
        """The dilated convolution as one matrix product over the three shifted copies of ``h``.

        Six channels are too few for a convolution to be fast, and on a CPU the gradient of XLA's
        own inside a ``scan``, where training is, takes several times as long.
        """
        channels, length = h.shape
        (dilation,) = self.convolution.dilation
        padded = jnp.pad(h, ((0, 0), (dilation, dilation)))
        taps = jnp.concatenate([padded[:, :length], h, padded[:, 2 * dilation :]])
        weight = jnp.swapaxes(self.convolution.weight, 1, 2).reshape(2 * channels, 3 * channels)
        return _biased(self.convolution, weight @ taps)

    def evaluate(
        self, h: Float[Array, "C N"], embedding: Float[Array, " E"], spread: _Spread
    ) -> tuple[Float[Array, "C N"], Float[Array, "C N"]]:
        """The same as a call, with the batch axis last."""
        channels, length = h.shape
        h_shifted = h + spread.along(self.step_shift(embedding), length)
        (dilation,) = self.convolution.dilation
        taps = _taps(h_shifted, dilation)
        weight = self.convolution.weight.transpose(0, 2, 1).reshape(2 * channels, -1)
        y = jnp.tensordot(weight, taps, 1) + spread.along(_bias(self.convolution), length)
        gated = jax.nn.sigmoid(y[:channels]) * jnp.tanh(y[channels:])
        y = _pointwise(self.split, gated, spread)
        return (h + y[:channels]) * math.sqrt(0.5), y[channels:]


def _biased(layer: eqx.nn.Conv1d, y: Float[Array, "O N"]) -> Float[Array, "O N"]:
    return y if layer.bias is None else y + layer.bias


class _Spread:
    """Parameters, spread over the batch that ``jax.vmap`` makes, batch axis *last*.

    Six channels are too few for a convolution to be fast. With the batch axis last,
    ``(C, N, batch)``, a convolution is one product of a small matrix and one with a column for
    each position of each row: faster on a CPU than XLA's convolutions over
    ``(batch, C, N)``. ``vmap`` keeps an axis last through products, slices, padding, and sums
    of arrays that all have it; anything else would move it to the front, and copy.
    """

    def __init__(self, x: Float[Array, " K"]) -> None:
        # A one for each row of the batch.
        self.one = jax.lax.pad(x[:0], jnp.ones((), x.dtype), [(0, 1, 0)])

    def __call__(self, a: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """``a``, the same for each row of the batch."""
        return jnp.tensordot(a[..., None], self.one, 1)

    def along(self, a: Float[Array, " C"], length: int) -> Float[Array, "C N"]:
        """One value for each channel (and row), repeated over the positions."""
        by_row = a + self(jnp.zeros_like(a))
        ones = jnp.ones((len(a), length, 1), a.dtype)
        return jax.lax.dot_general(ones, by_row[:, None], (((2,), (1,)), ((0,), (0,))))


def _taps(h: Float[Array, "C N"], dilation: int) -> Float[Array, "3C N"]:
    """Each position's left neighbour, itself and its right neighbour, zeros beyond the ends."""
    channels, length = h.shape
    zero = jnp.zeros((), h.dtype)
    padded = jax.lax.pad(h, zero, [(0, 0, 0), (dilation, dilation, 0)])
    left, right = padded[:, :length], padded[:, 2 * dilation :]
    # A sum of padded arrays is a concatenation that keeps the batch axis where it is.
    return (
        jax.lax.pad(left, zero, [(0, 2 * channels, 0), (0, 0, 0)])
        + jax.lax.pad(h, zero, [(channels, channels, 0), (0, 0, 0)])
        + jax.lax.pad(right, zero, [(2 * channels, 0, 0), (0, 0, 0)])
    )


def _pointwise(
    layer: eqx.nn.Conv1d, h: Float[Array, "C N"], spread: _Spread
) -> Float[Array, "D N"]:
    """A convolution of size 1."""
    y = jnp.tensordot(layer.weight[:, :, 0], h, 1)
    return y + spread.along(_bias(layer), h.shape[1])


def _bias(layer: eqx.nn.Linear | eqx.nn.Conv1d) -> Float[Array, " D"]:
    assert layer.bias is not None
    return layer.bias.reshape(-1)
