"""Where the work is done: learn the priors that are missing, play the runs that are missing.

Experiments ask for runs; many ask for the same ones. What can go side by side does: trainings of
one network, simulations of one kind of policy.
"""

from __future__ import annotations

import dataclasses
import shutil
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
from diffts.diffusion.networks import ArmDenoiser
from diffts.diffusion.prior import DiffusionPrior
from diffts.learning import Lesson, Progress, calibrate, learn_priors
from diffts.learning.fits import fit_diagonal, fit_gaussian
from diffts.problems import Bidding
from diffts.problems.maze import three_covering_paths
from diffts.reproduction.digests import KNOWN, digest, fingerprint, sampler_versions
from diffts.reproduction.packing import packed, unpacked
from diffts.reproduction.problem_data import FITS_VERSION, REGULARISATION, SEED, ProblemData
from diffts.reproduction.profile import Profile
from diffts.reproduction.specs import (
    APPENDIX,
    ARMS,
    CALIBRATED_ON_EXACT,
    DATA,
    MANY,
    REAL,
    THREE_PATHS,
    PriorSpec,
    Run,
    plan_for,
    units_for,
)
from diffts.reproduction.store import Arrays, Made, Part, Store
from diffts.stacking import layout

#: Rounds that are kept of all of them; of the first ones, all recorded rounds.
LATE_ROUNDS = (40, 100, 300, 1000)
UCBS = ("ucb1", THREE_PATHS)  # they learn nothing from past tasks
MIN_PRICES = 50  # real ad slots with fewer prices are left out
#: Versions of the policies that play sets of arms (mazes), to be raised, by hand, when what they
#: play or recommend changes. 2: posteriors of Gaussians and mixtures in full precision; DiffTS
#: recommends by a posterior mean.
SETS_VERSIONS = {"gts-full": 2, "gmmts": 2, "diffts": 2}
#: Likewise of the default rule, where actions are sets. 2: an arm counts by its moments.
DEFAULT_RULE_ON_SETS = 2
#: Steps of our chains in the runs whose digests do not name them.
CHAIN = 12

#: Told a line about the work, the parts that are finished and how many there are.
Report = Callable[[str, int, int], None]


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
            plan.network_for(data.problem),
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
            kind = spec.learner if spec.learner in (ARMS, APPENDIX) else "ablations"
            groups[spec.problem, spec.is_exact, kind].append(spec)
        for wanted in groups.values():
            kinds = ", ".join(sorted({f"{spec.data} data ({spec.learner})" for spec in wanted}))
            name = wanted[0].problem
            self.report(f"{name}: learning from {kinds}; {len(wanted)} side by side")
            parts = [self.prior_part(spec) for spec in wanted]
            states = [
                self.store.folder / name / "states" / f"{part.digest}-seed{spec.seed}"
                for part, spec in zip(parts, wanted, strict=True)
            ]
            self.store.ensure(parts, partial(self._learn, wanted, states))
            for folder in states:
                shutil.rmtree(folder, ignore_errors=True)
            self.done += len(wanted)

    def _unlearned(self, specs: Iterable[PriorSpec]) -> list[PriorSpec]:
        return [spec for spec in sorted(set(specs)) if not self.store.has(self.prior_part(spec))]

    def _learn(self, wanted: Sequence[PriorSpec], states: Sequence[Path]) -> list[Made]:
        """Priors, side by side; a training that was killed goes on from its last state."""
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
                how |= {"procedure": plan.procedure}
            lessons.append(Lesson(*data.past(spec.data), seed=spec.seed, **how))
        tell = partial(self.tell, data.problem.name)
        how = {"checkpoints": states, "on_progress": tell, **plan.network_for(data.problem)}
        priors = learn_priors(lessons, **how)
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
            if run.components and DATA[run.data] is None:
                learned = digest(learned, REGULARISATION)
        tasks = self._tasks_fingerprint(run)
        samplers = sampler_versions([run.sampler] if run.prior else [])
        kind = "gmmts" if run.components else run.policy
        version = 1 if data.actions.single_arm else SETS_VERSIONS.get(kind, 1)
        how: list[Any] = [one for one in (run.rule, run.noise) if one not in ("thompson", "")]
        if not data.actions.single_arm and run.rule == "default":
            how.append(DEFAULT_RULE_ON_SETS)
        steps = self.profile.chain or ArmDenoiser.default_steps
        if run.learner == ARMS and steps != CHAIN:
            how.append({"steps": steps})
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
            advice=False,  # which takes many draws
        )
        made = []
        for (run, _), one in zip(members, played, strict=True):
            few = one.regret.shape[1] if run.tasks == REAL else data.few_tasks
            arrays: Arrays = {"rounds": one.rounds, "regret": packed(one.regret[:, :few])}
            if run.tasks == MANY:
                late = late_of(one.rounds)
                arrays["late_rounds"] = one.rounds[late]
                arrays["late_regret"] = packed(one.regret[late])
            made.append(Made(arrays, {"run": dataclasses.asdict(run)}))
        return made

    def _tasks(self, run: Run) -> NDArray[Any]:
        return (
            self._real_tasks() if run.tasks == REAL else self.problem(run.problem).test(run.tasks)
        )

    def _tasks_fingerprint(self, run: Run) -> str:
        return self._real_fingerprint if run.tasks == REAL else fingerprint(self._tasks(run))

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


def late_of(rounds: NDArray[Any]) -> NDArray[Any]:
    """Which records are kept of all tasks."""
    return np.unique(np.searchsorted(rounds, np.minimum(LATE_ROUNDS, rounds[-1])))


def late_records(arrays: Arrays) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Of a run the late rounds, and the regret of all of its tasks at them ``(R, N)``."""
    if "late_regret" in arrays:
        return arrays["late_rounds"], unpacked(arrays["late_regret"])
    late = late_of(arrays["rounds"])
    return arrays["rounds"][late], unpacked(arrays["regret"])[late]


def exact_errors(prior: DiffusionPrior, exact: Any, seed: int) -> NDArray[Any]:
    """The errors τ ``(L, K)`` of a prior's denoiser on exact tasks ``(N, K)``."""
    standard = prior.units.standard(np.asarray(exact))
    return np.asarray(calibrate(prior.denoiser, standard, schedule=prior.schedule, seed=seed))
