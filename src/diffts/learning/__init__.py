"""Learning a prior from data of past tasks: training and calibration."""

from diffts.learning.arms import ArmProcedure
from diffts.learning.calibration import calibrate, calibrate_imperfect
from diffts.learning.checkpoint import CheckpointWarning, TrainingStopped
from diffts.learning.fits import FactorFit, fit_diagonal, fit_gaussian, fit_mixture
from diffts.learning.learn import Lesson, Progress, fit_start, learn_prior, learn_priors
from diffts.learning.ours import OurProcedure
from diffts.learning.paper import PaperProcedure
from diffts.learning.procedure import PROCEDURES, Procedure
from diffts.learning.sure import choose_sure
from diffts.learning.training import TrainingConfig, TrainingState
from diffts.learning.within import learn_prior_within

__all__ = [
    "PROCEDURES",
    "ArmProcedure",
    "CheckpointWarning",
    "FactorFit",
    "Lesson",
    "OurProcedure",
    "PaperProcedure",
    "Procedure",
    "Progress",
    "TrainingConfig",
    "TrainingState",
    "TrainingStopped",
    "calibrate",
    "calibrate_imperfect",
    "choose_sure",
    "fit_diagonal",
    "fit_gaussian",
    "fit_mixture",
    "fit_start",
    "learn_prior",
    "learn_prior_within",
    "learn_priors",
]
