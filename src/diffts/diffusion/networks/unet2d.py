"""The network for arms on a grid, as pixels or a maze's edges are: a 2-D U-Net."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from diffts.diffusion.networks.network import Network
from diffts.diffusion.networks.unet_parts import UNet
from diffts.errors import InvalidInputError
from diffts.seeding import KeyArray
from diffts.validation import whole_number


class UNet2d(Network):
    """A U-Net over an image, with windows of three by three and self-attention everywhere.

    The arms are the pixels, row by row; or, with ``pixels``, some of the pixels, while the
    others hold a fixed value and are left out of the output.

    Args:
        n_arms: number of arms ``K``; ``height * width`` unless ``pixels`` is given.
        height: rows of the image; any number.
        width: columns of the image; any number.
        channels: width at each resolution, finest first (paper: 32, 64, 128).
        pixels: for each arm the pixel it is, counted row by row from 0, no two the same.
        embedding_size: length of the step's embedding; an even number.
        folds: 1 to let two by two pixels be one position with four channels from the start (a
            quarter of the positions; a maze's cell with its two edges is one), 0 as in the paper.
        key: source of the initial weights.
    """

    n_arms: int = eqx.field(static=True)
    height: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    pixels: tuple[int, ...] | None = eqx.field(static=True)
    body: UNet

    def __init__(
        self,
        n_arms: int,
        *,
        height: int,
        width: int,
        channels: Sequence[int] = (32, 64, 128),
        pixels: Sequence[int] | None = None,
        embedding_size: int = 128,
        folds: int = 0,
        key: KeyArray,
    ) -> None:
        self.n_arms = n_arms
        self.height = whole_number("height", height, 1)
        self.width = whole_number("width", width, 1)
        size = self.height * self.width
        self.pixels = None if pixels is None else distinct_pixels(pixels, n_arms, size)
        if self.pixels is None and n_arms != size:
            raise InvalidInputError(
                f"n_arms: {height} x {width} pixels are {size} arms, not {n_arms} "
                f"(pixels says where fewer arms lie)"
            )
        self.body = UNet(
            2, channels, embedding_size, kernel_size=3, attention=True, folds=folds, key=key
        )

    def __call__(self, x: Float[Array, " K"], step: Int[Array, ""]) -> Float[Array, " K"]:
        """The raw output for one latent."""
        shape = (self.height, self.width, 1)
        if self.pixels is None:
            return self.body(x.reshape(shape), step).reshape(-1)
        pixels = np.asarray(self.pixels)
        blank = jnp.zeros(self.height * self.width, x.dtype)
        image = blank.at[pixels].set(x, unique_indices=True).reshape(shape)
        return self.body(image, step).reshape(-1)[pixels]

    evaluate = __call__


def distinct_pixels(pixels: Sequence[int], n_arms: int, size: int) -> tuple[int, ...]:
    """One pixel per arm, none twice."""
    indices = tuple(whole_number("pixels", pixel, 0, size - 1) for pixel in pixels)
    if len(indices) != n_arms:
        raise InvalidInputError(f"pixels: {n_arms} arms need as many pixels, got {len(indices)}")
    if len(set(indices)) != n_arms:
        raise InvalidInputError("pixels: two arms have the same pixel")
    return indices
