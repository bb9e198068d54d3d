"""Learning a prior from data of past tasks: training and calibration."""

from diffts.learning.calibration import calibrate
from diffts.learning.clean import TrainingConfig, TrainingState, train_clean
from diffts.learning.learn import learn_prior

__all__ = ["TrainingConfig", "TrainingState", "calibrate", "learn_prior", "train_clean"]
