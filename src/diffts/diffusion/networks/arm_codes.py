"""Networks over all arms: what they make of the whole task, as a code for each arm.

Part of the network 'arms'. One takes arms as they come; the other sees those that lie on a grid, as
the edges of a maze do, as a picture.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffts.diffusion.factor_gaussian import FactorPosterior
from diffts.diffusion.networks.unet2d import distinct_pixels
from diffts.diffusion.networks.unet_parts import UNet
from diffts.seeding import KeyArray
from diffts.validation import whole_number

#: Channels of a picture: latent, signal, the Gaussian's mean and deviation, and where arms are.
CHANNELS = 5


class ArmCodes(eqx.Module):
    """A code of each arm, from one observation of all of them."""

    @abc.abstractmethod
    def __call__(
        self,
        latent: Float[Array, " K"],
        signal: Float[Array, " K"],
        below: FactorPosterior,
        of_arms: Float[Array, "K n"],
    ) -> Float[Array, "K code"]:
        """Codes.

        Args:
            latent: the observation as a latent of the same precision: of unit size.
            signal: how much of it is signal, from 0 (not seen) to 1.
            below: what the factor Gaussian makes of it.
            of_arms: numbers of each arm: its loadings, and those that are learned of it.
        """


@final
class DenseCodes(ArmCodes):
    """Residual layers on the posterior of the factors and, with ``sees_arms``, on every arm.

    They end in ``n × code`` numbers; an arm's code is their product with the arm's own n.
    """

    inward: eqx.nn.Linear
    blocks: tuple[tuple[eqx.nn.Linear, eqx.nn.Linear], ...]
    outward: eqx.nn.Linear
    sees_arms: bool = eqx.field(static=True)

    def __init__(
        self,
        n_arms: int,
        rank: int,
        of_an_arm: int,
        code: int,
        *,
        width: int,
        n_blocks: int,
        sees_arms: bool,
        key: KeyArray,
    ) -> None:
        keys = jax.random.split(key, 2 + 2 * n_blocks)
        self.sees_arms = sees_arms
        self.inward = eqx.nn.Linear(2 * rank + (2 * n_arms if sees_arms else 0), width, key=keys[0])
        self.outward = eqx.nn.Linear(width, code * of_an_arm, key=keys[1])
        self.blocks = tuple(
            (
                eqx.nn.Linear(width, width, key=keys[2 + 2 * i]),
                eqx.nn.Linear(width, width, key=keys[3 + 2 * i]),
            )
            for i in range(n_blocks)
        )

    def __call__(
        self,
        latent: Float[Array, " K"],
        signal: Float[Array, " K"],
        below: FactorPosterior,
        of_arms: Float[Array, "K n"],
    ) -> Float[Array, "K code"]:
        """Codes."""
        seen = [below.factors, below.factor_std]
        x = self.inward(jnp.concatenate([*seen, latent, signal] if self.sees_arms else seen))
        for first, second in self.blocks:
            x = x + second(jax.nn.silu(first(jax.nn.silu(x))))
        said = self.outward(jax.nn.silu(x)).reshape(of_arms.shape[1], -1)
        codes: Float[Array, "K code"] = of_arms @ said
        return codes


@final
class GridCodes(ArmCodes):
    """A U-Net over a picture whose pixels are the arms; other pixels are blank."""

    height: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    pixels: tuple[int, ...] = eqx.field(static=True)
    body: UNet

    def __init__(
        self,
        n_arms: int,
        code: int,
        *,
        height: int,
        width: int,
        pixels: Sequence[int] | None = None,
        channels: Sequence[int] = (32, 64),
        folds: int = 0,
        attention: bool = True,
        key: KeyArray,
    ) -> None:
        self.height = whole_number("height", height, 1)
        self.width = whole_number("width", width, 1)
        pixels = range(n_arms) if pixels is None else pixels
        self.pixels = distinct_pixels(pixels, n_arms, self.height * self.width)
        self.body = UNet(
            2,
            channels,
            4,  # the noise level is in the picture: no step is told
            kernel_size=3,
            attention=attention,
            folds=folds,
            inputs=CHANNELS,
            outputs=code,
            key=key,
        )

    def __call__(
        self,
        latent: Float[Array, " K"],
        signal: Float[Array, " K"],
        below: FactorPosterior,
        of_arms: Float[Array, "K n"],
    ) -> Float[Array, "K code"]:
        """Codes; what is known of single arms is in the places that they have."""
        del of_arms
        seen = [latent, signal, below.mean, below.std, jnp.ones_like(latent)]
        pixels = np.asarray(self.pixels)
        blank = jnp.zeros((self.height * self.width, CHANNELS), latent.dtype)
        picture = blank.at[pixels].set(jnp.stack(seen, axis=1), unique_indices=True)
        said = self.body(picture.reshape(self.height, self.width, CHANNELS), jnp.int32(0))
        return said.reshape(self.height * self.width, -1)[pixels]
