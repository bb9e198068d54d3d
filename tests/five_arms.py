"""A fit of five arms, for decisions: what a log would have taught."""

import numpy as np

from diffts import DiffusionPrior
from diffts.bandits.noise import BernoulliNoise, FixedNoise
from diffts.diffusion import Gaussian, GaussianMixture
from diffts.fitting import Fitted, NewArms

ARMS = ("ash", "beech", "cedar", "date", "elm")
MEAN, STD, NOISE = 0.5, 0.1, 0.2
NEW = NewArms(mean=0.4, between=0.25, within=0.1)
NOISES = {"fixed": FixedNoise(NOISE), "bernoulli": BernoulliNoise()}


def fitted(kind="independent", noise="fixed", arms=ARMS):
    """Arms of one mean and spread; but for the independent kind, they go together."""
    K = len(arms)
    mean, alone = np.full(K, MEAN), STD**2 * np.eye(K)
    together = STD**2 * (0.5 * np.eye(K) + 0.5)
    law = {
        "independent": lambda: Gaussian(mean, alone),
        "gaussian": lambda: Gaussian(mean, together),
        "mixture": lambda: GaussianMixture([0.5, 0.5], [mean, mean], [alone, together]),
        "diffusion": lambda: DiffusionPrior.gaussian(mean, together),
    }[kind]()
    return Fitted(kind, law, tuple(arms), NOISES[noise], NEW)
