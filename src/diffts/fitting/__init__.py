"""From a log to a belief that decisions can be made with: what is learned, judged and kept."""

from diffts.fitting.fitted import Fitted, NewArms

__all__ = ["Fitted", "NewArms"]
