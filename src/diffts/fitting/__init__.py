"""From a log to a belief that decisions can be made with: what is learned, judged and kept."""

from diffts.fitting.budget import Budget
from diffts.fitting.fitted import Fitted, NewArms
from diffts.fitting.from_log import fit
from diffts.fitting.new_arms import estimate_new_arms

__all__ = ["Budget", "Fitted", "NewArms", "estimate_new_arms", "fit"]
