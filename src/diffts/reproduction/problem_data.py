"""A problem as experiments see it: its tasks, what is known of them, and the fits to that."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffts.diffusion.exact import GaussianMixture
from diffts.experiments.compare import as_known
from diffts.learning import ArmProcedure, FactorFit, fit_start
from diffts.learning.fits import fit_mixture
from diffts.problems import get_problem
from diffts.reproduction.digests import digest, fingerprint
from diffts.reproduction.profile import Profile
from diffts.reproduction.specs import DATA, MANY, mixture_name, plan_for
from diffts.reproduction.store import Arrays, Made, Part, Store

SEED = 0  # of past tasks and corruption; a run's own seed is added for its rewards
TEST_SEED = 1811  # of test tasks: nothing else draws from it
MANY_TASKS = 400  # of them in all
FITS_VERSION = 1  # to be raised when a fit of the baselines or of the factor Gaussian changes
#: Of mixtures of exact tasks: on development tasks the best on Bidding, as good as any on Popular
#: and Niche (``python -m benchmarks.mixtures``); not measured on Labeled Arms.
REGULARISATION = 1e-3
_LEAST_REGULARISATION = 1e-6  # of those of imperfect data


class ProblemData:
    """A problem, its tasks, what is known of them, and the baselines' fits to that."""

    def __init__(self, name: str, profile: Profile, store: Store) -> None:
        self.problem, self.store, self.profile = get_problem(name), store, profile
        self.actions = self.problem.actions
        train, calibration, _ = profile.sizes or self.problem.default_sizes
        self.sets = self.problem.split(train, calibration, 1, seed=SEED)  # it tests on others
        self.fingerprints = {
            name: fingerprint(getattr(self.sets, name)) for name in ("train", "calibration")
        }
        #: Test tasks, 'fresh' or 'many'.
        self.test = cache(self._test)

    def _test(self, name: str) -> NDArray[Any]:
        """Test tasks ``(N, K)``: of a seed that nothing else has."""
        many = 2 * self.few_tasks if self.profile.tiny else MANY_TASKS
        tasks: NDArray[Any] = self.problem.split(1, 1, many, seed=TEST_SEED).test
        return tasks if name == MANY else tasks[: self.few_tasks]

    @property
    def few_tasks(self) -> int:
        """As many test tasks as the paper has."""
        return (self.profile.sizes or self.problem.default_sizes)[2]

    def past(self, data: str) -> tuple[Any, Any]:
        """What is known of training and calibration tasks; the same values every time."""
        return as_known(self.sets, DATA[data], SEED)

    def digest(self, data: str, *sets: str) -> str:
        """What is learned from: the problem's law, some of its tasks, how they are observed."""
        seen, corruption = {name: self.fingerprints[name] for name in sets}, DATA[data]
        version = None if corruption is None else corruption.version
        return digest(self.problem.name, self.problem.version, seen, corruption, version)

    def mixture(self, data: str, components: int, seed: int) -> GaussianMixture:
        """The mixture fitted to the training tasks; kept, since it can take minutes."""

        def fit() -> Made:
            share = _LEAST_REGULARISATION if DATA[data] else REGULARISATION
            mixture = fit_mixture(self.past(data)[0], components, seed, regularisation=share)
            large = {"means": mixture.means, "triangles": _triangles(mixture.covariances)}
            single = {name: values.astype(np.float32) for name, values in large.items()}
            return Made({}, {}, [{"weights": mixture.weights} | single])

        arrays = self._fitted(data, mixture_name(components, seed), fit)
        size = arrays["means"].shape[1]
        arrays["covariances"] = _symmetric(arrays.pop("triangles"), size)
        return GaussianMixture(**arrays)

    def below(self, data: str) -> FactorFit:
        """The Gaussian below our network; kept like the mixtures."""

        def fit() -> Made:
            fitted = fit_start(*self.past(data), self._ours)
            return Made({}, {"rank": fitted.rank}, [fitted._asdict()])

        return FactorFit(**self._fitted(data, "below", fit))

    @property
    def _ours(self) -> ArmProcedure:
        """How our network learns here."""
        procedure = plan_for(self.problem.name, self.profile).procedure
        assert isinstance(procedure, ArmProcedure)
        return procedure

    def _fitted(self, data: str, what: str, fit: Callable[[], Made]) -> Arrays:
        part = self.fit_part(data, what)
        self.store.ensure([part], lambda: [fit()])
        return self.store.arrays(part.apart[0])

    def fit_part(self, data: str, what: str) -> Part:
        """The place of a fit; how long it took is kept apart, since fits are large."""
        name, problem = f"{data}-{what}-v{FITS_VERSION}", self.problem.name
        fitted_to = self.digest(data, "train", "calibration")
        if what == "below":
            fitted_to = digest(fitted_to, self._ours.most_factors)
        elif DATA[data] is None:
            fitted_to = digest(fitted_to, REGULARISATION)
        return Part(f"{problem}/times/fit-{name}", fitted_to, (f"{problem}/fits/{name}",))


def _triangles(matrices: NDArray[Any]) -> NDArray[Any]:
    """The lower triangles of symmetric matrices ``(n, K, K)``, as rows: half of the numbers."""
    rows, columns = np.tril_indices(matrices.shape[1])
    triangles: NDArray[Any] = matrices[:, rows, columns]
    return triangles


def _symmetric(triangles: NDArray[Any], size: int) -> NDArray[Any]:
    """The matrices ``(n, K, K)`` again."""
    matrices = np.zeros((len(triangles), size, size), triangles.dtype)
    rows, columns = np.tril_indices(size)
    matrices[:, rows, columns] = triangles
    matrices[:, columns, rows] = triangles
    return matrices
