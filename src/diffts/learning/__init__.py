"""Learning a prior from data of past tasks: training and calibration."""

from diffts.learning.calibration import calibrate, calibrate_imperfect
from diffts.learning.clean import train_clean
from diffts.learning.learn import learn_prior
from diffts.learning.learn_imperfect import Progress, choose_sure, learn_prior_imperfect
from diffts.learning.procedure import PROCEDURES, Procedure
from diffts.learning.training import TrainingConfig, TrainingState

__all__ = [
    "PROCEDURES",
    "Procedure",
    "Progress",
    "TrainingConfig",
    "TrainingState",
    "calibrate",
    "calibrate_imperfect",
    "choose_sure",
    "learn_prior",
    "learn_prior_imperfect",
    "train_clean",
]
