"""The agent for people: ``choose()``, ``update(arm, reward)``, and a state to save.

It wraps any policy for one task at a time. Nothing is global: an agent has its own seed, its own
history, and arms that may have names.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from diffts.bandits.actions import Actions, BestArm, BestOffered
from diffts.bandits.answers import BestArmAdvice, Decision, Probabilities, Surprise
from diffts.bandits.arm_names import ArmNames
from diffts.bandits.beliefs import State
from diffts.bandits.history import History
from diffts.bandits.identity import identity, what_differs
from diffts.bandits.noise import NoiseLike, noise_from_json
from diffts.bandits.policies import DiffTS
from diffts.bandits.policy import Advice, Policy
from diffts.bandits.rules import Rule
from diffts.bandits.surprise import scores_left_out
from diffts.diffusion.posterior import PosteriorSampler
from diffts.diffusion.prior import DiffusionPrior
from diffts.errors import ArtifactError, InvalidInputError
from diffts.seeding import KeyArray, Seed, as_key, fresh_key
from diffts.storage import load_folder, named_arrays, save_folder, with_arrays
from diffts.validation import float_array, require_finite, whole_number

_KIND, _VERSION = "diffts.agent", 2


class Agent:
    """Any policy, playing one task.

    Args:
        policy: the policy.
        arms: names of the arms; by default the numbers 0 to K-1.
        actions: what may be played; single arms by default.
        rule: play the policy's belief by another rule: a rule, or a name in ``bandits.RULES``.
        horizon: how many rounds there will be, if known; some rules named in ``rule`` use it.
        floor: the least chance of every arm on offer.
        seed: an int, a NumPy generator or a JAX key; without one, every agent gets its own.

    >>> from diffts.bandits.policies import UCB1
    >>> agent = Agent(UCB1(2, noise=0.1), arms=["left", "right"])
    >>> first = agent.choose()
    >>> agent.update(first, 0.3)
    >>> first, agent.choose()
    ('left', 'right')
    """

    def __init__(
        self,
        policy: Policy,
        *,
        arms: Sequence[Any] | None = None,
        actions: Actions | None = None,
        rule: str | Rule | None = None,
        horizon: int | None = None,
        floor: float | None = None,
        seed: Seed | None = None,
    ) -> None:
        if not isinstance(policy, Policy):
            raise InvalidInputError(
                f"policy: expected a policy, got {type(policy).__name__}; "
                "ThompsonSampling(prior, noise_std=...) plays a diffusion prior"
            )
        if rule is not None or floor is not None:
            chosen = policy.rule if rule is None else rule
            policy = policy.playing(chosen, horizon=horizon, floor=floor)
        self.policy = policy
        self.actions = BestArm(policy.n_arms) if actions is None else actions
        policy.check(self.actions)
        self._names = ArmNames(arms, policy.n_arms)
        self.arms = self._names.all
        self._key = fresh_key() if seed is None else as_key(seed)
        self._choices = 0
        self._state: State = policy.init()

    def choose(self, among: Sequence[Any] | None = None) -> Any:
        """The arm to play now (for sets of arms: the list of them).

        Args:
            among: the arms on offer this time; all by default. Only for single arms.
        """
        actions = self.actions if among is None else self._offer(among)
        key = jax.random.fold_in(self._key, self._choices)
        action = np.asarray(_select(self.policy, key, self._state, actions))
        self._choices += 1
        return self._named(action)

    def decide(self, among: Sequence[Any] | None = None, draws: int = 100) -> Decision:
        """The arm that ``choose`` would give, and the chance with which it was chosen.

        Args:
            among: as in ``choose``.
            draws: choices that the chance is counted in; 1/draws is the least there is.
        """
        actions = self.actions if among is None else self._offer(among)
        key = jax.random.fold_in(self._key, self._choices)
        others = jax.random.split(self._aside(), whole_number("draws", draws, 1))[1:]
        keys = jnp.concatenate([key[None], others])
        chosen = np.asarray(_select_many(self.policy, keys, self._state, actions))
        self._choices += 1
        share = float((chosen == chosen[0]).all(axis=1).mean())
        return Decision(self._named(chosen[0]), share, draws)

    def advice(self, among: Sequence[Any] | None = None) -> BestArmAdvice:
        """The arm to settle for, whatever the rule, and how likely it is a best one."""
        actions = self.actions if among is None else self._offer(among)
        advice = _advise(self.policy, self._state, actions)
        return BestArmAdvice(self._named(np.asarray(advice.action)), float(advice.chance))

    def surprise(self, draws: int = 100) -> Surprise:
        """How surprised the belief is by this task: each arm beside what all others made expect.

        ``z^a = (y^a - m^a) / √((s^a)² + (σ̂^a)²/n^a)``

        ``y^a`` is the mean of the ``n^a`` rewards of the arm and ``σ̂^a`` the noise assumed of one;
        ``m^a`` and ``s^a`` are what the belief thinks of the arm given the other arms' pulls alone.
        The value is the mean of ``(z^a)²``. It changes nothing, and asks for one posterior an arm.

        It is about 1 on average over tasks that are as the belief thinks; one task with few arms
        may be far from it. It has limits:

        - Arms that were never pulled surprise nobody.
        - A rule that drops an arm after bad luck keeps that bad luck as all it knows of the arm.
          So the average is somewhat off 1 where an agent chose the arms itself.
        - Noise that is learned from few rewards of the task (``"auto"``) is only roughly known.
        - A belief without a prior (UCB1) expects nothing of an arm: it is refused.

        Args:
            draws: what ``m`` and ``s`` are taken of where there is no closed form; n draws make
                the value some 3/n too large.

        >>> prior = DiffusionPrior.gaussian([0.5, 0.5], [[0.04, 0.03], [0.03, 0.04]])
        >>> agent = ThompsonSampling(prior, 0.1, arms=["red", "blue"], sampler="merged", seed=0)
        >>> agent.update(["red", "blue"], [0.9, 0.1])
        >>> value, by_arm = agent.surprise()
        >>> f"{value:.1f}", f"{by_arm['red']:.1f}"
        ('12.8', '3.6')
        """
        draws = whole_number("draws", draws, 2)
        arms, scores = scores_left_out(self.policy.belief, self._state, draws)
        by_arm = {self.arms[a]: float(z) for a, z in zip(arms, scores, strict=True)}
        return Surprise(float(np.mean(scores**2)) if len(scores) else 0.0, by_arm)

    def update(self, arm: Any, reward: Any) -> None:
        """Tell what a pull gave; or several pulls, as two lists of the same length.

        Rewards may come late, in any order, and of any arm: whether it was on offer or not,
        before and after the agent's first choice, chosen by this agent or by somebody else. If
        anything is wrong with one of them, an error is raised and nothing is learned from any.
        """
        several, pulled = self._names.pulled(arm)
        rewards = float_array("reward", reward)
        if rewards.shape != ((len(pulled),) if several else ()):
            raise InvalidInputError(
                f"reward: expected one for each of {len(pulled)} arm(s), got shape {rewards.shape}"
            )
        require_finite("reward", rewards)
        self.policy.belief.noise.check(rewards)
        indices = [self._names.index_of(name) for name in pulled]
        values = np.atleast_1d(rewards).astype(np.float32)
        if not self.actions.single_arm and len(set(indices)) == len(indices):
            steps = [(indices, values)]  # one action: a set of arms
        else:
            steps = [([index], value[None]) for index, value in zip(indices, values, strict=True)]
        for played, received in steps:
            action = np.zeros(self.policy.n_arms, bool)
            action[played] = True
            vector = np.zeros(self.policy.n_arms, np.float32)
            vector[played] = received
            self._state = _update(self.policy, self._state, action, vector)

    def probabilities(self, draws: int = 1000, among: Sequence[Any] | None = None) -> Probabilities:
        """The chance of each arm to be played: how often the rule chooses it in fresh draws.

        For Thompson sampling this is the posterior probability that the arm is the best one; for a
        deterministic rule it is 1 for one arm. It does not change what ``choose`` will do.
        """
        draws = whole_number("draws", draws, 1)
        actions = self.actions if among is None else self._offer(among)
        key = self._aside()
        counts = np.zeros(self.policy.n_arms)
        for start in range(0, draws, 250):
            size = min(250, draws - start)
            keys = jax.random.split(jax.random.fold_in(key, start), 250)
            chosen = np.asarray(_select_many(self.policy, keys, self._state, actions))
            counts += chosen[:size].sum(0)
        shares = {name: float(counts[i] / draws) for i, name in enumerate(self.arms)}
        return Probabilities(shares, draws)

    @property
    def pulls(self) -> dict[Any, int]:
        """How often each arm was pulled."""
        counts = np.asarray(self._state.history.counts)
        return {name: int(counts[i]) for i, name in enumerate(self.arms)}

    @property
    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that changes, as named arrays; assign it to go on from there."""
        extra = {
            "key": np.asarray(jax.random.key_data(self._key)),
            "choices": np.asarray(self._choices, np.int64),
        }
        return {
            **{f"state{name}": leaf for name, leaf in named_arrays(self._state).items()},
            **extra,
        }

    @state.setter
    def state(self, arrays: dict[str, NDArray[Any]]) -> None:
        prefix = "state"
        inner = {n[len(prefix) :]: a for n, a in arrays.items() if n.startswith(prefix)}
        state = with_arrays(self.policy.init(), _completed(inner, ".history"), "state")
        if missing := {"key", "choices"} - arrays.keys():
            raise ArtifactError(f"state: damaged (no {min(missing)})")
        self._key = jax.random.wrap_key_data(jnp.asarray(arrays["key"]))
        self._choices, self._state = int(arrays["choices"]), state

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the state to a folder, and what it belongs to.

        That is the names of the arms, and hashes of the prior, the noise level and the sampler;
        the policy itself, with its prior, is saved apart.
        """
        content = {
            "arms": [str(name) for name in self.arms],
            "policy": identity(self.policy),
        }
        save_folder(directory, _KIND, _VERSION, content, self.state)

    def load(self, directory: str | os.PathLike[str], *, other_policy: bool = False) -> None:
        """Go on from a saved state.

        Args:
            directory: the folder.
            other_policy: take the state of an agent with another policy, prior, noise level or
                sampler, too. The pulls stay; what follows from them is worked out anew.
        """
        content, arrays = load_folder(directory, _KIND, _VERSION)
        if content.get("arms") != [str(name) for name in self.arms]:
            raise ArtifactError(f"{directory}: saved with other arms")
        differs = what_differs(content.get("policy"), identity(self.policy))
        if differs and not other_policy:
            raise ArtifactError(
                f"{directory}: saved by an agent with another policy ({differs}); "
                "load(..., other_policy=True) takes it all the same"
            )
        if differs:
            arrays = self._rebuilt(arrays)
        self.state = arrays

    def _rebuilt(self, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Arrays of another policy's state, with this policy's own in their place."""
        prefix = "state.history"
        pulls = {n[len(prefix) :]: a for n, a in arrays.items() if n.startswith(prefix)}
        history = with_arrays(History.empty(self.policy.n_arms), _completed(pulls), "state")
        own = named_arrays(self.policy.resume(history))
        others = {n: a for n, a in arrays.items() if not n.startswith("state")}
        return {**{f"state{name}": leaf for name, leaf in own.items()}, **others}

    def _aside(self) -> KeyArray:
        """A key for what is asked in between: it changes no choice."""
        return jax.random.fold_in(jax.random.fold_in(self._key, 2**31 - 1), self._choices)

    def _named(self, action: NDArray[np.bool_]) -> Any:
        """An action by the names of its arms."""
        chosen = [self.arms[i] for i in np.flatnonzero(action)]
        return chosen[0] if self.actions.single_arm else chosen

    def _offer(self, among: Sequence[Any]) -> Actions:
        if not self.actions.single_arm:
            raise InvalidInputError("among: only for agents that play single arms")
        return BestOffered(self._names.offered(among))


class ThompsonSampling(Agent):
    """DiffTS for people: Thompson sampling with a diffusion prior, for one task.

    Args:
        prior: the diffusion prior.
        noise_std: assumed standard deviation of one reward; may be left out for a prior that was
            fitted to a log, which told it. So may the names.
        arms: names of the arms; by default the numbers 0 to K-1.
        actions: what may be played; single arms by default.
        rule, horizon, floor: as in :class:`Agent`; Thompson sampling by default.
        sampler, steps, variance: how to draw (see ``DiffusionPrior.posterior_sample``).
        seed: an int, a NumPy generator or a JAX key; without one, every agent gets its own.

    >>> prior = DiffusionPrior.gaussian([0.5, 0.5], [[0.04, 0.0], [0.0, 0.04]])
    >>> agent = ThompsonSampling(prior, noise_std=0.1, arms=["red", "blue"], seed=0)
    >>> agent.update("red", 0.9)
    >>> agent.update(["blue", "blue"], [0.2, 0.1])
    >>> agent.choose()
    'red'
    """

    def __init__(
        self,
        prior: DiffusionPrior,
        noise_std: NoiseLike | None = None,
        *,
        arms: Sequence[Any] | None = None,
        actions: Actions | None = None,
        rule: str | Rule | None = None,
        horizon: int | None = None,
        floor: float | None = None,
        sampler: str | PosteriorSampler | None = None,
        steps: int | None = None,
        variance: str = "calibrated",
        seed: Seed | None = None,
    ) -> None:
        told = prior.metadata if isinstance(prior, DiffusionPrior) else {}
        if noise_std is None:
            if "noise" not in told:
                raise InvalidInputError("noise_std: none given, and this prior does not know it")
            noise_std = noise_from_json(told["noise"])
        arms = told.get("arms") if arms is None else arms
        policy = DiffTS(
            prior,
            noise_std,
            sampler=sampler,
            steps=steps,
            variance=variance,
            single_arm=actions is None or actions.single_arm,
        )
        super().__init__(
            policy,
            arms=arms,
            actions=actions,
            rule=rule,
            horizon=horizon,
            floor=floor,
            seed=seed,
        )


def _completed(arrays: dict[str, NDArray[Any]], prefix: str = "") -> dict[str, NDArray[Any]]:
    """Arrays of a history, as they are now: once, squares were not kept, and are NaN."""
    counts = arrays.get(f"{prefix}.counts")
    if counts is None:
        return arrays
    squares = np.where(counts > 1, np.nan, 0.0).astype(np.float32)
    return {f"{prefix}.squares": squares, **arrays}


@eqx.filter_jit
def _select(policy: Policy, key: Any, state: State, actions: Actions) -> Any:
    return policy.select(key, state, actions)


@eqx.filter_jit
def _select_many(policy: Policy, keys: Any, state: State, actions: Actions) -> Any:
    return jax.vmap(lambda key: policy.select(key, state, actions))(keys)


@eqx.filter_jit
def _advise(policy: Policy, state: State, actions: Actions) -> Advice:
    return policy.advise(state, actions)


@eqx.filter_jit
def _update(policy: Policy, state: State, action: Any, rewards: Any) -> State:
    return policy.update(state, jnp.asarray(action), jnp.asarray(rewards))
