"""The network for arms in an order, as prices or hours are: a 1-D U-Net."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
from jaxtyping import Array, Float, Int

from diffts.diffusion.networks.network import Network
from diffts.diffusion.networks.unet_parts import UNet
from diffts.seeding import KeyArray


class UNet1d(Network):
    """A U-Net along the arms, with windows of five and no attention.

    Args:
        n_arms: number of arms ``K``; any number.
        channels: width at each resolution, finest first (paper: 16, 32, 64).
        embedding_size: length of the step's embedding; an even number.
        key: source of the initial weights.
    """

    n_arms: int = eqx.field(static=True)
    body: UNet

    def __init__(
        self,
        n_arms: int,
        *,
        channels: Sequence[int] = (16, 32, 64),
        embedding_size: int = 64,
        key: KeyArray,
    ) -> None:
        self.n_arms = n_arms
        self.body = UNet(1, channels, embedding_size, kernel_size=5, attention=False, key=key)

    def __call__(self, x: Float[Array, " K"], step: Int[Array, ""]) -> Float[Array, " K"]:
        """The raw output for one latent."""
        return self.body(x[:, None], step)[:, 0]

    evaluate = __call__
