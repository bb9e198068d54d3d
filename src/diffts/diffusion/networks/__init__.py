"""Networks, one file each, looked up by name here and nowhere else."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any, TypeAlias

from diffts.diffusion.exact import Gaussian
from diffts.diffusion.exact_denoisers import GaussianDenoiser
from diffts.diffusion.networks.arm_network import ArmDenoiser
from diffts.diffusion.networks.network import (
    COMPUTE,
    PREDICTIONS,
    Compute,
    Network,
    NetworkDenoiser,
    Prediction,
    sinusoidal_embedding,
)
from diffts.diffusion.networks.residual_conv import ResidualConv
from diffts.diffusion.networks.residual_mlp import ResidualMLP
from diffts.diffusion.networks.unet1d import UNet1d
from diffts.diffusion.networks.unet2d import UNet2d
from diffts.errors import InvalidInputError
from diffts.seeding import Seed, as_key
from diffts.validation import one_of, whole_number

#: The name of the network that takes evidence as noise; it is built on a factor Gaussian.
ARMS = "arms"

#: What can be learned: a network in one of these two frames.
TrainedDenoiser: TypeAlias = NetworkDenoiser | ArmDenoiser

NETWORKS: dict[str, Callable[..., Network]] = {
    "residual-conv": ResidualConv,
    "residual-mlp": ResidualMLP,
    "unet-1d": UNet1d,
    "unet-2d": UNet2d,
}


def build_denoiser(
    network: str,
    n_arms: int,
    *,
    predicts: Prediction = "clean",
    compute: Compute = "float32",
    base: Gaussian | None = None,
    seed: Seed = 0,
    **options: Any,
) -> NetworkDenoiser:
    """A denoiser with freshly initialised weights.

    Args:
        network: one of ``NETWORKS``.
        n_arms: number of arms ``K``.
        predicts: what the network outputs: 'clean', 'noise', 'velocity' or 'residual'.
        compute: type that its arithmetic is done in: 'float32' or 'bfloat16'.
        base: with 'residual', a Gaussian fitted to the standardised data.
        seed: seed of the weights.
        **options: sizes of that network (see its class).

    >>> build_denoiser("residual-mlp", 12, width=32).recipe()["options"]
    {'embedding_size': 64, 'n_blocks': 3, 'width': 32}
    """
    one_of("network", network, NETWORKS)
    one_of("predicts", predicts, PREDICTIONS)
    one_of("compute", compute, COMPUTE)
    n_arms = whole_number("n_arms", n_arms, 1)
    try:
        built = NETWORKS[network](n_arms, key=as_key(seed), **options)
    except TypeError as error:
        raise InvalidInputError(f"options of {network}: {error}") from None
    # Defaults are written down, too: they may be others in a later version.
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(NETWORKS[network]).parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }
    recipe = json.dumps({"network": network, "options": {**defaults, **options}}, sort_keys=True)
    return NetworkDenoiser(
        network=built,
        predicts=predicts,
        options=recipe,
        n_arms=n_arms,
        compute=compute,
        base=None if base is None else GaussianDenoiser(base),
    )


__all__ = [
    "ARMS",
    "COMPUTE",
    "NETWORKS",
    "PREDICTIONS",
    "ArmDenoiser",
    "Compute",
    "Network",
    "NetworkDenoiser",
    "Prediction",
    "ResidualConv",
    "ResidualMLP",
    "TrainedDenoiser",
    "UNet1d",
    "UNet2d",
    "build_denoiser",
    "sinusoidal_embedding",
]
