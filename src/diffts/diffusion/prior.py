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

from diffts.chunks import in_host_chunks
from diffts.diffusion.denoiser import Denoiser
from diffts.diffusion.exact import Gaussian, GaussianMixture
from diffts.diffusion.exact_denoisers import (
    GaussianDenoiser,
    MixtureDenoiser,
    gaussian_tau,
    mixture_tau,
)
from diffts.diffusion.networks import build_denoiser
from diffts.diffusion.networks.arm_network import arm_skeleton
from diffts.diffusion.observation import ConditionalDenoiser, Marginals, Observation
from diffts.diffusion.posterior import (
    VARIANCE_MODES,
    PosteriorSampler,
    as_sampler,
    draw,
    reverse_steps,
)
from diffts.diffusion.schedule import Schedule
from diffts.diffusion.units import Units
from diffts.errors import ArtifactError, InvalidInputError
from diffts.evidence import Evidence
from diffts.seeding import KeyArray, Seed, as_key
from diffts.storage import load_folder, named_arrays, save_folder, with_arrays
from diffts.validation import finite_array, one_of, whole_number

_KIND, _VERSION = "diffts.prior", 2


class _Note:
    """JSON that goes with a prior and is no part of what it computes.

    All notes are equal: priors with different ones can be stacked, and share compiled programs.
    (So a prior that comes out of ``jit`` or of a stack has the note of the first one.)
    """

    def __init__(self, content: Mapping[str, Any]) -> None:
        try:
            self.text = json.dumps(dict(content), sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"metadata: not plain JSON ({error})") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Note)

    def __hash__(self) -> int:
        return hash(_Note)


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
    _note: _Note = eqx.field(static=True)

    def __init__(
        self,
        denoiser: Denoiser,
        tau: ArrayLike,
        *,
        schedule: Schedule | None = None,
        units: Units | None = None,
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
        self.tau = jnp.asarray(errors, jnp.float32)
        shift, scale, low, high = map(float, Units(0.0, 1.0) if units is None else units)
        if not (np.isfinite(shift) and np.isfinite(scale) and scale > 0 and low < high):
            raise InvalidInputError(
                f"units: shift and scale must be finite, scale above 0, low below high; got {units}"
            )
        self.shift, self.scale = jnp.float32(shift), jnp.float32(scale)
        self.low, self.high = jnp.float32(low), jnp.float32(high)
        self._note = _Note(metadata or {})

    @staticmethod
    def gaussian(
        mean: ArrayLike, covariance: ArrayLike, schedule: Schedule | None = None
    ) -> DiffusionPrior:
        """The exact diffusion prior of ``N(mean, covariance)``: closed-form denoiser and τ."""
        given = GaussianMixture.of(Gaussian(mean, covariance))
        schedule = Schedule.linear() if schedule is None else schedule
        denoiser = GaussianDenoiser(given.standardised(given.units).components[0])
        tau = gaussian_tau(denoiser, schedule)
        return DiffusionPrior(denoiser, tau, schedule=schedule, units=given.units)

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
        standard = given.standardised(given.units)
        denoiser = MixtureDenoiser(standard)
        tau = mixture_tau(denoiser, standard, schedule)
        return DiffusionPrior(denoiser, tau, schedule=schedule, units=given.units)

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
        more = self.metadata | metadata
        return DiffusionPrior(
            self.denoiser, tau, schedule=self.schedule, units=self.units, metadata=more
        )

    @property
    def metadata(self) -> dict[str, Any]:
        """What the maker of this prior wanted to be remembered with it (plain JSON)."""
        content: dict[str, Any] = json.loads(self._note.text)
        return content

    @property
    def reconstruction_error(self) -> NDArray[np.float32]:
        """``τ_1 … τ_L`` in the user's units, ``(L, K)``."""
        return np.asarray(self.tau * self.scale)

    def sample(self, n: int, seed: Seed = 0, *, steps: int | None = None) -> NDArray[np.float32]:
        """``n`` draws from the prior, ``(n, K)``."""
        n = whole_number("n", n, 1)
        return self.posterior_sample(Evidence.none(self.n_arms), n=n, steps=steps, seed=seed)

    def draw(
        self,
        key: KeyArray,
        evidence: Evidence,
        *,
        sampler: str | PosteriorSampler | None = None,
        steps: int | None = None,
        variance: str = "calibrated",
        chain: bool = False,
    ) -> Float[Array, "*chain K"]:
        """One draw for one task ``(K,)``, for use inside ``jit``, ``vmap`` and ``scan``.

        Everything that samples calls this. :meth:`posterior_sample` is it for people: for batches
        and several draws, with the same further arguments.
        """
        chosen, steps = self.how_to_draw(sampler, steps)
        reverse = reverse_steps(self.schedule, self.tau, steps, variance, chosen.lateness)
        units, standard = self.units, self.units.standardise(evidence)
        return units.restore(
            draw(chosen, key, self.denoiser, reverse, standard, units.limits, chain)
        )

    def how_to_draw(
        self, sampler: str | PosteriorSampler | None = None, steps: int | None = None
    ) -> tuple[PosteriorSampler, int]:
        """Sampler and length of its chain; where None is given, what suits the denoiser."""
        longest = self.schedule.n_steps
        own = as_sampler(self.denoiser.default_sampler)
        chosen = own if sampler is None else as_sampler(sampler)
        # Chains of the denoiser's own sampler, however it is spaced, are as short as it says.
        default = self.denoiser.default_steps if isinstance(chosen, type(own)) else None
        if steps is not None:
            return chosen, whole_number("steps", steps, 1, longest)
        return chosen, longest if default is None else min(default, longest)

    def marginals(self, evidence: Evidence) -> Marginals | None:
        """What is thought of each arm of one task, without any draw; for use inside ``jit``.

        In the user's units; None where the denoiser takes no evidence as noise.
        """
        if not isinstance(self.denoiser, ConditionalDenoiser):
            return None
        units, standard = self.units, self.units.standardise(evidence)
        # What was seen beyond the limits counts as their edge for all other arms, and as itself for
        # its own: as in a chain of draws.
        edge = units.limits.of_estimate(standard.mean)
        seen = Evidence(edge, standard.std, standard.mask)
        answer = self.denoiser.given(Observation.of_evidence(seen)).clipped(*units.limits)
        beyond = jnp.where(standard.mask, standard.mean - edge, 0.0)
        return answer.shifted(beyond).scaled(units.shift, units.scale)

    def posterior_sample(
        self,
        evidence: Evidence,
        n: int | None = None,
        *,
        steps: int | None = None,
        sampler: str | PosteriorSampler | None = None,
        variance: str = "calibrated",
        chain: bool = False,
        seed: Seed = 0,
    ) -> NDArray[np.float32]:
        """Draws of the mean rewards given the evidence, in the user's units.

        Args:
            evidence: observations of one task ``(K,)`` or of a batch of tasks ``(*batch, K)``.
            n: draws for each task; by default one, without an axis for it.
            steps: length of the reverse chain, at most L; shorter is faster and less exact.
            sampler: a name in ``diffts.diffusion.SAMPLERS`` ('paper', 'moment', …) or a sampler; by
                default what suits the denoiser: 'merged' for network 'arms', else 'paper'.
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
        chosen, steps = self.how_to_draw(sampler, steps)
        how = {"sampler": chosen, "steps": steps, "variance": variance}
        tasks: Evidence = jax.tree.map(
            lambda leaf: np.asarray(leaf).reshape(-1, self.n_arms), evidence
        )
        count, key = len(tasks.mean), as_key(seed)
        if not count:
            raise InvalidInputError(f"evidence: no task in it, shape {evidence.mean.shape}")

        def draw_rows(row: NDArray[np.int64]) -> Float[Array, "rows *chain K"]:
            of_task: Evidence = jax.tree.map(lambda leaf: leaf[row % count], tasks)
            return _draw_rows(self, key, row, of_task, how | {"chain": chain})

        values: Any = in_host_chunks(draw_rows, draws_each * count, self.n_arms)
        shape = (*evidence.batch_shape, *values.shape[1:])
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
            arrays = _with_weights_as(np.float16, arrays)
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
            arrays = _with_weights_as(np.float32, arrays)
        # Format 1 had no limits: those of the skeleton are infinite.
        unlimited = {".low": np.asarray(skeleton.low), ".high": np.asarray(skeleton.high)}
        return with_arrays(skeleton, unlimited | arrays, str(directory))


@eqx.filter_jit
def _draw_rows(
    prior: DiffusionPrior, key: KeyArray, row: Any, evidence: Evidence, how: dict[str, Any]
) -> Float[Array, "rows *chain K"]:
    """A draw for each row of evidence.

    Row ``i`` has the key ``fold_in(key, i)``: it does not depend on how rows were padded or cut
    into chunks, nor on how many there are.
    """

    def one(number: Any, of_task: Evidence) -> Float[Array, "*chain K"]:
        return prior.draw(jax.random.fold_in(key, number), of_task, **how)

    return jax.vmap(one)(jnp.asarray(row), evidence)


#: Where a network's weights are: of a :class:`NetworkDenoiser`, and of an :class:`ArmDenoiser`.
_WEIGHTS = (
    ".denoiser.network",
    *(f".denoiser.{name}" for name in ("over", "first", "second", "third")),
)


def _with_weights_as(
    kind: type[np.floating[Any]], arrays: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """The arrays, with the network's weights in another precision."""
    networks = {name: a for name, a in arrays.items() if name.startswith(_WEIGHTS)}
    return {**arrays, **{n: a.astype(kind) for n, a in networks.items() if a.dtype.kind == "f"}}


def _denoiser_skeleton(recipe: Mapping[str, Any], n_arms: int) -> Denoiser:
    """A denoiser of the right shape whose arrays are yet to be filled in."""
    kind = recipe["kind"]
    unit = Gaussian(np.zeros(n_arms), np.eye(n_arms))
    if kind == "network":
        options = dict(recipe["options"])
        # U-Nets could once be given the values of pixels that are no arms; most were not.
        if options.pop("background", None) is not None:
            raise ValueError("a U-Net with a background, which is no longer read")
        network: Denoiser = eqx.filter_eval_shape(
            lambda: build_denoiser(
                recipe["network"],
                n_arms,
                predicts=recipe["predicts"],
                compute=recipe.get("compute", "float32"),
                base=unit if recipe["predicts"] == "residual" else None,
                **options,
            )
        )
        return network
    if kind == "arms":
        arms: Denoiser = eqx.filter_eval_shape(lambda: arm_skeleton(n_arms, **recipe["options"]))
        return arms
    if kind == "gaussian":
        return GaussianDenoiser(unit)
    if kind == "mixture":
        count = int(recipe["components"])
        means, spreads = np.zeros((count, n_arms)), np.tile(np.eye(n_arms), (count, 1, 1))
        return MixtureDenoiser(GaussianMixture(np.full(count, 1 / count), means, spreads))
    raise ValueError(f"unknown kind of denoiser {kind!r}")
