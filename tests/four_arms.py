"""A small world of four arms, and everything that policies are made from."""

import jax.numpy as jnp
import numpy as np

from diffts import DiffusionPrior, Evidence
from diffts.bandits import Actions, Agent, BestArm
from diffts.bandits.policies import Ingredients, make_policy
from diffts.diffusion import Gaussian, GaussianMixture

K, NOISE = 4, 0.5
MEAN = np.array([0.2, 0.5, 0.1, 0.4])
COVARIANCE = 0.3 * (0.4 * np.eye(K) + 0.6)
GAUSSIAN = Gaussian(MEAN, COVARIANCE)
MIXTURE = GaussianMixture([0.3, 0.7], [MEAN, MEAN[::-1]], [COVARIANCE, 0.2 * np.eye(K) + 0.05])
ARMS = [0, 2, 2, 1, 0, 2, 2, 2, 0]
REWARDS = [0.9, 0.1, -0.2, 0.3, 1.1, 0.4, 0.0, 0.2, 0.5]
EVIDENCE = Evidence.from_history(ARMS, REWARDS, K, NOISE)


def ingredients(actions=None, order=None):
    """Everything that policies are made from, with the arms in another order if asked."""
    order = np.arange(K) if order is None else order
    block = np.ix_(order, order)
    return Ingredients(
        actions=actions or BestArm(K),
        noise=NOISE,
        prior=lambda: DiffusionPrior.gaussian(MEAN[order], COVARIANCE[block]),
        gaussian=lambda: Gaussian(MEAN[order], COVARIANCE[block]),
        mixture=lambda _: GaussianMixture(
            MIXTURE.weights, MIXTURE.means[:, order], MIXTURE.covariances[:, order][:, :, order]
        ),
        steps=10,
    )


def after(policy, arms=ARMS, rewards=REWARDS):
    state = policy.init()
    for arm, reward in zip(arms, rewards, strict=True):
        action = jnp.arange(K) == arm
        state = policy.update(state, action, jnp.where(action, reward, jnp.nan))
    return state


def play(agent, rounds=12, seed=0):
    rng = np.random.default_rng(seed)
    chosen = []
    for _ in range(rounds):
        arm = agent.choose()
        chosen.append(arm)
        agent.update(arm, float(rng.normal()))
    return chosen


def agent_of(name, seed=0, **changes):
    return Agent(make_policy(name, ingredients()), seed=seed, **changes)


class Values(Actions):
    """Shows the values by which a rule judges actions, in the place of the best of them."""

    n_arms: int = K
    single_arm = True
    arm_by_arm = True

    @property
    def offered(self):
        return jnp.ones(self.n_arms, bool)

    def best(self, values):
        return values

    def nearly_best(self, values, tolerance, favour):
        del tolerance, favour
        return values

    def rivals(self, values):
        return BestArm(self.n_arms).rivals(values)

    def cover(self):
        raise AssertionError("not for single arms")
