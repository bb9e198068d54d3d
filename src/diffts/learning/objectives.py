"""What training minimises: losses of one example, and objectives that average them over a batch.

One objective is for exact tasks. Two are for imperfect ones: they take the loss of an observation
and a latent, and differ in where the latent comes from.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from diffts.diffusion.denoiser import Vector
from diffts.diffusion.networks import NetworkDenoiser
from diffts.diffusion.schedule import NoiseLevel
from diffts.evidence import Evidence
from diffts.learning.training import Objective, random_batch
from diffts.seeding import KeyArray


def denoising_loss(
    denoiser: NetworkDenoiser, x_0: Vector, noise: Vector, level: NoiseLevel
) -> Float[Array, ""]:
    """``‖target - f(x_ℓ, ℓ)‖² / K`` at ``x_ℓ = √ᾱ x_0 + √(1-ᾱ) noise`` (Eq. denoising-loss).

    For a network that predicts the clean sample this is the paper's objective; the other two
    predictions are compared with their own targets, as is usual for them.
    """
    x = level.signal * x_0 + level.noise * noise
    error = denoiser.target(x_0, noise, level) - denoiser.output(x, level)
    return jnp.mean(error**2)


def imperfect_loss(
    denoiser: NetworkDenoiser,
    y: Vector,
    weight: Vector,
    x: Vector,
    level: NoiseLevel,
    divergence: Vector | None = None,
    probe: Vector | None = None,
) -> Float[Array, ""]:
    """``(Σ_a w^a (y^a - h^a(x, ℓ))² + 2√ᾱ Σ_a d^a r^a (J_h(x) r)^a) / K`` (Eq. EM-loss).

    The second term is Stein's unbiased estimate of what the noise of ``y`` adds to the first,
    with one probe ``r`` for the divergence. The paper takes a finite difference with ε = 1e-5,
    which float32 cannot resolve; a Jacobian-vector product is the same derivative, exactly.

    Errors are counted in what the network predicts, as in :func:`denoising_loss`, so that on exact
    data both losses are the same. ``weight`` is 1 where observed and 0 elsewhere, or inverse
    variances; ``divergence`` is ``d = λσ²``, or ``λ`` with inverse variances, and None is λ = 0;
    ``probe`` is ``r ~ N(0, I)``.
    """
    if divergence is None or probe is None:
        estimate, penalty = denoiser.trainable(x, level), jnp.float32(0.0)
    else:
        estimate, change = jax.jvp(lambda z: denoiser.trainable(z, level), (x,), (probe,))
        penalty = 2.0 * level.signal * jnp.mean(divergence * probe * change)
    fit = jnp.mean(jnp.where(weight > 0, weight * (y - estimate) ** 2, 0.0))
    return denoiser.error_weight(level) * (fit + penalty)


class ExactTasks(Objective):
    """The denoising loss on standardised tasks ``x_0`` that are known exactly, ``(N, K)``."""

    tasks: Float[Array, "N K"]

    def __call__(
        self, denoiser: NetworkDenoiser, levels: NoiseLevel, key: KeyArray, batch_size: int
    ) -> Float[Array, ""]:
        """Mean denoising loss of random tasks at random noise levels."""
        rows, which, noise_key = random_batch(key, len(self.tasks), len(levels.step), batch_size)
        x_0 = self.tasks[rows]
        noise = jax.random.normal(noise_key, x_0.shape)
        level = jax.tree.map(lambda leaf: leaf[which], levels)
        losses = jax.vmap(denoising_loss, in_axes=(None, 0, 0, 0))(denoiser, x_0, noise, level)
        return jnp.mean(losses)


class Observations(eqx.Module):
    """Standardised observations of tasks, and how they weigh in the loss; 0 where unobserved."""

    y: Float[Array, "N K"]
    weight: Float[Array, "N K"]  # ``w`` of each squared error
    divergence: Float[Array, "N K"] | None  # factor ``d`` of that term; None if 0 throughout

    @staticmethod
    def of(evidence: Evidence, sure: float, everywhere: bool) -> Observations:
        """Observations of equal weight, with ``d = λσ²`` for the weight λ = ``sure``.

        The divergence term runs over the observed arms, or ``everywhere``: the paper's, which at
        half missing counts double.
        """
        mask, variance = evidence.mask.astype(jnp.float32), evidence.std**2
        if everywhere:
            # The paper has one σ for all; where they differ, a task's unobserved arms get its mean.
            typical = jnp.sum(mask * variance, 1) / jnp.maximum(jnp.sum(mask, 1), 1.0)
            divergence = jnp.where(evidence.mask, variance, typical[:, None])
        else:
            divergence = mask * variance
        if sure == 0.0 or not bool((divergence > 0).any()):
            return Observations(evidence.mean, mask, None)
        return Observations(evidence.mean, mask, sure * divergence)

    def rows(self, which: Int[Array, " n"]) -> Observations:
        """Those of some tasks."""
        some: Observations = jax.tree.map(lambda leaf: leaf[which], self)
        return some

    def loss(
        self, denoiser: NetworkDenoiser, x: Float[Array, "N K"], level: NoiseLevel, key: KeyArray
    ) -> Float[Array, ""]:
        """Mean loss of a latent ``x`` of each task."""
        probe = jax.random.normal(jax.random.fold_in(key, 1), x.shape)
        losses = jax.vmap(imperfect_loss, in_axes=(None, 0, 0, 0, 0, 0, 0))(
            denoiser, self.y, self.weight, x, level, self.divergence, probe
        )
        return jnp.mean(losses)


class Latents(Objective):
    """The paper's inner step: latents are kept steps of posterior chains."""

    observations: Observations
    step: Int[Array, "N kept"]  # which steps were kept of each task's chain, 1 to L
    latent: Float[Array, "N kept K"]

    def __call__(
        self, denoiser: NetworkDenoiser, levels: NoiseLevel, key: KeyArray, batch_size: int
    ) -> Float[Array, ""]:
        """Loss of random tasks at a random one of their kept steps."""
        tasks, kept = self.step.shape
        rows, which, noise_key = random_batch(key, tasks, kept, batch_size)
        level = jax.tree.map(lambda leaf: leaf[self.step[rows, which] - 1], levels)
        x = self.latent[rows, which]
        return self.observations.rows(rows).loss(denoiser, x, level, noise_key)


class Reconstructed(Objective):
    """Latents are the forward diffusion of draws ``x̃_0`` of the tasks; the loss looks at both.

    ``anchor · ‖m⊙(y - h(x̃_ℓ))‖² + (1 - anchor) · ‖x̃_0 - h(x̃_ℓ)‖²``: if the draws were exact,
    both halves would have the same minimiser. The first ties the denoiser to what was really
    observed, the second has the smaller variance and speaks of every arm. In the paper's warm-up
    the one 'draw' is the observations with a constant in the missing entries.
    """

    observations: Observations
    draws: Float[Array, "D N K"]
    anchor: float = eqx.field(static=True)

    def __call__(
        self, denoiser: NetworkDenoiser, levels: NoiseLevel, key: KeyArray, batch_size: int
    ) -> Float[Array, ""]:
        """Loss of random draws at random noise levels."""
        n_draws, n_tasks = self.draws.shape[:2]
        rows, which, noise_key = random_batch(key, n_tasks, levels.step.shape[0], batch_size)
        level = jax.tree.map(lambda leaf: leaf[which], levels)
        draw = jax.random.randint(jax.random.fold_in(noise_key, 2), rows.shape, 0, n_draws)
        x_0 = self.draws[draw, rows]
        noise = jax.random.normal(noise_key, x_0.shape)
        x = level.signal[:, None] * x_0 + level.noise[:, None] * noise
        # A half that has no weight is not computed at all.
        loss = jnp.float32(0.0)
        if self.anchor > 0:
            observed = self.observations.rows(rows)
            loss += self.anchor * observed.loss(denoiser, x, level, noise_key)
        if self.anchor < 1:
            drawn = Observations(x_0, jnp.ones_like(x_0), None)
            loss += (1.0 - self.anchor) * drawn.loss(denoiser, x, level, noise_key)
        return loss
