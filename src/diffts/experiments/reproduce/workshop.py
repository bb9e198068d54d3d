"""Where the work is done: learn the priors that are missing, play the runs that are missing.

Experiments ask for runs; many ask for the same ones. What can go side by side does: trainings of
one network, simulations of one kind of policy.
"""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

from diffts.bandits.policies import Ingredients, Policy, make_policy
from diffts.bandits.simulate import simulate_side_by_side
from diffts.diffusion.exact import Gaussian, GaussianMixture
from diffts.diffusion.prior import DiffusionPrior
from diffts.experiments.compare import Race
from diffts.experiments.reproduce.fingerprints import KNOWN, fingerprint
from diffts.experiments.reproduce.profile import Profile
from diffts.experiments.reproduce.recipes import (
    CALIBRATED_ON_EXACT,
    FITS_VERSION,
    digest_of,
    digest_of_baseline,
    digest_of_data,
    digest_of_run,
    policy_version,
    procedure_for,
    recipe_for,
)
from diffts.experiments.reproduce.runs import DATA, Learned, Run
from diffts.experiments.reproduce.store import Arrays, Store
from diffts.learning import (
    FactorFit,
    Lesson,
    calibrate,
    fit_start,
    learn_priors,
    learn_priors_imperfect,
)
from diffts.problems import Bidding, ImperfectSets, Problem, TaskSets, corrupt, get_problem
from diffts.stacking import layout

SEED = 0  # of tasks and corruption; a run's own seed is added for its rewards
MIN_PRICES = 50  # real ad slots with fewer prices are left out

#: Told a line about the work, the parts that are finished and how many there are.
Report = Callable[[str, int, int], None]


class Workshop:
    """A store of finished parts, and how to make the others.

    Args:
        profile: sizes.
        store: where finished parts are.
        data_dir: folder with real data (``mnist``, ``fashion_mnist``, ``ipinyou_slots``), or None.
        report: called with each piece of work.
    """

    def __init__(
        self, profile: Profile, store: Store, data_dir: Path | None, report: Report
    ) -> None:
        self.profile, self.store, self.data_dir = profile, store, data_dir
        self._report, self._done, self._total = report, 0, 0
        self._fields: dict[str, _Field] = {}

    def report(self, line: str) -> None:
        """Say what is being done."""
        self._report(line, self._done, max(self._done, self._total))

    def expect(self, runs: Iterable[Run], others: int) -> None:
        """Count what is ahead: missing runs, missing priors and so many other parts."""
        missing = {run for run in runs if not self.is_played(run)}
        priors = {run.learned for run in missing if run.learned is not None}
        unlearned = [prior for prior in priors if not self.is_learned(prior)]
        self._total += len(missing) + len(unlearned) + others

    def finished(self, parts: int = 1) -> None:
        """Count parts as done."""
        self._done += parts

    # --- what is asked for ---------------------------------------------------------------------

    def play(self, runs: Iterable[Run]) -> None:
        """Play the runs that are not in the store, after learning the priors they need."""
        missing = defaultdict(list)
        for run in sorted(set(runs)):
            if not self.is_played(run):
                missing[run.problem].append(run)
        for problem, wanted in missing.items():
            jax.clear_caches()  # other shapes from here on: the old programs only take memory
            self.learn(learned for run in wanted if (learned := run.learned))
            for tasks in sorted({run.tasks for run in wanted}):
                self._play(problem, tasks, [run for run in wanted if run.tasks == tasks])

    def learn(self, wanted: Iterable[Learned]) -> None:
        """Learn the priors that are not in the store."""
        by_problem = defaultdict(list)
        for learned in sorted(set(wanted)):
            if not self.is_learned(learned):
                by_problem[learned.problem].append(learned)
        for problem, missing in by_problem.items():
            self._learn_exact(problem, [one for one in missing if DATA[one.data] is None])
            imperfect = [one for one in missing if DATA[one.data] is not None]
            # Ours and the paper's train differently, so nothing is gained side by side; and a
            # killed run keeps what was finished.
            for ours in (True, False):
                chosen = [one for one in imperfect if (one.learner == "ours") == ours]
                self._learn_imperfect(problem, chosen)

    def is_played(self, run: Run) -> bool:
        """Whether a run is in the store, made as it would be made today."""
        return self.has(run.key, self.recipe_of(run))

    def is_learned(self, learned: Learned) -> bool:
        """Whether a prior is in the store, learned by today's recipe."""
        is_there = self.store.has_prior(learned.key)
        return is_there and self.has(learned.time_key, self.digest(learned))

    def digest(self, learned: Learned) -> str:
        """Of the recipe by which a prior is learned."""
        field = self.field(learned.problem)
        return digest_of(
            field.problem, learned.data, learned.learner, self.profile, field.fingerprints
        )

    def recipe_of(self, run: Run) -> str:
        """Of all that a run's result follows from."""
        field = self.field(run.problem)
        played_on = (
            field.fingerprints["test"] if run.tasks == "test" else self._real_slots_fingerprint
        )
        version = policy_version(run.policy, field.problem.actions.single_arm)
        if run.learned is not None:
            learned = self.digest(run.learned)
            return digest_of_run(learned, played_on, [run.sampler], run.seed, version)
        baseline = digest_of_baseline(
            field.problem, run.policy, run.data, self.profile, field.fingerprints
        )
        return digest_of_run(baseline, played_on, (), run.seed, version)

    def has(self, key: str, recipe: str) -> bool:
        """Whether a part is in the store, made by this recipe."""
        return self.store.has(key) and self.store.load(key)[1].get("recipe") == recipe

    def cached(
        self, key: str, recipe: str, make: Callable[[], tuple[Arrays, dict[str, Any]]]
    ) -> tuple[Arrays, dict[str, Any]]:
        """Arrays and note of a part, made if it is missing or of another recipe.

        A note may tell its own ``seconds``, where parts that were made on the way tell theirs.
        """
        if not self.has(key, recipe):
            self.report(key)
            started = time.perf_counter()
            arrays, note = make()
            note = {"seconds": time.perf_counter() - started} | note | {"recipe": recipe}
            self.store.save(key, arrays, note)
        return self.store.load(key)

    def prior(self, learned: Learned) -> DiffusionPrior:
        """A diffusion prior, learned if it is missing."""
        self.learn([learned])
        return self.store.load_prior(learned.key)

    def field(self, problem: str) -> _Field:
        """A problem with its tasks."""
        if problem not in self._fields:
            self._fields[problem] = _Field(get_problem(problem), self.profile, self.store)
        return self._fields[problem]

    @property
    def real_slots(self) -> Path | None:
        """Table of real ad slots, where the user has it."""
        table = (
            self.data_dir / "ipinyou_slots" / "merged_slot_prices.csv" if self.data_dir else None
        )
        return table if table is not None and table.exists() else None

    @property
    def has_real_runs(self) -> bool:
        """Whether runs on real slots are in the store."""
        return any(self.store.folder.glob("bidding/runs/*-real.npz"))

    # --- learning ------------------------------------------------------------------------------

    def _learn_exact(self, problem: str, wanted: Sequence[Learned]) -> None:
        if not wanted:
            return
        field = self.field(problem)
        recipe = recipe_for(field.problem, self.profile)
        seeds = [learned.seed for learned in wanted]
        self.report(f"{problem}: learning from exact tasks, seeds {seeds}")
        started = time.perf_counter()
        priors = learn_priors(
            field.sets.train,
            field.sets.calibration,
            seeds=seeds,
            config=recipe.training,
            on_block=lambda done: self.report(
                f"{problem}: learning from exact tasks, {done}/{recipe.training.steps} steps"
            ),
            **recipe.network_for(field.problem),
        )
        self._keep(wanted, priors, started)

    def _learn_imperfect(self, problem: str, wanted: Sequence[Learned]) -> None:
        if not wanted:
            return
        field = self.field(problem)
        recipe = recipe_for(field.problem, self.profile)
        names = sorted({f"{one.data} ({one.learner})" for one in wanted})
        self.report(f"{problem}: learning from {', '.join(names)}; {len(wanted)} side by side")
        lessons = [
            Lesson(
                *field.known(one.data),
                procedure_for(field.problem, one.learner, self.profile),
                one.seed,
                field.factors(one.data) if one.learner == "ours" else None,
            )
            for one in wanted
        ]
        started = time.perf_counter()  # the factor Gaussians keep their own time
        priors = learn_priors_imperfect(
            lessons,
            on_progress=lambda now: self.report(
                f"{problem}: {now.phase} {now.done}/{now.steps}, held-out CRPS {now.score:.4g}"
            ),
            **recipe.network_for(field.problem),
        )
        for i, one in enumerate(wanted):
            if one.learner in CALIBRATED_ON_EXACT:
                priors[i] = _calibrated_on_exact(priors[i], field.sets, one.seed)
        self._keep(wanted, priors, started)

    def _keep(
        self, wanted: Sequence[Learned], priors: Sequence[DiffusionPrior], started: float
    ) -> None:
        """Save priors; training that went side by side is shared out in equal parts."""
        seconds = (time.perf_counter() - started) / len(wanted)
        for learned, prior in zip(wanted, priors, strict=True):
            self.store.save_prior(learned.key, prior)
            note = {"seconds": seconds, "recipe": self.digest(learned)}
            self.store.save(learned.time_key, {}, note)
        self.finished(len(wanted))

    # --- playing -------------------------------------------------------------------------------

    def _play(self, problem: str, tasks: str, wanted: Sequence[Run]) -> None:
        field = self.field(problem)
        means = field.sets.test if tasks == "test" else self._real_tasks()
        groups: dict[Any, list[tuple[Run, Policy]]] = defaultdict(list)
        for run in wanted:
            policy = self._policy(field, run)
            groups[layout(policy)].append((run, policy))
        horizon = self.profile.horizons[problem]
        for members in groups.values():
            names = sorted({run.policy for run, _ in members})
            self.report(f"{problem}: {', '.join(names)}, {len(members)} runs side by side")
            played = simulate_side_by_side(
                [policy for _, policy in members],
                means,
                field.problem.rewards,
                horizon=horizon,
                actions=field.problem.actions,
                record_every=max(1, horizon // self.profile.records),
                seeds=[SEED + run.seed for run, _ in members],
            )
            for (run, _), simulation in zip(members, played, strict=True):
                arrays: Arrays = {
                    "rounds": simulation.rounds,
                    "regret": simulation.regret.astype(np.float32),
                    "simple_regret": simulation.simple_regret.astype(np.float32),
                }
                note = {
                    "run": dataclasses.asdict(run),
                    "recipe": self.recipe_of(run),
                    "seconds": simulation.seconds,
                }
                self.store.save(run.key, arrays, note)
            self.finished(len(members))

    def _policy(self, field: _Field, run: Run) -> Policy:
        race = field.race(run.data)
        given = Ingredients(
            actions=field.problem.actions,
            noise_std=run.noise_std,
            prior=lambda: self.prior(run.learned),  # type: ignore[arg-type]
            gaussian=lambda: race.gaussian,
            diagonal=lambda: race.diagonal,
            mixture=lambda components: field.mixture(run.data, components),
            sampler=run.sampler,
            steps=self.profile.chain,
            variance=run.variance,
        )
        return make_policy(run.policy, given)

    @cached_property
    def _real_slots(self) -> Bidding:
        assert self.real_slots is not None
        return Bidding.from_logs(self.real_slots, MIN_PRICES)

    @cached_property
    def _real_slots_fingerprint(self) -> str:
        """Of the user's table; without one, of that of the published results."""
        if self.real_slots is None:
            return KNOWN["real slots"]
        assert self._real_slots.win_rates is not None
        return fingerprint(self._real_slots.win_rates)

    def _real_tasks(self) -> Any:
        real = self._real_slots
        assert real.win_rates is not None
        count = len(real.win_rates) if self.profile.sizes is None else self.profile.sizes[2]
        return real.sample(count, seed=SEED)


def fit_time_key(problem: str, name: str) -> str:
    """Where the store has how long a fit took."""
    return f"{problem}/times/fit-{name}-v{FITS_VERSION}"


def times_of(run: Run) -> list[str]:
    """Where the store has how long a run took, and the learning or the fit that it rests on."""
    if run.learned is not None:
        return [run.key, *times_of_prior(run.learned)]
    if run.policy.startswith("gmmts-"):
        components = run.policy.removeprefix("gmmts-")
        return [run.key, fit_time_key(run.problem, f"{run.data}-mixture{components}")]
    return [run.key]


def times_of_prior(learned: Learned) -> list[str]:
    """The same of a prior: its training, and the factor Gaussian that ours starts from."""
    if learned.learner == "ours" and learned.data != "perfect":
        factors = fit_time_key(learned.problem, f"{learned.data}-factors")
        return [learned.time_key, factors]
    return [learned.time_key]


class _Field:
    """A problem, its tasks, what is known of them, and the baselines' fits."""

    def __init__(self, problem: Problem, profile: Profile, store: Store) -> None:
        self.problem, self.profile, self.store = problem, profile, store
        self._known: dict[str, ImperfectSets] = {}
        self._races: dict[str, Race] = {}
        self._mixtures: dict[tuple[str, int], GaussianMixture] = {}

    @cached_property
    def sets(self) -> TaskSets:
        """Training, calibration and test tasks."""
        train, calibration, test = self.profile.sizes or (None, None, None)
        return self.problem.split(train, calibration, test, seed=SEED)

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """Of each set of tasks, by its name."""
        return {name: fingerprint(tasks) for name, tasks in self.sets._asdict().items()}

    def known(self, data: str) -> ImperfectSets:
        """Training and calibration tasks as they are observed; the same values every time."""
        if data not in self._known:
            corruption = DATA[data]
            assert corruption is not None
            self._known[data] = corrupt(self.sets, corruption, SEED)
        return self._known[data]

    def race(self, data: str) -> Race:
        """The Gaussian fits to the same data."""
        if data not in self._races:
            imperfect = None if DATA[data] is None else self.known(data)
            self._races[data] = Race(self.problem, self.sets, seed=SEED, imperfect=imperfect)
        return self._races[data]

    def factors(self, data: str) -> FactorFit:
        """The factor Gaussian that our procedure starts from; kept like the mixtures."""

        def fit() -> tuple[Arrays, dict[str, Any]]:
            fitted = fit_start(*self.known(data))
            gaussian = fitted.gaussian
            return {"mean": gaussian.mean, "covariance": gaussian.covariance}, {"rank": fitted.rank}

        arrays, note = self._kept(data, "factors", fit)
        return FactorFit(Gaussian(arrays["mean"], arrays["covariance"]), int(note["rank"]))

    def mixture(self, data: str, components: int) -> GaussianMixture:
        """The mixture fitted to the same data; kept, since it can take minutes."""
        if (data, components) in self._mixtures:
            return self._mixtures[data, components]

        def fit() -> tuple[Arrays, dict[str, Any]]:
            fitted = self.race(data).mixture(components)
            arrays: Arrays = {
                "weights": fitted.weights,
                "means": fitted.means.astype(np.float32),
                "covariances": fitted.covariances.astype(np.float32),
            }
            return arrays, {}

        arrays, _ = self._kept(data, f"mixture{components}", fit)
        mixture = GaussianMixture(arrays["weights"], arrays["means"], arrays["covariances"])
        self._mixtures[data, components] = mixture
        return mixture

    def _kept(
        self, data: str, what: str, fit: Callable[[], tuple[Arrays, dict[str, Any]]]
    ) -> tuple[Arrays, dict[str, Any]]:
        """A fit that is made once; how long it took is kept apart, since fits are large."""
        name = f"{data}-{what}"
        key = f"{self.problem.name}/fits/{name}-v{FITS_VERSION}"
        fitted_to = digest_of_data(self.problem, data, self.fingerprints, ("train", "calibration"))
        if self.store.has(key):
            arrays, note = self.store.load(key)
            # Fits of the first versions of the problems do not say what they were fitted to.
            unknown = fitted_to if self.problem.version == 1 else None
            if note.get("fitted_to", unknown) == fitted_to:
                return arrays, note
        started = time.perf_counter()
        arrays, note = fit()
        note |= {"seconds": time.perf_counter() - started, "fitted_to": fitted_to}
        # The time first: what is killed between the two is fitted and timed again.
        self.store.save(fit_time_key(self.problem.name, name), {}, note)
        self.store.save(key, arrays, note)
        return self.store.load(key)


def _calibrated_on_exact(prior: DiffusionPrior, sets: TaskSets, seed: int) -> DiffusionPrior:
    """The same prior with errors from exact calibration tasks."""
    standard = (sets.calibration - float(prior.shift)) / float(prior.scale)
    tau = calibrate(prior.denoiser, standard, schedule=prior.schedule, seed=seed + 1)
    return prior.with_errors(np.asarray(tau), calibrated_on="exact tasks")
