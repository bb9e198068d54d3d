"""The U-Net that the 1-D and the 2-D network share: the same parts over any number of axes.

Everything here is channels-last, ``(*sizes, channels)``: the layout in which a CPU convolves
fast, and in which a change of channels at each position is a plain matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from diffts.diffusion.networks.convolution import convolve
from diffts.diffusion.networks.network import Layers, embed_step, embedding_layers
from diffts.errors import InvalidInputError
from diffts.seeding import KeyArray
from diffts.validation import whole_number

Window = tuple[int, ...]  # of a convolution: its size along each axis
BRANCH_GAIN = 0.1  # residual branches start small: the loss then falls sooner


class UNet(eqx.Module):
    """Residual blocks at ever coarser resolutions and back, with a skip at every resolution.

    A resolution is half of the one before it along every axis; sizes that do not halve often
    enough are padded at their ends by their last value, and the output is cropped.
    """

    folds: int = eqx.field(static=True)
    embed: Layers
    inward: Convolution
    down: tuple[Level, ...]
    shrink: tuple[Convolution, ...]
    bottom: Level
    grow: tuple[Convolution, ...]
    up: tuple[Level, ...]
    norm: GroupNorm
    outward: Convolution

    def __init__(
        self,
        n_axes: int,
        channels: Sequence[int],
        embedding_size: int,
        *,
        kernel_size: int,
        attention: bool,
        folds: int = 0,
        inputs: int = 1,
        outputs: int = 1,
        key: KeyArray,
    ) -> None:
        """Draw the weights.

        Args:
            n_axes: number of spatial axes.
            channels: width at each resolution, finest first.
            embedding_size: length of the step's embedding; an even number.
            kernel_size: side of the convolutions' windows.
            attention: whether each resolution has self-attention.
            folds: how often to halve the input along every axis before anything else, with the
                cells of a position as its channels: the finest resolution is then left out.
            inputs: channels of what comes in.
            outputs: channels of what goes out.
            key: source of the initial weights.
        """
        channels = tuple(whole_number("channels", c, 1) for c in channels)
        if not channels:
            raise InvalidInputError("channels: at least one resolution is needed")
        *finer, coarsest = channels
        cells = 2**n_axes  # of one resolution, in one position of the next
        folded = cells ** whole_number("folds", folds, 0)
        keys = iter(jax.random.split(key, 5 + 4 * len(finer)))
        window = (kernel_size,) * n_axes

        def level(inputs: int, outputs: int) -> Level:
            return Level(window, inputs, outputs, embedding_size, attention, key=next(keys))

        def convolution(inputs: int, outputs: int, window: Window = (1,) * n_axes) -> Convolution:
            return Convolution(window, inputs, outputs, key=next(keys))

        self.folds = folds
        self.embed = embedding_layers(embedding_size, (next(keys), next(keys)))
        self.inward = convolution(folded * inputs, channels[0], window)
        self.down = tuple(level(c, c) for c in finer)
        self.bottom = level(coarsest, coarsest)
        self.up = tuple(level(2 * c, c) for c in reversed(finer))
        steps = tuple(zip(finer, channels[1:], strict=True))
        self.shrink = tuple(convolution(cells * fine, coarse) for fine, coarse in steps)
        self.grow = tuple(convolution(coarse, cells * fine) for fine, coarse in reversed(steps))
        self.norm = GroupNorm(channels[0])
        self.outward = convolution(channels[0], folded * outputs, window)

    def __call__(
        self, x: Float[Array, "*sizes I"], step: Int[Array, ""]
    ) -> Float[Array, "*sizes O"]:
        """The raw output for one signal or image."""
        embedding = embed_step(self.embed, step, like=x)
        *sizes, _ = x.shape
        multiple = 2 ** (len(self.down) + self.folds)
        h = jnp.pad(x, [*((0, -size % multiple) for size in sizes), (0, 0)], mode="edge")
        for _ in range(self.folds):
            h = halve(h)
        h = self.inward(h)
        skips = []
        for level, shrink in zip(self.down, self.shrink, strict=True):
            h = level(h, embedding)
            skips.append(h)
            h = shrink(halve(h))
        h = self.bottom(h, embedding)
        for level, grow in zip(self.up, self.grow, strict=True):
            h = level(jnp.concatenate([double(grow(h)), skips.pop()], axis=-1), embedding)
        h = self.outward(jax.nn.silu(self.norm(h)))
        for _ in range(self.folds):
            h = double(h)
        return h[tuple(slice(size) for size in sizes)]


class Level(eqx.Module):
    """What happens at one resolution: two residual blocks, then attention if asked for.

    ``steps`` is the length of the step's embedding, here and in a block.
    """

    blocks: tuple[ResidualBlock, ResidualBlock]
    attention: SelfAttention | None

    def __init__(
        self, window: Window, inputs: int, outputs: int, steps: int, attention: bool, key: KeyArray
    ) -> None:
        keys = jax.random.split(key, 3)
        self.blocks = (
            ResidualBlock(window, inputs, outputs, steps, keys[0]),
            ResidualBlock(window, outputs, outputs, steps, keys[1]),
        )
        self.attention = SelfAttention(len(window), outputs, key=keys[2]) if attention else None

    def __call__(
        self, h: Float[Array, "*sizes I"], embedding: Float[Array, " E"]
    ) -> Float[Array, "*sizes O"]:
        """The hidden state after this resolution."""
        for block in self.blocks:
            h = block(h, embedding)
        return h if self.attention is None else self.attention(h)


class ResidualBlock(eqx.Module):
    """``h + C₂ silu(norm(C₁ silu(norm(h)) + b))`` with ``b`` from the step's embedding."""

    first_norm: GroupNorm
    first: Convolution
    step_shift: eqx.nn.Linear
    second_norm: GroupNorm
    second: Convolution
    shortcut: Convolution | None  # where the number of channels changes

    def __init__(
        self, window: Window, inputs: int, outputs: int, steps: int, key: KeyArray
    ) -> None:
        keys, one = jax.random.split(key, 4), (1,) * len(window)
        self.first_norm = GroupNorm(inputs)
        # No bias: the step's shift has one, at the same place.
        self.first = Convolution(window, inputs, outputs, bias=False, key=keys[0])
        self.step_shift = eqx.nn.Linear(steps, outputs, key=keys[1])
        self.second_norm = GroupNorm(outputs)
        self.second = Convolution(window, outputs, outputs, gain=BRANCH_GAIN, key=keys[2])
        self.shortcut = None
        if inputs != outputs:
            self.shortcut = Convolution(one, inputs, outputs, bias=False, key=keys[3])

    def __call__(
        self, h: Float[Array, "*sizes I"], embedding: Float[Array, " E"]
    ) -> Float[Array, "*sizes O"]:
        """The next hidden state."""
        change = self.first(jax.nn.silu(self.first_norm(h))) + self.step_shift(embedding)
        change = self.second(jax.nn.silu(self.second_norm(change)))
        return change + (h if self.shortcut is None else self.shortcut(h))


class SelfAttention(eqx.Module):
    """``h + W softmax(Q Kᵀ / √C) V`` over all positions, one head, on the normed ``h``."""

    norm: GroupNorm
    read: Convolution  # without bias: the softmax would ignore that of the keys
    write: Convolution

    def __init__(self, n_axes: int, channels: int, *, key: KeyArray) -> None:
        keys, one = jax.random.split(key, 2), (1,) * n_axes
        self.norm = GroupNorm(channels)
        self.read = Convolution(one, channels, 3 * channels, bias=False, key=keys[0])
        self.write = Convolution(one, channels, channels, gain=BRANCH_GAIN, key=keys[1])

    def __call__(self, h: Float[Array, "*sizes C"]) -> Float[Array, "*sizes C"]:
        """The next hidden state."""
        channels = h.shape[-1]
        heads = self.read(self.norm(h)).reshape(-1, 3 * channels)
        query, key, value = jnp.split(heads, 3, axis=-1)
        score = (query / math.sqrt(channels)) @ key.T
        # Dividing after the product, not before, is one pass less over the largest array.
        weight = jnp.exp(score - jax.lax.stop_gradient(score.max(axis=-1, keepdims=True)))
        mixed = (weight @ value) / weight.sum(axis=-1, keepdims=True)
        return h + self.write(mixed.reshape(h.shape))


class GroupNorm(eqx.Module):
    """Zero mean and unit variance in each group of channels, then a scale and a shift.

    Eight groups, or as many as leave four channels in each.
    """

    groups: int = eqx.field(static=True)
    scale: Float[Array, " C"]
    shift: Float[Array, " C"]

    def __init__(self, channels: int) -> None:
        fitting = [g for g in range(1, 9) if channels % g == 0 and channels >= 4 * g]
        self.groups = max(fitting, default=1)
        self.scale = jnp.ones(channels)
        self.shift = jnp.zeros(channels)

    def __call__(self, h: Float[Array, "*sizes C"]) -> Float[Array, "*sizes C"]:
        """``h``, normed."""
        size = h.shape[-1] // self.groups
        # The variance as a mean of squares needs one pass over the large array, not two, and
        # loses no digits when some value of each group is subtracted first.
        pivot = h.reshape(-1, self.groups, size)[0].mean(axis=1)
        h = h - jnp.repeat(jax.lax.stop_gradient(pivot), size)
        by_channel = h.reshape(-1, self.groups, size)
        mean = by_channel.mean(axis=0).mean(axis=1)
        square = jnp.square(by_channel).mean(axis=0).mean(axis=1)
        inverse = jax.lax.rsqrt(jnp.maximum(square - jnp.square(mean), 0.0) + 1e-5)
        scale = self.scale * jnp.repeat(inverse, size)
        return h * scale + (self.shift - jnp.repeat(mean, size) * scale)


class Convolution(eqx.Module):
    """Convolution that keeps the sizes: zeros beyond the edges, channels last."""

    weight: Float[Array, "*window I O"]
    bias: Float[Array, " O"] | None

    def __init__(
        self,
        window: Window,
        inputs: int,
        outputs: int,
        *,
        bias: bool = True,
        gain: float = 1.0,
        key: KeyArray,
    ) -> None:
        limit = gain / math.sqrt(inputs * math.prod(window))
        shape = (*window, inputs, outputs)
        self.weight = jax.random.uniform(key, shape, minval=-limit, maxval=limit)
        self.bias = jnp.zeros(outputs) if bias else None

    def __call__(self, h: Float[Array, "*sizes I"]) -> Float[Array, "*sizes O"]:
        """The convolution of one signal or image."""
        *window, inputs, outputs = self.weight.shape
        y = (
            h @ self.weight.reshape(inputs, outputs)
            if max(window) == 1
            else convolve(h[None], self.weight)[0]
        )
        return y if self.bias is None else y + self.bias


def halve(h: Float[Array, "*sizes C"]) -> Float[Array, "*halves D"]:
    """Two neighbours along every axis become one position with all of their channels.

    A size-1 convolution after it is a convolution of size 2 and stride 2.

    >>> halve(jnp.arange(6).reshape(6, 1)).tolist()
    [[0, 1], [2, 3], [4, 5]]
    """
    *sizes, channels = h.shape
    n = len(sizes)
    split = h.reshape(*(part for size in sizes for part in (size // 2, 2)), channels)
    cells_last = split.transpose(*range(0, 2 * n, 2), *range(1, 2 * n, 2), 2 * n)
    return cells_last.reshape(*(size // 2 for size in sizes), 2**n * channels)


def double(h: Float[Array, "*halves D"]) -> Float[Array, "*sizes C"]:
    """The inverse of :func:`halve`.

    A size-1 convolution before it is a transposed convolution of size 2 and stride 2.

    >>> double(jnp.arange(6).reshape(3, 2)).ravel().tolist()
    [0, 1, 2, 3, 4, 5]
    """
    *sizes, channels = h.shape
    n = len(sizes)
    split = h.reshape(*sizes, *(2,) * n, channels // 2**n)
    cells_beside = split.transpose(*(axis for i in range(n) for axis in (i, n + i)), 2 * n)
    return cells_beside.reshape(*(2 * size for size in sizes), channels // 2**n)
