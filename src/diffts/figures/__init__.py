"""Pictures. Matplotlib is imported only here, and only when a picture is drawn."""

from diffts.figures.regret import draw_regret
from diffts.figures.tasks import draw_evolution, draw_prior, draw_tasks

__all__ = ["draw_evolution", "draw_prior", "draw_regret", "draw_tasks"]
