"""``backtest``: policies judged by a log of another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from diffts.backtest.estimators import ESTIMATORS, Weighed, estimate
from diffts.backtest.models import ArmMeans, GivenRewards, PosteriorMeans, RewardModel
from diffts.backtest.result import BacktestResult, Row
from diffts.backtest.rounds import LoggedRounds
from diffts.backtest.support import (
    FEW_FREEDOM,
    FEW_ROUNDS,
    FEW_TASKS,
    NoOverlapError,
    Support,
    Tally,
    doubts,
    refuse,
)
from diffts.backtest.targets import (
    FixedArm,
    GivenChances,
    Logged,
    MostPopular,
    Played,
    Target,
    Uniform,
)
from diffts.bandits.policy import Policy
from diffts.errors import InvalidInputError
from diffts.fitting import Fitted
from diffts.validation import number_between, one_of, positive_number, whole_number

#: Numbers of a block's table of rounds × arms: what is held in memory at once.
BLOCK = 2**21
BASELINES = ("logged", "uniform", "most-popular")


def backtest(
    policy: Any,
    rounds: LoggedRounds,
    *,
    rules: Sequence[str] = ("default", "thompson"),
    baselines: Sequence[str] = BASELINES,
    estimators: Sequence[str] = tuple(ESTIMATORS),
    model: str | ArrayLike | RewardModel = "auto",
    draws: int = 100,
    floor: float | None = None,
    clip: float | None = None,
    replay_bound: float | None = None,
    level: float = 0.95,
    seed: int = 0,
    on_block: Callable[[int, int], None] | None = None,
) -> BacktestResult:
    """What policies would have earned a round, from a log of another one.

    Args:
        policy: a :class:`~diffts.fitting.Fitted` (played by each of ``rules``), a policy, a name
            ('logged', 'uniform', 'most-popular', or 'arm:NAME' for one arm), chances ``(R, K)``
            with rows as in the log's table, a ``Target``; or a dict of these by name.
        rounds: the log. Its tasks should not be those that the belief was fitted on.
        rules: names of rules, for a fitted belief.
        baselines: names of more policies to judge beside it.
        estimators: names in ``ESTIMATORS``.
        model: of expected rewards, for direct and doubly robust estimates: 'belief' (the posterior
            mean from the task's earlier rounds), 'arm-means' (over other tasks) or a table
            ``(R, K)``; 'auto' is the first with a fitted belief, else the second.
        draws: choices that a chance is counted in.
        floor: the least chance of every arm of the policies judged.
        clip: largest weight of clipped IPS; by default ``√R``.
        replay_bound: ``c`` of the replay; by default large enough for the replay to be exact.
        level: of the intervals.
        seed: of the choices, coins and parts.
        on_block: called with the rounds worked through and their total.

    Raises:
        NoOverlapError: where the log can judge none of the policies but the baselines.
    """
    names = [one_of("estimators", name, ESTIMATORS) for name in estimators]
    number_between("level", level, 0.5, 0.9999)
    limit = np.sqrt(len(rounds)) if clip is None else positive_number("clip", clip)
    bound = None if replay_bound is None else positive_number("replay_bound", replay_bound)
    fitted = _fitted_in(policy)
    warnings: list[str] = []
    if fitted is not None:
        rounds = rounds.with_arms(fitted.arms)
        warnings += _learned_on(fitted, rounds)
        if unseen := int(np.sum(~rounds.played)):
            warnings.append(
                f"{unseen} of {rounds.n_arms} arms are not in the log: judged as if not on offer"
            )
    own = _targets(policy, rounds, rules, draws, floor, seed)
    if not own:
        raise InvalidInputError("policy: none given")
    targets = {name: _named(name, rounds, seed) for name in baselines if name not in own} | own
    chosen = _model(model, fitted, rounds, seed)
    if rounds.n_tasks == 1:
        warnings.append("the log has one task: intervals take its rounds to be independent")
    elif rounds.n_tasks < FEW_TASKS:
        warnings.append(f"intervals rest on {rounds.n_tasks} tasks alone")

    weighed, support = _weigh(targets, rounds, chosen, limit, on_block)
    rows: list[Row] = []
    refused: dict[str, str] = {}
    for number, (name, given) in enumerate(weighed.items()):
        try:
            refuse(name, support[name])
        except NoOverlapError as error:
            refused[name] = str(error)
            continue
        warnings += doubts(name, support[name])
        if "replay" in names:
            accepted = targets[name].accepted(rounds, given.weight, bound, seed + number)
            given = given._replace(accepted=accepted)
            if int(accepted.sum()) < FEW_ROUNDS:
                warnings.append(f"{name}: the replay accepts {int(accepted.sum())} rounds alone")
        found = {one: estimate(one, given, level) for one in names}
        rows += [Row(name, one, its) for one, its in found.items()]
        played = rounds.reward[given.weight > 0]
        if len(played) and np.ptp(played) == 0 < np.ptp(rounds.reward):
            warnings.append(
                f"{name}: all {len(played)} rounds that it would have played gave {played[0]:g}: "
                "its true errors are larger than these"
            )
        if few := [one for one, its in found.items() if not its.freedom >= FEW_FREEDOM]:
            warnings.append(
                f"{name}: few tasks make up the error of {', '.join(few)}: intervals are rough"
            )
    if len(refused.keys() & own.keys()) == len(own):
        raise NoOverlapError(next(refused[name] for name in own))
    facts = {
        "rounds": len(rounds),
        "tasks": rounds.n_tasks,
        "arms": rounds.n_arms,
        "mean_reward": float(rounds.reward.mean()),
        "least_propensity": float(rounds.propensity.min()),
        "draws": draws,
        "clip": float(limit),
        "replay_bound": bound,
        "level": level,
        "seed": seed,
        "tasks_learned_on": _overlap(fitted, rounds),
    }
    return BacktestResult(tuple(rows), support, refused, tuple(warnings), facts)


def _weigh(
    targets: Mapping[str, Target],
    rounds: LoggedRounds,
    model: RewardModel,
    clip: float,
    on_block: Callable[[int, int], None] | None,
) -> tuple[dict[str, Weighed], dict[str, Support]]:
    """Each policy's weights and expected rewards, block by block of rounds."""
    count = len(rounds)
    size = max(1, BLOCK // rounds.n_arms)
    columns = {name: np.zeros((2, count)) for name in targets}  # chance of the arm, direct value
    tallies = {name: Tally() for name in targets}
    expected = np.zeros(count)
    for start in range(0, count, size):
        stop = min(count, start + size)
        q = model.predict(rounds, start, stop)
        expected[start:stop] = q[np.arange(stop - start), rounds.arm[start:stop]]
        for name, target in targets.items():
            chances = target.chances(rounds, start, stop)
            columns[name][0, start:stop] = chances.logged
            columns[name][1, start:stop] = np.sum(chances.by_arm * q, axis=1)
            tallies[name].add(rounds, start, stop, chances)
            if on_block is not None:
                on_block(stop, count)
    weighed = {
        name: Weighed(
            weight=chance / rounds.propensity,
            reward=rounds.reward,
            model=expected,
            direct=direct,
            accepted=np.zeros(count, bool),
            cluster=rounds.clusters,
            clip=clip,
        )
        for name, (chance, direct) in columns.items()
    }
    return weighed, {
        name: tallies[name].support(rounds, given.weight) for name, given in weighed.items()
    }


def _targets(
    policy: Any,
    rounds: LoggedRounds,
    rules: Sequence[str],
    draws: int,
    floor: float | None,
    seed: int,
) -> dict[str, Target]:
    """The policies to judge, by name."""
    whole_number("draws", draws, 1)
    if isinstance(policy, Mapping):
        return {
            name if len(made) == 1 else f"{name}:{inner}": target
            for name, one in policy.items()
            for made in [_targets(one, rounds, rules, draws, floor, seed)]
            for inner, target in made.items()
        }
    if isinstance(policy, Fitted):
        return {
            rule: Played(policy.policy(rule, floor=floor), draws=draws, seed=seed) for rule in rules
        }
    if isinstance(policy, Policy):
        made = policy if floor is None else policy.playing(policy.rule, floor=floor)
        return {"policy": Played(made, draws=draws, seed=seed)}
    if isinstance(policy, Target):
        return {"policy": policy}
    if isinstance(policy, str):
        return {policy: _named(policy, rounds, seed)}
    return {"policy": GivenChances(policy)}


def _named(name: str, rounds: LoggedRounds, seed: int) -> Target:
    """A policy by its name."""
    if name.startswith("arm:"):
        return FixedArm(name.removeprefix("arm:"))
    one_of("policy", name, BASELINES)
    if name == "most-popular":
        return MostPopular(rounds, seed)
    return Logged() if name == "logged" else Uniform()


def _model(model: Any, fitted: Fitted | None, rounds: LoggedRounds, seed: int) -> RewardModel:
    if isinstance(model, str):
        one_of("model", model, ("auto", "belief", "arm-means"))
        if model == "belief" and fitted is None:
            raise InvalidInputError("model: 'belief' needs a fitted belief")
        if fitted is not None and model != "arm-means":
            fitted.noise.check(rounds.reward)
            return PosteriorMeans(fitted.belief())
        return ArmMeans(rounds, seed)
    if hasattr(model, "predict"):
        return model
    return GivenRewards(model)


def _fitted_in(policy: Any) -> Fitted | None:
    """The first fitted belief among the policies."""
    among = policy.values() if isinstance(policy, Mapping) else [policy]
    return next((one for one in among if isinstance(one, Fitted)), None)


def _overlap(fitted: Fitted | None, rounds: LoggedRounds) -> int | None:
    """Judged tasks that the belief was fitted on; None if it does not say."""
    learned = None if fitted is None else fitted.facts.get("tasks")
    if not isinstance(learned, list | tuple):
        return None
    return len(set(map(str, learned)) & set(rounds.tasks))


def _learned_on(fitted: Fitted, rounds: LoggedRounds) -> list[str]:
    both = _overlap(fitted, rounds)
    if both is None:
        return ["the belief does not say which tasks it was fitted on: judge it on others"]
    if not both:
        return []
    return [
        f"{both} of {rounds.n_tasks} tasks are among those that the belief was fitted on: its "
        "values may be too good; judge it on other tasks (of_tasks)"
    ]
