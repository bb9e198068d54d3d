"""Our network for arms: one function, shared by all arms, on top of a factor Gaussian.

What it says of an arm follows from what was observed of that arm and how precisely, from what the
Gaussian makes of all arms, from a code that a network over all arms has for it, and from a few
learned numbers of its own. So every task teaches the function K times, and a network that has
learned nothing yet is the Gaussian.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import ndtri

from diffts.diffusion.factor_gaussian import FactorGaussian
from diffts.diffusion.networks.arm_codes import DenseCodes, GridCodes
from diffts.diffusion.observation import ConditionalDenoiser, Doubt, Marginals, Observation
from diffts.seeding import Seed, as_key
from diffts.validation import whole_number

#: Levels of the quantiles that the network predicts.
LEVELS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.999)
DEVIATES = tuple(float(deviate) for deviate in ndtri(np.asarray(LEVELS)))

#: Numbers that the shared function is given of an arm, beside its code and its own ones.
OF_AN_ARM = 6
#: How likely the Gaussian below is right instead of the network; and independent arms. A network
#: that is sure and wrong of an arm plays as these would, once the level of a rule has grown enough.
THE_GAUSSIAN, ARM_BY_ARM = 0.2, 0.1
#: Standard deviations beyond which a knot is only far away.
FARTHEST = 4.0
#: Standard deviations of the Gaussian that the network may move a mean or a quantile by.
FURTHEST = 8.0


@final
class ArmDenoiser(ConditionalDenoiser):
    """Mean, standard deviation and quantiles of each arm, given one observation of each.

    With ``m̂^a, ŝ^a`` the factor Gaussian's answer and ``(F, G, Q) = f(arm)`` the network's, the
    mean is ``m̂ + ŝ F``, the standard deviation ``ŝ exp(G)`` and the quantile of level u
    ``m̂ + ŝ (Φ⁻¹(u) + Q_u)``. ``ŝ`` is at most the observation's own deviation: where an arm was
    pulled often, there is little left to be wrong about.

    Attributes:
        base: the factor Gaussian below; not trained.
        over: the network over all arms: a code of each (``arm_codes.py``).
        own: numbers learned of each arm, ``(K, e)``.
        knots: values that the law may have an edge at, learned; the shared function sees where the
            Gaussian's answer lies beside each, in its standard deviations, so that it can tell an
            edge however precise the observation is.
        first, second, third: the function shared by all arms.
    """

    default_sampler: ClassVar[str] = "merged"
    default_steps: ClassVar[int | None] = 12

    n_arms: int = eqx.field(static=True)
    base: FactorGaussian
    over: DenseCodes | GridCodes
    own: Float[Array, "K e"]
    knots: Float[Array, " n"]
    first: eqx.nn.Linear
    second: eqx.nn.Linear
    third: eqx.nn.Linear
    options: str = eqx.field(static=True)  # JSON

    def __init__(
        self,
        base: FactorGaussian,
        *,
        width: int = 256,
        n_blocks: int = 2,
        code: int = 8,
        own: int = 8,
        hidden: int = 64,
        sees_arms: bool = True,
        grid: Mapping[str, Any] | None = None,
        knots: Sequence[float] = (),
        seed: Seed = 0,
    ) -> None:
        """Draw the weights.

        Args:
            base: the factor Gaussian.
            width: width of the network over all arms.
            n_blocks: its residual blocks.
            code: numbers that it says of each arm.
            own: numbers that are learned of each arm.
            hidden: width of the shared function.
            sees_arms: whether the network over all arms reads them all, or the factors alone.
            grid: where arms are a picture, its ``height``, ``width`` and the arms' ``pixels``; a
                U-Net over it takes the place of these layers (``channels``, ``folds``).
            knots: where edges are looked for first.
            seed: source of the weights.
        """
        for name, value in (("width", width), ("code", code), ("own", own), ("hidden", hidden)):
            whole_number(name, value, 1)
        whole_number("n_blocks", n_blocks, 0)
        n_arms, rank = base.loadings.shape
        keys = jax.random.split(as_key(seed), 5)
        self.n_arms, self.base = n_arms, base
        self.over = (
            DenseCodes(
                n_arms,
                rank,
                rank + own,
                code,
                width=width,
                n_blocks=n_blocks,
                sees_arms=sees_arms,
                key=keys[0],
            )
            if grid is None
            else GridCodes(n_arms, code, key=keys[0], **grid)
        )
        self.own = 0.3 * jax.random.normal(keys[1], (n_arms, own))
        self.knots = jnp.asarray(list(knots), jnp.float32).reshape(-1)
        self.first = eqx.nn.Linear(OF_AN_ARM + len(self.knots) + code + own, hidden, key=keys[2])
        self.second = eqx.nn.Linear(hidden, hidden, key=keys[3])
        third = eqx.nn.Linear(hidden, 2 + len(LEVELS), key=keys[4])
        # It starts as the Gaussian.
        self.third = jax.tree.map(jnp.zeros_like, third)
        sizes = {"width": width, "n_blocks": n_blocks, "code": code, "own": own, "hidden": hidden}
        sizes |= {"sees_arms": sees_arms, "rank": rank}
        told: dict[str, Any] = {**sizes, "knots": [0.0] * len(self.knots)}  # learned: in the arrays
        told |= {} if grid is None else {"grid": dict(grid)}
        self.options = json.dumps(told, sort_keys=True)

    def given(self, observation: Observation) -> Marginals:
        """What is thought of each arm."""
        return self.answer(observation)[0]

    def of_gaussian(self, push: Float[Array, " K"], precision: Float[Array, " K"]) -> Marginals:
        """The factor Gaussian below, centred."""
        below = self.base.given(Observation(self.base.mean + push / precision, precision))
        return Marginals(below.mean - self.base.mean, below.std, joint=below.noise)

    def answer(self, observation: Observation) -> tuple[Marginals, Float[Array, " K"]]:
        """The same, and the Gaussian's standard deviations: the scale that errors are seen on."""
        below = self.base.given(observation)
        mean, precision = observation.mean, observation.precision
        # As a latent of the same precision: of unit size whatever the precision is.
        signal = jnp.sqrt(precision / (1.0 + precision))
        latent = signal * mean
        pull = jnp.where(precision > 0, (mean - below.mean) / below.std, 0.0)
        of_arm = jnp.stack(
            [
                latent,
                signal,
                below.mean,
                below.std,
                jnp.minimum(jnp.log1p(precision) / 4.0, 3.0),
                jnp.clip(pull, -5.0, 5.0),
            ],
            axis=1,
        )
        code = self.over(latent, signal, below, self._of_arms())
        beside = (self.knots - below.mean[:, None]) / below.std[:, None]
        features = jnp.concatenate(
            [of_arm, FARTHEST * jnp.tanh(beside / FARTHEST), code, self.own], axis=1
        )
        hidden = jax.nn.silu(_rows(self.first, features))
        hidden = hidden + jax.nn.silu(_rows(self.second, hidden))
        moved = jnp.clip(_rows(self.third, hidden), -FURTHEST, FURTHEST)
        # Quantiles do not decrease.
        quantiles = jax.lax.cummax(jnp.asarray(DEVIATES) + moved[:, 2:], axis=1)
        marginals = Marginals(
            below.mean + below.std * moved[:, 0],
            below.std * jnp.exp(moved[:, 1]),
            below.mean[:, None] + below.std[:, None] * quantiles,
            DEVIATES,
            doubts=(
                Doubt(below.mean, below.std, THE_GAUSSIAN),
                Doubt(*self.base.arm_by_arm(observation), ARM_BY_ARM),
            ),
        )
        return marginals, below.std

    def _of_arms(self) -> Float[Array, "K n"]:
        """What the network over all arms knows of each arm: its loadings, and its own numbers."""
        loadings = jax.lax.stop_gradient(self.base.loadings)
        loadings = loadings / jnp.sqrt(jnp.mean(loadings**2) + 1e-12)
        return jnp.concatenate([loadings, self.own], axis=1) / np.sqrt(loadings.shape[1])

    def recipe(self) -> dict[str, object]:
        """Sizes; the arrays hold the weights and the Gaussian."""
        return {"kind": "arms", "n_arms": self.n_arms, "options": json.loads(self.options)}


def arm_skeleton(n_arms: int, rank: int, **options: Any) -> ArmDenoiser:
    """One of the right shape, whose arrays are yet to be filled in."""
    base = FactorGaussian(np.zeros(n_arms), np.zeros((n_arms, rank)), np.ones(n_arms))
    return ArmDenoiser(base, **options)


def _rows(layer: eqx.nn.Linear, rows: Float[Array, "K i"]) -> Float[Array, "K o"]:
    """A layer applied to every row."""
    assert layer.bias is not None
    return rows @ layer.weight.T + layer.bias
