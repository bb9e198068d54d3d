"""The diffusion prior: a denoiser with its schedule, calibrated errors and units."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike, NDArray

from diffts.diffusion.denoiser import Denoiser
from diffts.diffusion.exact import (
    Gaussian,
    GaussianDenoiser,
    GaussianMixture,
    MixtureDenoiser,
    gaussian_tau,
    mixture_tau,
)
from diffts.diffusion.networks import build_denoiser
from diffts.diffusion.posterior import VARIANCE_MODES, PosteriorSampler, as_sampler
from diffts.diffusion.posterior.batched import Chain, Units, draw_batch
from diffts.diffusion.schedule import Schedule
from diffts.errors import ArtifactError, InvalidInputError
from diffts.evidence import Evidence
from diffts.seeding import Seed, as_key
from diffts.storage import load_folder, named_arrays, save_folder, with_arrays
from diffts.validation import finite_array, one_of, whole_number

_KIND, _VERSION = "diffts.prior", 2


class DiffusionPrior(eqx.Module):
    """A prior over the mean rewards of a task, from which posterior draws can be taken.

    Attributes:
        denoiser: ``h(x_ℓ, ℓ)``, in standardised units ``(x - shift) / scale``.
        schedule: the noise schedule of L steps.
        tau: calibrated errors ``τ_1 … τ_L`` of the denoiser for each arm, ``(L, K)``,
            standardised; ``reconstruction_error`` has them in the user's units.
        shift, scale: the standardisation, one for all arms.
        low, high: the smallest and the largest mean reward that the prior can explain, in the
            user's units; draws stay between them (and what was observed). Infinite in a prior
            that was saved before there were such limits.

    >>> prior = DiffusionPrior.gaussian([0.0, 0.0], [[1.0, 0.9], [0.9, 1.0]])
    >>> prior.posterior_sample(Evidence([1.0, 0.0], 0.1, [True, False]), n=4).shape
    (4, 2)
    """

    denoiser: Denoiser
    tau: Float[Array, "L K"]
    shift: Float[Array, ""]
    scale: Float[Array, ""]
    low: Float[Array, ""]
    high: Float[Array, ""]
    schedule: Schedule = eqx.field(static=True)
    _metadata: str = eqx.field(static=True)

    def __init__(
        self,
        denoiser: Denoiser,
        tau: ArrayLike,
        *,
        schedule: Schedule | None = None,
        shift: float = 0.0,
        scale: float = 1.0,
        limits: tuple[float, float] = (-np.inf, np.inf),
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.denoiser = denoiser
        self.schedule = Schedule.linear() if schedule is None else schedule
        errors = finite_array("tau", tau, ndim=2)
        if errors.shape != (self.schedule.n_steps, denoiser.n_arms) or (errors < 0).any():
            raise InvalidInputError(
                f"tau: expected {(self.schedule.n_steps, denoiser.n_arms)} values of at least 0, "
                f"got shape {errors.shape}, smallest {errors.min(initial=np.inf):.3g}"
            )
        if not (np.isfinite(shift) and np.isfinite(scale) and scale > 0):
            raise InvalidInputError(
                f"shift, scale: must be finite, scale above 0; got {shift} and {scale}"
            )
        self.tau = jnp.asarray(errors, jnp.float32)
        self.shift, self.scale = jnp.float32(shift), jnp.float32(scale)
        low, high = limits
        if not low < high:
            raise InvalidInputError(f"limits: must be a smaller and a larger value, got {limits}")
        self.low, self.high = jnp.float32(low), jnp.float32(high)
        try:
            self._metadata = json.dumps(dict(metadata or {}), sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"metadata: not plain JSON ({error})") from None

    @staticmethod
    def gaussian(
        mean: ArrayLike, covariance: ArrayLike, schedule: Schedule | None = None
    ) -> DiffusionPrior:
        """The exact diffusion prior of ``N(mean, covariance)``: closed-form denoiser and τ."""
        given = Gaussian(mean, covariance)
        schedule = Schedule.linear() if schedule is None else schedule
        shift, scale = _standardisation(given.mean, given.std)
        denoiser = GaussianDenoiser(
            Gaussian((given.mean - shift) / scale, given.covariance / scale**2)
        )
        tau = gaussian_tau(denoiser, schedule)
        limits = _far_out(given.mean[None], given.std[None])
        return DiffusionPrior(
            denoiser, tau, schedule=schedule, shift=shift, scale=scale, limits=limits
        )

    @staticmethod
    def mixture(
        weights: ArrayLike,
        means: ArrayLike,
        covariances: ArrayLike,
        schedule: Schedule | None = None,
    ) -> DiffusionPrior:
        """The exact diffusion prior of a Gaussian mixture (τ by Monte Carlo, fixed seed)."""
        given = GaussianMixture(weights, means, covariances)
        schedule = Schedule.linear() if schedule is None else schedule
        shift, scale = _standardisation(given.mean, given.std)
        standard = GaussianMixture(
            given.weights, (given.means - shift) / scale, given.covariances / scale**2
        )
        denoiser = MixtureDenoiser(standard)
        tau = mixture_tau(denoiser, standard, schedule)
        spreads = np.stack([component.std for component in given.components])
        limits = _far_out(given.means, spreads)
        return DiffusionPrior(
            denoiser, tau, schedule=schedule, shift=shift, scale=scale, limits=limits
        )

    @property
    def n_arms(self) -> int:
        """Number of arms ``K``."""
        return self.denoiser.n_arms

    @property
    def units(self) -> Units:
        """Standardisation and limits, as samplers need them."""
        return Units(self.shift, self.scale, self.low, self.high)

    def with_errors(self, tau: ArrayLike, **metadata: Any) -> DiffusionPrior:
        """The same prior with other calibrated errors ``τ`` (standardised), and more metadata."""
        return DiffusionPrior(
            self.denoiser,
            tau,
            schedule=self.schedule,
            shift=float(self.shift),
            scale=float(self.scale),
            limits=(float(self.low), float(self.high)),
            metadata=self.metadata | metadata,
        )

    @property
    def metadata(self) -> dict[str, Any]:
        """What the maker of this prior wanted to be remembered with it (plain JSON)."""
        content: dict[str, Any] = json.loads(self._metadata)
        return content

    @property
    def reconstruction_error(self) -> NDArray[np.float32]:
        """``τ_1 … τ_L`` in the user's units, ``(L, K)``."""
        return np.asarray(self.tau * self.scale)

    def sample(self, n: int, seed: Seed = 0, *, steps: int | None = None) -> NDArray[np.float32]:
        """``n`` draws from the prior, ``(n, K)``."""
        n = whole_number("n", n, 1)
        return self.posterior_sample(Evidence.none(self.n_arms), n=n, steps=steps, seed=seed)

    def posterior_sample(
        self,
        evidence: Evidence,
        n: int | None = None,
        *,
        steps: int | None = None,
        sampler: str | PosteriorSampler = "paper",
        variance: str = "calibrated",
        chain: bool = False,
        seed: Seed = 0,
    ) -> NDArray[np.float32]:
        """Draws of the mean rewards given the evidence, in the user's units.

        Args:
            evidence: observations of one task ``(K,)`` or of a batch of tasks ``(*batch, K)``.
            n: draws for each task; by default one, without an axis for it.
            steps: length of the reverse chain, at most L; shorter is faster and less exact.
            sampler: a name in ``diffts.SAMPLERS`` ('paper', 'moment', …) or a sampler object.
            variance: reverse variance: 'calibrated', 'plain' or 'partial'.
            chain: return the whole chain, ``x_0`` first, on an axis before the last, all mapped
                to the user's units by the same shift and scale.
            seed: an int, a NumPy generator or a JAX key.

        Returns:
            ``(*batch, K)``, with ``n`` in front if given; with ``chain``, ``S+1`` before ``K``.
        """
        if not isinstance(evidence, Evidence):
            raise InvalidInputError(f"evidence: expected Evidence, got {type(evidence).__name__}")
        if evidence.n_arms != self.n_arms:
            raise InvalidInputError(
                f"evidence: has {evidence.n_arms} arms, the prior has {self.n_arms}"
            )
        draws_each = 1 if n is None else whole_number("n", n, 1)
        if steps is not None:
            steps = whole_number("steps", steps, 1, self.schedule.n_steps)
        one_of("variance", variance, VARIANCE_MODES)
        values = draw_batch(
            as_sampler(sampler),
            as_key(seed),
            self.denoiser,
            Chain(self.schedule, self.tau, steps, variance),
            self.units,
            jax.tree.map(lambda leaf: np.asarray(leaf).reshape(-1, self.n_arms), evidence),
            draws_each,
            chain,
        )
        shape = (*evidence.batch_shape, *values.shape[2:])
        return values.reshape(shape if n is None else (draws_each, *shape))

    def save(self, directory: str | os.PathLike[str], *, half: bool = False) -> None:
        """Write ``config.json`` and the arrays into a folder; atomic, replaces an older prior.

        Args:
            directory: the folder.
            half: keep the network's weights in 16 bits: half the size, and an error of one in
                two thousand in each of them.
        """
        content = {
            "denoiser": self.denoiser.recipe(),
            "alpha_bar": list(self.schedule.alpha_bar),
            "metadata": self.metadata,
        }
        arrays = named_arrays(self)
        if half:
            content["weights"] = "float16"
            arrays = {
                name: array.astype(np.float16) if _is_weight(name, array, np.float32) else array
                for name, array in arrays.items()
            }
        save_folder(directory, _KIND, _VERSION, content, arrays)

    @staticmethod
    def load(directory: str | os.PathLike[str]) -> DiffusionPrior:
        """Read a prior that :meth:`save` wrote."""
        content, arrays = load_folder(directory, _KIND, _VERSION)
        try:
            schedule = Schedule(tuple(content["alpha_bar"]))
            recipe, metadata = content["denoiser"], content["metadata"]
            n_arms = int(recipe["n_arms"])
            skeleton = DiffusionPrior(
                _denoiser_skeleton(recipe, n_arms),
                np.zeros((schedule.n_steps, n_arms)),
                schedule=schedule,
                metadata=metadata,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"{directory}: damaged or foreign config ({error})") from None
        if content.get("weights") == "float16":
            arrays = {
                name: array.astype(np.float32) if _is_weight(name, array, np.float16) else array
                for name, array in arrays.items()
            }
        # Format 1 had no limits: those of the skeleton are infinite.
        unlimited = {".low": np.asarray(skeleton.low), ".high": np.asarray(skeleton.high)}
        return with_arrays(skeleton, unlimited | arrays, str(directory))


def explainable(values: NDArray[np.floating[Any]]) -> tuple[float, float]:
    """The limits of a prior learned from these values: once their range beyond it.

    Wide enough for the draws of a network that is only roughly right: half of the range would be
    met now and then by the built-in prior of Popular and Niche.

    >>> explainable(np.array([0.0, 1.0, 0.25]))
    (-1.0, 2.0)
    """
    lowest, highest = float(values.min()), float(values.max())
    width = max(highest - lowest, 1e-5 * max(abs(lowest), abs(highest)), 1e-30)
    return lowest - width, highest + width


def _far_out(means: NDArray[np.float64], stds: NDArray[np.float64]) -> tuple[float, float]:
    """The limits of a distribution: eight standard deviations from its means."""
    low, high = float((means - 8 * stds).min()), float((means + 8 * stds).max())
    return (low, high) if low < high else (low - 1.0, high + 1.0)  # all arms known exactly


def _is_weight(name: str, array: NDArray[Any], kind: type[np.floating[Any]]) -> bool:
    return name.startswith(".denoiser.network") and array.dtype == kind


def _standardisation(mean: NDArray[np.float64], std: NDArray[np.float64]) -> tuple[float, float]:
    """One shift and one scale for all arms: overall mean and root mean square deviation."""
    shift = float(mean.mean())
    scale = float(np.sqrt(np.mean(std**2 + (mean - shift) ** 2)))
    return shift, scale if scale > 0 else 1.0


def _denoiser_skeleton(recipe: Mapping[str, Any], n_arms: int) -> Denoiser:
    """A denoiser of the right shape whose arrays are yet to be filled in."""
    kind = recipe["kind"]
    unit = Gaussian(np.zeros(n_arms), np.eye(n_arms))
    if kind == "network":
        network: Denoiser = eqx.filter_eval_shape(
            lambda: build_denoiser(
                recipe["network"],
                n_arms,
                predicts=recipe["predicts"],
                compute=recipe.get("compute", "float32"),
                base=unit if recipe["predicts"] == "residual" else None,
                **recipe["options"],
            )
        )
        return network
    if kind == "gaussian":
        return GaussianDenoiser(unit)
    if kind == "mixture":
        count = int(recipe["components"])
        means, spreads = np.zeros((count, n_arms)), np.tile(np.eye(n_arms), (count, 1, 1))
        return MixtureDenoiser(GaussianMixture(np.full(count, 1 / count), means, spreads))
    raise ValueError(f"unknown kind of denoiser {kind!r}")
