"""From a log to a belief that decisions can be made with: what is learned, judged and kept."""

from diffts.fitting.fitted import Fitted, NewArms
from diffts.fitting.from_log import fit

__all__ = ["Fitted", "NewArms", "fit"]
