"""The agent for people: ``choose()``, ``update(arm, reward)``, and a state to save.

It wraps any policy for one task at a time. Nothing is global: an agent has its own seed, its own
history, and arms that may have names.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from diffts.bandits.actions import Actions, BestArm
from diffts.bandits.policies.diffts import DiffTS
from diffts.bandits.policies.policy import Policy, State
from diffts.diffusion.posterior import PosteriorSampler
from diffts.diffusion.prior import DiffusionPrior
from diffts.errors import ArtifactError, InvalidInputError
from diffts.seeding import Seed, as_key
from diffts.storage import load_folder, named_arrays, save_folder, with_arrays
from diffts.validation import float_array, require_finite, whole_number

_KIND, _VERSION = "diffts.agent", 1


class Probabilities(NamedTuple):
    """How likely each arm is the best, and from how many draws that was counted."""

    by_arm: dict[Any, float]
    draws: int


class Agent:
    """Any policy, playing one task.

    Args:
        policy: the policy.
        arms: names of the arms; by default the numbers 0 to K-1.
        actions: what may be played; single arms by default.
        seed: an int, a NumPy generator or a JAX key.

    >>> from diffts.bandits.policies import UCB1
    >>> agent = Agent(UCB1(2, noise_std=0.1), arms=["left", "right"], seed=0)
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
        seed: Seed = 0,
    ) -> None:
        self.policy = policy
        self.actions = BestArm(policy.n_arms) if actions is None else actions
        self.arms = list(range(policy.n_arms)) if arms is None else list(arms)
        if len(self.arms) != policy.n_arms or len(set(self.arms)) != policy.n_arms:
            raise InvalidInputError(
                f"arms: expected {policy.n_arms} different names, got {len(self.arms)} "
                f"({len(set(self.arms))} different)"
            )
        self._index = {name: index for index, name in enumerate(self.arms)}
        self._key = as_key(seed)
        self._choices = 0
        self._state: State = policy.init()
        self._offered = np.zeros(policy.n_arms, bool)

    def choose(self, among: Sequence[Any] | None = None) -> Any:
        """The arm to play now (for sets of arms: the list of them).

        Args:
            among: the arms on offer this time; all by default. Only for single arms.
        """
        key = jax.random.fold_in(self._key, self._choices)
        if among is None:
            offered = np.ones(self.policy.n_arms, bool)
            action = np.asarray(_select(self.policy, key, self._state, self.actions))
        else:
            offered = self._mask_of(among)
            action = np.asarray(_select_among(self.policy, key, self._state, offered))
        self._choices += 1
        self._offered |= offered
        chosen = [self.arms[i] for i in np.flatnonzero(action)]
        return chosen[0] if self.actions.single_arm else chosen

    def update(self, arm: Any, reward: Any) -> None:
        """Tell what a pull gave; or several pulls, as two lists of the same length.

        Rewards may come late and in any order, also of pulls from before this agent's first
        choice. If anything is wrong with one of them, an error is raised and nothing is learned
        from any.
        """
        several = isinstance(arm, list | tuple | np.ndarray) and arm not in self._names()
        pulled = list(arm) if several else [arm]
        rewards = float_array("reward", reward)
        if rewards.shape != ((len(pulled),) if several else ()):
            raise InvalidInputError(
                f"reward: expected one for each of {len(pulled)} arm(s), got shape {rewards.shape}"
            )
        require_finite("reward", rewards)
        indices = [self._index_of(name) for name in pulled]
        if self._offered.any() and not self._offered[indices].all():
            never = next(i for i in indices if not self._offered[i])
            raise InvalidInputError(f"arm: {self.arms[never]!r} was never offered")
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

    def probabilities(self, draws: int = 1000) -> Probabilities:
        """The chance of each arm to be played: how often it is chosen in fresh draws.

        For Thompson sampling this is the posterior probability that the arm is the best one. It
        does not change what ``choose`` will do.
        """
        draws = whole_number("draws", draws, 1)
        key = jax.random.fold_in(jax.random.fold_in(self._key, 2**31 - 1), self._choices)
        counts = np.zeros(self.policy.n_arms)
        for start in range(0, draws, 250):
            size = min(250, draws - start)
            keys = jax.random.split(jax.random.fold_in(key, start), 250)
            chosen = np.asarray(_select_many(self.policy, keys, self._state, self.actions))
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
            "offered": self._offered,
        }
        return {
            **{f"state{name}": leaf for name, leaf in named_arrays(self._state).items()},
            **extra,
        }

    @state.setter
    def state(self, arrays: dict[str, NDArray[Any]]) -> None:
        prefix = "state"
        inner = {n[len(prefix) :]: a for n, a in arrays.items() if n.startswith(prefix)}
        state = with_arrays(self.policy.init(), inner, "state")
        if missing := {"key", "choices", "offered"} - arrays.keys():
            raise ArtifactError(f"state: damaged (no {min(missing)})")
        self._key = jax.random.wrap_key_data(jnp.asarray(arrays["key"]))
        self._choices, self._state = int(arrays["choices"]), state
        self._offered = np.array(arrays["offered"], bool)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the state to a folder (the policy itself, with its prior, is saved apart)."""
        names = [str(name) for name in self.arms]
        save_folder(directory, _KIND, _VERSION, {"arms": names}, self.state)

    def load(self, directory: str | os.PathLike[str]) -> None:
        """Go on from a state that an agent with the same policy and arms saved."""
        content, arrays = load_folder(directory, _KIND, _VERSION)
        if content.get("arms") != [str(name) for name in self.arms]:
            raise ArtifactError(f"{directory}: saved with other arms")
        self.state = arrays

    def _mask_of(self, among: Sequence[Any]) -> NDArray[np.bool_]:
        if not self.actions.single_arm:
            raise InvalidInputError("among: only for agents that play single arms")
        if not len(among):
            raise InvalidInputError("among: no arm on offer")
        mask = np.zeros(self.policy.n_arms, bool)
        mask[[self._index_of(name) for name in among]] = True
        return mask

    def _names(self) -> list[Any]:
        return self.arms if any(isinstance(name, tuple) for name in self.arms) else []

    def _index_of(self, name: Any) -> int:
        try:
            return self._index[name]
        except (KeyError, TypeError):
            shown = ", ".join(map(repr, self.arms[:5])) + (", …" if len(self.arms) > 5 else "")
            raise InvalidInputError(f"arm: unknown arm {name!r}; arms are {shown}") from None


class ThompsonSampling(Agent):
    """DiffTS for people: Thompson sampling with a diffusion prior, for one task.

    Args:
        prior: the diffusion prior.
        noise_std: assumed standard deviation of one reward.
        arms: names of the arms; by default the numbers 0 to K-1.
        actions: what may be played; single arms by default.
        sampler, steps, variance: how to draw (see ``DiffusionPrior.posterior_sample``).
        seed: an int, a NumPy generator or a JAX key.

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
        noise_std: float,
        *,
        arms: Sequence[Any] | None = None,
        actions: Actions | None = None,
        sampler: str | PosteriorSampler = "paper",
        steps: int | None = None,
        variance: str = "calibrated",
        seed: Seed = 0,
    ) -> None:
        noise = float_array("noise_std", noise_std, ndim=0)
        if not (np.isfinite(noise) and noise > 0):
            raise InvalidInputError(f"noise_std: must be above 0, got {noise_std}")
        policy = DiffTS(prior, float(noise), sampler=sampler, steps=steps, variance=variance)
        super().__init__(policy, arms=arms, actions=actions, seed=seed)


@eqx.filter_jit
def _select(policy: Policy, key: Any, state: State, actions: Actions) -> Any:
    return policy.select(key, state, actions)


@eqx.filter_jit
def _select_many(policy: Policy, keys: Any, state: State, actions: Actions) -> Any:
    return jax.vmap(lambda key: policy.select(key, state, actions))(keys)


@eqx.filter_jit
def _select_among(policy: Policy, key: Any, state: State, offered: Any) -> Any:
    values = jnp.where(jnp.asarray(offered), policy.values(key, state), -jnp.inf)
    return BestArm(policy.n_arms).best(values)


@eqx.filter_jit
def _update(policy: Policy, state: State, action: Any, rewards: Any) -> State:
    return policy.update(state, jnp.asarray(action), jnp.asarray(rewards))
