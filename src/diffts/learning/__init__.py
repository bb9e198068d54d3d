"""Learning a prior from data of past tasks: training and calibration."""

from diffts.learning.calibration import calibrate, calibrate_imperfect
from diffts.learning.checkpoint import CheckpointWarning, TrainingStopped
from diffts.learning.factor import FactorFit
from diffts.learning.front import Lesson, learn_prior, learn_priors
from diffts.learning.learn_imperfect import Progress, fit_start
from diffts.learning.procedure import PROCEDURES, Procedure
from diffts.learning.sure import choose_sure
from diffts.learning.training import TrainingConfig, TrainingState

__all__ = [
    "PROCEDURES",
    "CheckpointWarning",
    "FactorFit",
    "Lesson",
    "Procedure",
    "Progress",
    "TrainingConfig",
    "TrainingState",
    "TrainingStopped",
    "calibrate",
    "calibrate_imperfect",
    "choose_sure",
    "fit_start",
    "learn_prior",
    "learn_priors",
]
