"""Where the work is done: learn the priors that are missing, play the runs that are missing.

Experiments ask for runs; many ask for the same ones. What can go side by side does: trainings of
one network, simulations of one kind of policy.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from diffts.bandits.actions import Actions, ShortestPath
from diffts.bandits.policies import Ingredients, Policy, make_policy
from diffts.bandits.simulate import simulate_side_by_side
from diffts.diffusion.exact import GaussianMixture
from diffts.diffusion.prior import DiffusionPrior
from diffts.experiments.compare import as_known
from diffts.learning import FactorFit, Lesson, Progress, calibrate, fit_start, learn_priors
from diffts.learning.fits import fit_diagonal, fit_gaussian, fit_mixture
from diffts.problems import Bidding, get_problem
from diffts.problems.maze import three_covering_paths
from diffts.reproduction.digests import KNOWN, digest, fingerprint, sampler_versions
from diffts.reproduction.profile import Profile
from diffts.reproduction.specs import (
    APPENDIX,
    ARMS,
    CALIBRATED_ON_EXACT,
    DATA,
    MANY,
    THREE_PATHS,
    PriorSpec,
    Run,
    in_digests,
    mixture_name,
    plan_for,
    units_for,
)
from diffts.reproduction.store import Arrays, Made, Part, Store
from diffts.stacking import layout

SEED = 0  # of tasks and corruption; a run's own seed is added for its rewards
TEST_SEED = 1811  # of the evaluation's test tasks: nobody has looked at them before
MANY_TASKS = 400  # of them in all
#: Rounds that are kept of all of them; of the first ones, all recorded rounds.
LATE_ROUNDS = (40, 100, 300, 1000)
UCBS = ("ucb1", THREE_PATHS)  # they learn nothing from past tasks
MIN_PRICES = 50  # real ad slots with fewer prices are left out
FITS_VERSION = 1  # to be raised when a fit of the baselines or of the factor Gaussian changes
#: Of mixtures of exact tasks: on development tasks the best on Bidding, as good as any on Popular
#: and Niche (``python -m benchmarks.mixtures``); not measured on Labeled Arms.
REGULARISATION = 1e-3
#: Versions of the policies that play sets of arms (mazes), to be raised, by hand, when what they
#: play or recommend changes. 2: posteriors of Gaussians and mixtures in full precision; DiffTS
#: recommends by a posterior mean.
SETS_VERSIONS = {"gts-full": 2, "gmmts": 2, "diffts": 2}
#: Likewise of the default rule, where actions are sets. 2: an arm counts by its moments.
DEFAULT_RULE_ON_SETS = 2

#: Told a line about the work, the parts that are finished and how many there are.
Report = Callable[[str, int, int], None]


class ProblemData:
    """A problem, its tasks, what is known of them, and the baselines' fits to that."""

    def __init__(self, name: str, profile: Profile, store: Store) -> None:
        self.problem, self.store = get_problem(name), store
        self.actions = self.problem.actions
        train, calibration, test = profile.sizes or (None, None, None)
        self.sets = self.problem.split(train, calibration, test, seed=SEED)
        self.fingerprints = {name: fingerprint(of) for name, of in self.sets._asdict().items()}
        self.profile = profile
        #: Test tasks of the evaluation, 'fresh' or 'many'.
        self.fresh = cache(self._fresh)

    def _fresh(self, name: str) -> NDArray[Any]:
        """Test tasks of the evaluation ``(N, K)``: of a seed that nothing else has."""
        many = 2 * self.few_tasks if self.profile.tiny else MANY_TASKS
        tasks: NDArray[Any] = self.problem.split(1, 1, many, seed=TEST_SEED).test
        return tasks if name == MANY else tasks[: self.few_tasks]

    @property
    def few_tasks(self) -> int:
        """As many test tasks as the paper has."""
        return self.profile.sizes[2] if self.profile.sizes else self.problem.default_sizes[2]

    def past(self, data: str) -> tuple[Any, Any]:
        """What is known of training and calibration tasks; the same values every time."""
        return as_known(self.sets, DATA[data], SEED)

    def digest(self, data: str, *sets: str) -> str:
        """What is learned from: the problem's law, some of its tasks, how they are observed."""
        seen, corruption = {name: self.fingerprints[name] for name in sets}, DATA[data]
        version = None if corruption is None else corruption.version
        return digest(self.problem.name, self.problem.version, seen, corruption, version)

    def mixture(self, data: str, components: int, seed: int | None = None) -> GaussianMixture:
        """The mixture fitted to the training tasks; kept, since it can take minutes.

        With a seed that of the evaluation, with its regularisation; without, the older published
        one.
        """
        share = 1e-6 if seed is None or DATA[data] else REGULARISATION

        def fit() -> Made:
            past = self.past(data)[0]
            mixture = fit_mixture(past, components, seed or SEED, regularisation=share)
            large = {"means": mixture.means, "triangles": _triangles(mixture.covariances)}
            single = {name: values.astype(np.float32) for name, values in large.items()}
            return Made({}, {}, [{"weights": mixture.weights} | single])

        _, arrays = self._fitted(data, mixture_name(components, seed), fit)
        if "triangles" in arrays:  # fits kept by earlier versions have whole covariances
            arrays["covariances"] = _symmetric(arrays.pop("triangles"), arrays["means"].shape[1])
        return GaussianMixture(**arrays)

    def factors(self, data: str) -> FactorFit:
        """The factor Gaussian that our procedure starts from; kept like the mixtures."""

        def fit() -> Made:
            fitted = fit_start(*self.past(data))
            return Made({}, {"rank": fitted.rank}, [fitted._asdict()])

        _, arrays = self._fitted(data, "factors", fit)
        if "loadings" not in arrays:  # kept by an earlier version, which did not keep the factors
            return fit_start(*self.past(data))
        return FactorFit(**arrays)

    def below(self, data: str) -> FactorFit:
        """The Gaussian below our network; kept like the mixtures."""

        def fit() -> Made:
            how = plan_for(self.problem.name, self.profile, ARMS).procedure
            fitted = fit_start(*self.past(data), how)
            return Made({}, {"rank": fitted.rank}, [fitted._asdict()])

        return FactorFit(**self._fitted(data, "below", fit)[1])

    def _fitted(self, data: str, what: str, fit: Callable[[], Made]) -> tuple[Any, Arrays]:
        part = self.fit_part(data, what)
        self.store.ensure([part], lambda: [fit()])
        return self.store.note(part.key), self.store.arrays(part.apart[0])

    def fit_part(self, data: str, what: str) -> Part:
        """The place of a fit; how long it took is kept apart, since fits are large."""
        name, problem = f"{data}-{what}-v{FITS_VERSION}", self.problem.name
        fitted_to = self.digest(data, "train", "calibration")
        if "-seed" in what and DATA[data] is None:
            fitted_to = digest(fitted_to, REGULARISATION)
        return Part(f"{problem}/times/fit-{name}", fitted_to, (f"{problem}/fits/{name}",))


class Reproduction:
    """A store of finished parts, and how to make the others.

    ``data_dir`` has real data (``mnist``, ``fashion_mnist``, ``ipinyou_slots``), if there is one.
    """

    def __init__(
        self,
        profile: Profile,
        store: Store,
        data_dir: Path | None = None,
        report: Report = lambda *_: None,
    ) -> None:
        self.profile, self.store, self.data_dir = profile, store, data_dir
        self._report, self.done, self.total = report, 0, 0
        #: A problem with its data, by name.
        self.problem = cache(lambda name: ProblemData(name, profile, store))

    def report(self, line: str) -> None:
        """Say what is being done."""
        self._report(line, self.done, max(self.done, self.total))

    def tell(self, name: str, now: Progress) -> None:
        """Say how far training is."""
        score = "" if np.isnan(now.score) else f", held-out CRPS {now.score:.4g}"
        self.report(f"{name}: {now.phase} {now.done}/{now.steps}{score}")

    # --- priors --------------------------------------------------------------------------------

    def prior(self, spec: PriorSpec) -> DiffusionPrior:
        """A diffusion prior, learned if it is missing."""
        self.learn([spec])
        return self.store.prior(self.prior_part(spec).apart[0])

    def prior_part(self, spec: PriorSpec) -> Part:
        """Its place, and the digest of how it is learned: changed, it is learned anew."""
        data, plan = self.problem(spec.problem), plan_for(spec.problem, self.profile, spec.learner)
        made_from = digest(
            in_digests(plan.network_for(data.problem)),
            plan.config if spec.is_exact and spec.learner != ARMS else plan.procedure.settings(),
            spec.learner in CALIBRATED_ON_EXACT,
            data.digest(spec.data, "train", "calibration"),
            FITS_VERSION,
            self.profile.sizes,
            sampler_versions(() if spec.is_exact else plan.procedure.samplers),
            *([] if (units := units_for(spec.learner)) is None else [units]),
        )
        return Part(spec.key, made_from, (f"{spec.problem}/priors/{spec.name}",))

    def learn(self, specs: Iterable[PriorSpec]) -> None:
        """Learn the priors that are not in the store."""
        groups = defaultdict(list)
        for spec in self._unlearned(specs):
            # Ours and the paper's train differently, so nothing is gained side by side; and a
            # killed run keeps what was finished.
            kind = spec.learner if spec.learner in ("ours", ARMS, APPENDIX) else "paper"
            groups[spec.problem, spec.is_exact, kind].append(spec)
        for wanted in groups.values():
            kinds = ", ".join(sorted({f"{spec.data} data ({spec.learner})" for spec in wanted}))
            name = wanted[0].problem
            self.report(f"{name}: learning from {kinds}; {len(wanted)} side by side")
            parts = [self.prior_part(spec) for spec in wanted]
            self.store.ensure(parts, partial(self._learn, wanted))
            self.done += len(wanted)

    def _unlearned(self, specs: Iterable[PriorSpec]) -> list[PriorSpec]:
        return [spec for spec in sorted(set(specs)) if not self.store.has(self.prior_part(spec))]

    def _learn(self, wanted: Sequence[PriorSpec]) -> list[Made]:
        data = self.problem(wanted[0].problem)
        lessons = []
        for spec in wanted:
            plan = plan_for(spec.problem, self.profile, spec.learner)
            how: dict[str, Any] = {"units": units_for(spec.learner)}
            if spec.learner == ARMS:
                how |= {"procedure": plan.procedure, "start": data.below(spec.data)}
            elif spec.is_exact:
                how |= {"config": plan.config}
            else:
                start = data.factors(spec.data) if spec.fit else None
                how |= {"procedure": plan.procedure, "start": start}
            lessons.append(Lesson(*data.past(spec.data), seed=spec.seed, **how))
        tell = partial(self.tell, data.problem.name)
        priors = learn_priors(lessons, on_progress=tell, **plan.network_for(data.problem))
        made = []
        for spec, prior in zip(wanted, priors, strict=True):
            if spec.learner in CALIBRATED_ON_EXACT:
                tau = exact_errors(prior, data.sets.calibration, spec.seed + 1)
                prior = prior.with_errors(tau, calibrated_on="exact tasks")
            made.append(Made({}, {}, [prior]))
        return made

    # --- runs ----------------------------------------------------------------------------------

    def run_part(self, run: Run) -> Part:
        """Its place, and the digest of all that its result follows from."""
        data = self.problem(run.problem)
        if run.prior:
            learned = self.prior_part(run.prior).digest
        else:  # UCB1 learns nothing from past tasks
            past = data.digest(run.data, *([] if run.policy in UCBS else ["train"]))
            learned = digest(run.policy, past, FITS_VERSION, self.profile.sizes)
            if run.fit_seed is not None and DATA[run.data] is None:
                learned = digest(learned, REGULARISATION)
        tasks = self._tasks_fingerprint(run)
        samplers = sampler_versions([run.sampler] if run.prior else [])
        kind = "gmmts" if run.components else run.policy
        version = 1 if data.actions.single_arm else SETS_VERSIONS.get(kind, 1)
        how: list[Any] = [one for one in (run.rule, run.noise) if one not in ("thompson", "")]
        if not data.actions.single_arm and run.rule == "default":
            how.append(DEFAULT_RULE_ON_SETS)
        played = digest(learned, tasks, samplers, *([version] if version > 1 else []), *how)
        return Part(run.key, f"{played}-rewards{run.seed}" if run.seed else played)

    def is_played(self, run: Run) -> bool:
        """Whether a run is in the store, made as it would be made today."""
        return self.store.has(self.run_part(run))

    def rests_on(self, made: Run | PriorSpec) -> list[str]:
        """Notes of all that it took: of itself, and of what was learned or fitted for it."""
        keys = [made.key]
        if made.fit:
            keys.append(self.problem(made.problem).fit_part(made.data, made.fit).key)
        if isinstance(made, Run) and made.prior:
            keys += self.rests_on(made.prior)
        return keys

    def play(self, runs: Iterable[Run], others: int = 0) -> None:
        """Play the runs that are not in the store, after learning the priors they need.

        ``others`` are parts to come after that: they are counted with what is ahead.
        """
        missing = [run for run in sorted(set(runs)) if not self.is_played(run)]
        priors = self._unlearned(run.prior for run in missing if run.prior)
        self.total += len(missing) + len(priors) + others
        for problem in sorted({run.problem for run in missing}):
            jax.clear_caches()  # other shapes from here on: the old programs only take memory
            self.learn(spec for spec in priors if spec.problem == problem)
            alike: dict[Any, list[tuple[Run, Policy]]] = defaultdict(list)
            for run in (run for run in missing if run.problem == problem):
                policy = self._policy(run)
                alike[run.tasks, run.starts_its_own_way, layout(policy)].append((run, policy))
            for members in alike.values():
                chosen = [run for run, _ in members]
                kinds = ", ".join(sorted({run.policy for run in chosen}))
                self.report(f"{problem}: {kinds}, {len(members)} runs side by side")
                parts = [self.run_part(run) for run in chosen]
                self.store.ensure(parts, partial(self._play, members))
                self.done += len(members)

    def _play(self, members: Sequence[tuple[Run, Policy]]) -> list[Made]:
        first = members[0][0]
        data, horizon = self.problem(first.problem), self.profile.horizons[first.problem]
        played = simulate_side_by_side(
            [policy for _, policy in members],
            self._tasks(first),
            data.problem.rewards,
            horizon=horizon,
            actions=self._actions(first),
            record_every=max(1, horizon // self.profile.records),
            seeds=[SEED + run.seed for run, _ in members],
            advice=not first.is_fresh,  # which takes many draws
        )
        made = []
        for (run, _), one in zip(members, played, strict=True):
            regrets: Arrays = {"regret": one.regret, "simple_regret": one.simple_regret}
            if run.is_fresh:
                regrets = {"regret": one.regret[:, : data.few_tasks]}
            if run.tasks == MANY:
                late = np.unique(np.searchsorted(one.rounds, np.minimum(LATE_ROUNDS, horizon)))
                regrets |= {"late_rounds": one.rounds[late], "late_regret": one.regret[late]}
            arrays = {name: _coarse(values, run) for name, values in regrets.items()}
            made.append(Made({"rounds": one.rounds} | arrays, {"run": dataclasses.asdict(run)}))
        return made

    def _tasks(self, run: Run) -> NDArray[Any]:
        data = self.problem(run.problem)
        if run.is_fresh:
            return data.fresh(run.tasks)
        return data.sets.test if run.tasks == "test" else self._real_tasks()

    def _tasks_fingerprint(self, run: Run) -> str:
        data = self.problem(run.problem)
        if run.is_fresh:
            return fingerprint(data.fresh(run.tasks))
        return data.fingerprints["test"] if run.tasks == "test" else self._real_fingerprint

    def _policy(self, run: Run) -> Policy:
        data = self.problem(run.problem)
        given = Ingredients(
            actions=data.actions,
            noise=run.noise or run.noise_std,
            prior=lambda: self.prior(run.prior),  # type: ignore[arg-type]
            gaussian=lambda: fit_gaussian(data.past(run.data)[0]),
            diagonal=lambda: fit_diagonal(data.past(run.data)[0]),
            mixture=partial(data.mixture, run.data, seed=run.fit_seed),
            sampler=run.sampler,
            steps=self.profile.chain,
            variance=run.variance,
        )
        by_rule = "" if run.rule == "thompson" else f":{run.rule}"
        name = "ucb1" if run.starts_its_own_way else run.policy
        return make_policy(f"{name}{by_rule}", given)

    def _actions(self, run: Run) -> Actions:
        actions = self.problem(run.problem).actions
        if run.starts_its_own_way:
            assert isinstance(actions, ShortestPath)
            return ShortestPath(actions.height, actions.width, start=three_covering_paths())
        return actions

    # --- real ad slots -------------------------------------------------------------------------

    @cached_property
    def real_slots(self) -> Bidding | None:
        """Bidding on real ad slots, where the user has their table."""
        if self.data_dir is None:
            return None
        table = self.data_dir / "ipinyou_slots" / "merged_slot_prices.csv"
        return Bidding.from_logs(table, MIN_PRICES) if table.exists() else None

    @property
    def has_real_slots(self) -> bool:
        """Whether there are real slots, or runs on them in the store."""
        return bool(self.real_slots or any(self.store.folder.glob("bidding/runs/*-real.npz")))

    @cached_property
    def _real_fingerprint(self) -> str:
        """Of the user's table; without one, of that of the published results."""
        rates = self.real_slots.win_rates if self.real_slots else None
        return KNOWN["real slots"] if rates is None else fingerprint(rates)

    def _real_tasks(self) -> NDArray[Any]:
        real = self.real_slots
        assert real is not None
        assert real.win_rates is not None
        count = self.profile.sizes[2] if self.profile.sizes else len(real.win_rates)
        return real.sample(count, seed=SEED)


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


def _coarse(values: NDArray[Any], run: Run) -> NDArray[Any]:
    """Single precision; of the evaluation 11 bits of it (errors of 0.02%), which pack well."""
    if values.dtype.kind == "i":
        return values
    single = values.astype(np.float32)
    if run.is_fresh:
        bits = single.view(np.uint32)
        single = ((bits + 0x800) & np.uint32(0xFFFFF000)).view(np.float32)
    return single


def exact_errors(prior: DiffusionPrior, exact: Any, seed: int) -> NDArray[Any]:
    """The errors τ ``(L, K)`` of a prior's denoiser on exact tasks ``(N, K)``."""
    standard = prior.units.standard(np.asarray(exact))
    return np.asarray(calibrate(prior.denoiser, standard, schedule=prior.schedule, seed=seed))
