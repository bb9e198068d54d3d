"""What a problem is: a distribution over tasks, how a pull is rewarded, what may be played."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from diffts.bandits.actions import Actions, BestArm
from diffts.bandits.rewards import RewardModel
from diffts.errors import InvalidInputError
from diffts.seeding import Seed, as_generator
from diffts.validation import whole_number

Tasks = NDArray[np.float32]
AnyArray = TypeVar("AnyArray", bound=NDArray[Any])


class TaskSets(NamedTuple):
    """Mean rewards of three independent sets of tasks, each of shape ``(tasks, K)``."""

    train: Tasks
    calibration: Tasks
    test: Tasks


@dataclass(frozen=True)
class SuggestedNetwork:
    """A network that suits the problem, as arguments of ``build_denoiser``.

    Attributes:
        name: the network's registered name.
        predicts: what it should be trained to output.
        options: further options of that network; plain numbers and tuples, so that a prior
            trained with them can be written as JSON.
    """

    name: str
    predicts: str = "clean"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SuggestedArms:
    """What a problem changes of the network 'arms'.

    Attributes:
        procedure: changes to how it learns.
        options: changes to its sizes.
    """

    procedure: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


class Problem(abc.ABC):
    """A distribution over bandit tasks; a task is its vector ``μ ∈ R^K`` of mean rewards.

    A problem is a frozen value: it holds the structure that all tasks share (groups, labels, a
    grid) and no random state. Subclasses fill in the attributes and :meth:`_draw`.

    Attributes:
        name: the name under which the problem is registered.
        n_arms: number of (base) arms ``K``.
        noise_std: assumed noise level ``σ̂`` of one reward, as the paper sets it.
        horizon: default number of rounds of an experiment.
        default_sizes: default sizes of the training, calibration and test sets.
        version: raised, by hand, when the law of tasks or rewards or their random numbers change:
            results of another version are not this problem's.
        rewards: the law of a reward; a pytree, to be passed into compiled functions.
        actions: what may be played; single arms unless a problem says otherwise.
        suggested_network: a network that suits these tasks, if there is advice to give.
    """

    name: ClassVar[str]
    n_arms: ClassVar[int]
    noise_std: ClassVar[float]
    horizon: ClassVar[int]
    default_sizes: ClassVar[tuple[int, int, int]] = (5000, 1000, 100)
    version: ClassVar[int] = 1

    @property
    @abc.abstractmethod
    def rewards(self) -> RewardModel:
        """The law of a reward."""

    @property
    def actions(self) -> Actions:
        """What may be played: one arm."""
        return BestArm(self.n_arms)

    @property
    def suggested_network(self) -> SuggestedNetwork | None:
        """A network that suits these tasks; None for no advice."""
        return None

    @property
    def suggested_arms(self) -> SuggestedArms:
        """How the network 'arms' suits these tasks."""
        return SuggestedArms()

    @property
    def pool(self) -> Tasks | None:
        """All tasks ``(n, K)``, where there are finitely many: sets are dealt from them."""
        return None

    @abc.abstractmethod
    def _draw(self, n: int, rng: np.random.Generator) -> Tasks:
        """Mean rewards of ``n ≥ 1`` tasks, shape ``(n, K)``; all randomness comes from ``rng``."""

    def sample(self, n: int, seed: Seed) -> Tasks:
        """Mean rewards of ``n`` tasks, float32 of shape ``(n, K)``.

        Args:
            n: number of tasks, 0 or more.
            seed: an int or a JAX key (the same tasks every time), or a generator (advanced).
        """
        n = whole_number("n", n, 0)
        rng = as_generator(seed)
        if n == 0:
            return np.zeros((0, self.n_arms), np.float32)
        if self.pool is not None:
            return _dealt(self.pool, n, rng)
        return self._draw(n, rng).astype(np.float32, copy=False)

    def split(
        self,
        train: int | None = None,
        calibration: int | None = None,
        test: int | None = None,
        seed: Seed = 0,
    ) -> TaskSets:
        """Independent sets of tasks to learn from, to calibrate on and to be judged by.

        The test tasks are for the last run alone. Whatever is chosen by looking at results, a
        network, its width, a number of steps, is chosen on the tasks of :meth:`development`.

        Args:
            train: number of training tasks; None takes the problem's default, as below.
            calibration: number of calibration tasks.
            test: number of test tasks.
            seed: seed of all three. Each set has its own stream of random numbers, so that the
                size of one set never changes the tasks of another. Of finitely many tasks, none
                is in two sets; the test tasks are dealt first, and stay whatever the others are.
        """
        sizes = self._sizes(train, calibration, test)
        if self.pool is not None:
            chosen = _dealt(self.pool, sum(sizes), as_generator(seed))
            dealt = np.split(chosen, np.cumsum([sizes[2], sizes[1]]))
            return TaskSets(dealt[2], dealt[1], dealt[0])
        streams = independent_streams(seed, len(sizes))
        return TaskSets(*(self.sample(n, rng) for n, rng in zip(sizes, streams, strict=True)))

    def development(
        self, n: int | None = None, seed: Seed = 0, *, beside: TaskSets | None = None
    ) -> Tasks:
        """Tasks for choices, from a random stream that none of the sets of :meth:`split` has.

        Args:
            n: number of tasks; None for as many as there are test tasks by default.
            seed: the seed of the split: its sets and these are independent.
            beside: that split; needed only where there are finitely many tasks to deal out.
        """
        n = whole_number("n", self.default_sizes[2] if n is None else n, 0)
        stream = independent_streams(seed, len(TaskSets._fields) + 1)[-1]
        if self.pool is None:
            return self.sample(n, stream)
        if beside is None:
            raise InvalidInputError(
                "beside: tasks are dealt out, so development tasks need to know the other sets; "
                "give what split() returned"
            )
        dealt = {task.tobytes() for tasks in beside for task in tasks}
        shuffled = _dealt(self.pool, len(self.pool), stream)
        free = shuffled[[task.tobytes() not in dealt for task in shuffled]]
        if n > len(free):
            raise InvalidInputError(
                f"n: {n} development tasks asked for, but only {len(free)} of {len(self.pool)} are "
                "in none of the other sets"
            )
        return free[:n]

    def sets_for_choices(self, seed: Seed = 0) -> TaskSets:
        """A split with development tasks in the place of the test tasks.

        For sweeps and benchmarks: what is chosen by looking at a result must not be judged by the
        tasks that it was chosen on.
        """
        tasks = self.split(seed=seed)
        return tasks._replace(test=self.development(seed=seed, beside=tasks))

    def _sizes(
        self, train: int | None, calibration: int | None, test: int | None
    ) -> tuple[int, int, int]:
        """The three sizes, with defaults put in and checked."""
        names, asked = TaskSets._fields, (train, calibration, test)
        sizes = [
            whole_number(name, default if size is None else size, 0)
            for name, size, default in zip(names, asked, self.default_sizes, strict=True)
        ]
        return sizes[0], sizes[1], sizes[2]


def _dealt(pool: Tasks, n: int, rng: np.random.Generator) -> Tasks:
    """``n`` different tasks of a pool, in random order."""
    if n > len(pool):
        raise InvalidInputError(
            f"n: {n} tasks asked for, but there are only {len(pool)}; ask for smaller sets"
        )
    return pool[rng.permutation(len(pool))[:n]]


def independent_streams(seed: Seed, count: int) -> list[np.random.Generator]:
    """``count`` generators, independent of each other, all determined by ``seed``.

    The first of them are the same whatever ``count`` is.
    """
    roots = as_generator(seed).integers(2**63, size=count)
    return [np.random.default_rng(int(root)) for root in roots]


def random_subsets(
    rng: np.random.Generator, sizes: NDArray[np.int64], n_elements: int
) -> NDArray[np.bool_]:
    """Uniform subsets of ``{0, …, n_elements - 1}``, one of each size; True for members.

    >>> random_subsets(np.random.default_rng(0), np.array([2, 3]), 5).sum(axis=1)
    array([2, 3])
    """
    # The ranks of independent uniforms are a uniform permutation; its first ranks are chosen.
    ranks = rng.random((len(sizes), n_elements)).argsort(axis=1).argsort(axis=1)
    members: NDArray[np.bool_] = ranks < sizes[:, None]
    return members


def fixed_array(array: AnyArray) -> AnyArray:
    """``array``, made read-only: structure that all tasks share must not be changed by one."""
    array.setflags(write=False)
    return array
