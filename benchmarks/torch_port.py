"""The same maths in eager PyTorch: the paper's network, its posterior sampler, a training step.

It is what a good PyTorch user would write: batched over tasks, coefficients computed once and
kept on the device, no synchronisation inside the loop, ``torch.inference_mode`` for sampling,
the default number of threads. It is eager on purpose: no ``torch.compile``. Only benchmarks and
tests use it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from diffts.diffusion.networks import ResidualConv
from diffts.diffusion.schedule import Schedule

Denoiser = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class TorchResidualConv(nn.Module):
    """The twin of a ``diffts.diffusion.networks.ResidualConv``, batch first, with its weights."""

    def __init__(self, network: ResidualConv) -> None:
        super().__init__()
        n_arms, channels, length = network.n_arms, network.channels, network.length
        embedding_size = network.embed[0].weight.shape[1]
        self.channels, self.length = channels, length
        self.inward = nn.Linear(n_arms, channels * length)
        self.embed = nn.Sequential(
            nn.Linear(embedding_size, embedding_size),
            nn.SiLU(),
            nn.Linear(embedding_size, embedding_size),
            nn.SiLU(),
        )
        self.blocks = nn.ModuleList(
            TorchGatedBlock(channels, embedding_size, *block.convolution.dilation)
            for block in network.blocks
        )
        self.mix = nn.Conv1d(channels, channels, 1)
        self.outward = nn.Linear(channels * length, n_arms)
        half = embedding_size // 2
        frequency = torch.exp(-math.log(10_000.0) * torch.arange(half) / (half - 1))
        self.register_buffer("frequency", frequency, persistent=False)
        self._copy(network)

    def _copy(self, network: ResidualConv) -> None:
        pairs: list[tuple[Any, Any]] = [
            (self.inward, network.inward),
            (self.embed[0], network.embed[0]),
            (self.embed[2], network.embed[1]),
            (self.mix, network.mix),
            (self.outward, network.outward),
        ]
        for ours, theirs in zip(network.blocks, self.blocks, strict=True):
            pairs += [
                (getattr(theirs, name), getattr(ours, name))
                for name in ("step_shift", "convolution", "split")
            ]
        for target, source in pairs:
            # Equinox keeps a convolution's bias as (channels, 1).
            target.weight.data.copy_(torch.tensor(np.asarray(source.weight)))
            target.bias.data.copy_(torch.tensor(np.asarray(source.bias).reshape(-1)))

    def forward(self, x: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        """The raw output for latents ``(B, K)``; ``step`` is ``(1,)`` (shared) or ``(B,)``."""
        angle = step[:, None] * self.frequency
        embedding = self.embed(torch.cat([angle.sin(), angle.cos()], dim=1))
        h = self.inward(x).view(-1, self.channels, self.length)
        h = functional.leaky_relu(h, 0.4)
        total: Any = 0.0
        for block in self.blocks:
            h, skip = block(h, embedding)
            total = total + skip
        h = functional.leaky_relu(self.mix(total / math.sqrt(len(self.blocks))), 0.4)
        return self.outward(h.flatten(1))


class TorchGatedBlock(nn.Module):
    """Dilated convolution, ``tanh · sigmoid`` gate, then a residual and a skip output."""

    def __init__(self, channels: int, embedding_size: int, dilation: int) -> None:
        super().__init__()
        self.step_shift = nn.Linear(embedding_size, channels)
        self.convolution = nn.Conv1d(channels, 2 * channels, 3, padding=dilation, dilation=dilation)
        self.split = nn.Conv1d(channels, 2 * channels, 1)

    def forward(
        self, h: torch.Tensor, embedding: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The next hidden state and this block's share of the skip sum."""
        shifted = h + self.step_shift(embedding)[:, :, None]
        gate, signal = self.convolution(shifted).chunk(2, dim=1)
        residual, skip = self.split(gate.sigmoid() * signal.tanh()).chunk(2, dim=1)
        return (h + residual) * math.sqrt(0.5), skip


class ReverseChain(NamedTuple):
    """Coefficients of the reverse steps, noisiest first, one row a step, on the device.

    ``step`` has shape ``(S, 1)``, the others ``(S, K)`` or ``(S, 1)``.
    """

    step: torch.Tensor
    c0: torch.Tensor
    c1: torch.Tensor
    variance: torch.Tensor  # calibrated: v + c0² τ²
    noise_x: torch.Tensor  # z̄ = noise_x · x_{ℓ+1} - noise_x0 · x̂_0
    noise_x0: torch.Tensor
    signal_y: torch.Tensor  # √ᾱ_ℓ
    noise_y: torch.Tensor  # √(1-ᾱ_ℓ)
    tau_y: torch.Tensor  # ᾱ_{ℓ+1}(1-ᾱ_ℓ)/(1-ᾱ_{ℓ+1}) τ², the denoiser's share of s_y²


def reverse_chain(
    schedule: Schedule, tau: np.ndarray, device: torch.device | str = "cpu"
) -> ReverseChain:
    """All reverse steps of the full schedule with calibrated errors ``τ_1 … τ_L``, ``(L, K)``."""
    alpha_bar = np.asarray(schedule.alpha_bar)
    source, target = alpha_bar[:0:-1, None], alpha_bar[-2::-1, None]
    alpha = source / target
    c0 = np.sqrt(target) * (1 - alpha) / (1 - source)
    tau2 = np.asarray(tau, dtype=np.float64)[::-1] ** 2
    columns = (
        np.arange(schedule.n_steps, 0, -1)[:, None],
        c0,
        np.sqrt(alpha) * (1 - target) / (1 - source),
        (1 - target) * (1 - alpha) / (1 - source) + c0**2 * tau2,
        1 / np.sqrt(1 - source),
        np.sqrt(source / (1 - source)),
        np.sqrt(target),
        np.sqrt(1 - target),
        source * (1 - target) / (1 - source) * tau2,
    )
    return ReverseChain(*(torch.tensor(c, dtype=torch.float32, device=device) for c in columns))


def posterior_sample(
    denoiser: Denoiser,
    chain: ReverseChain,
    y: torch.Tensor,
    sigma: torch.Tensor,
    mask: torch.Tensor,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """One draw for each task of the batch: the paper's sampler, predicted noise, calibrated.

    ``y``, ``sigma`` and ``mask`` (booleans) have shape ``(B, K)`` and are standardised. As in
    ``diffts`` the two draws of the algorithm, of ``x'`` and of ``ỹ``, are one draw from the
    product of their densities.
    """
    with torch.inference_mode():
        x = torch.randn(y.shape, device=y.device, generator=generator)
        # What does not depend on the latents, for all steps at once, (S, B, K).
        var_x = chain.variance[:, None]
        var_y = chain.signal_y[:, None] ** 2 * sigma**2 + chain.tau_y[:, None]
        gain = mask * (var_x / (var_x + var_y))
        std = ((1 - gain) * var_x).sqrt()
        diffused_y = chain.signal_y[:, None] * y
        for i in range(len(chain.step)):
            x0_hat = denoiser(x, chain.step[i])
            mean_x = chain.c0[i] * x0_hat + chain.c1[i] * x
            z = chain.noise_x[i] * x - chain.noise_x0[i] * x0_hat
            mean_y = diffused_y[i] + chain.noise_y[i] * z
            noise = torch.randn(y.shape, device=y.device, generator=generator)
            x = torch.lerp(mean_x, mean_y, gain[i]).addcmul_(std[i], noise)
        return x


def captured(
    sample: Callable[..., torch.Tensor], *inputs: torch.Tensor
) -> Callable[..., torch.Tensor]:
    """``sample`` recorded as one CUDA graph for inputs of these shapes: an extra, not eager."""
    static = [torch.empty_like(tensor).copy_(tensor) for tensor in inputs]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            sample(*static)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = sample(*static)

    def replay(*fresh: torch.Tensor) -> torch.Tensor:
        for target, source in zip(static, fresh, strict=True):
            target.copy_(source)
        graph.replay()
        return output

    return replay


class Trainer:
    """Adam on the mean square of ``x_0 - h(x_ℓ, ℓ)`` at random steps, data on the device."""

    def __init__(
        self, network: nn.Module, data: torch.Tensor, schedule: Schedule, batch_size: int = 128
    ) -> None:
        self.network, self.data, self.batch_size = network, data, batch_size
        self.optimizer = torch.optim.Adam(network.parameters(), lr=5e-4, betas=(0.9, 0.99))
        alpha_bar = torch.tensor(schedule.alpha_bar, dtype=torch.float64)
        self.signal = alpha_bar.sqrt().to(data.device, torch.float32)[:, None]
        self.noise = (1 - alpha_bar).sqrt().to(data.device, torch.float32)[:, None]

    def loss(self, x_0: torch.Tensor, step: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """The loss of a batch ``(B, K)`` at its steps ``(B,)``, with the given noise."""
        x = self.signal[step] * x_0 + self.noise[step] * noise
        return functional.mse_loss(self.network(x, step), x_0)

    def step(self) -> torch.Tensor:
        """One step on a random batch; the loss, still on the device."""
        device = self.data.device
        rows = torch.randint(len(self.data), (self.batch_size,), device=device)
        x_0 = self.data[rows]
        step = torch.randint(1, len(self.signal), (self.batch_size,), device=device)
        loss = self.loss(x_0, step, torch.randn_like(x_0))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()
