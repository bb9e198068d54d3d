"""The paper's ablations: the paper's DiffTS with one thing changed, on fresh test tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from diffts.figures.regret_grid import draw_regret_grid
from diffts.reproduction import regret
from diffts.reproduction.profile import Profile
from diffts.reproduction.regret import Line, Panel
from diffts.reproduction.specs import APPENDIX, NO_EM, NO_SURE, WARM_UPS, Run, diffts
from diffts.reproduction.store import Told
from diffts.reproduction.work import Reproduction

#: The paper's two; and Labeled Arms with one scale for all tasks, which is a variant of ours.
PAPERS = ("popular-niche", "labeled-arms")
VARIANTS = ("labeled-arms-common",)
PROBLEMS = (*PAPERS, *VARIANTS)
NOISE_LEVELS = (0.05, 0.1)


class Ablation(NamedTuple):
    """What is varied, by the labels of its lines; with the Gaussian from such data."""

    about: str
    data: str
    field: str
    values: dict[str, str]

    def panels(self, profile: Profile) -> list[Panel]:
        """Each problem at two noise levels."""
        return [
            Panel(
                f"{regret.TITLES[problem]}\n{regret.KINDS[self.data]} data, σ̂ = {noise:g}",
                problem,
                self.data,
                noise,
                tuple(self._lines(problem, noise, profile.seeds)),
            )
            for problem in PROBLEMS
            for noise in NOISE_LEVELS
        ]

    def _lines(self, problem: str, noise: float, seeds: Sequence[int]) -> list[Line]:
        of = (problem, self.data, noise)
        lines = []
        for label, value in self.values.items():
            how: dict[str, Any] = {"learner": APPENDIX} | {self.field: value}
            lines.append(Line(label, tuple(diffts(*of, seed=seed, **how) for seed in seeds)))
        if self.data != "perfect":
            runs = (Run(problem, self.data, "gts-full", noise, seed=seed) for seed in seeds)
            lines.append(Line("gts-full", tuple(runs)))
        return lines


ABLATIONS = {
    "sampled-noise": Ablation(
        "predicted or sampled noise in the diffused observation",
        "perfect",
        "sampler",
        {"predicted noise": "paper", "sampled noise": "paper-sampled-noise"},
    ),
    "variance": Ablation(
        "three reverse variances",
        "perfect",
        "variance",
        {"calibrated": "calibrated", "partly calibrated": "partial", "not calibrated": "plain"},
    ),
    "noisy-data": Ablation(
        "λ of the SURE term on noisy data",
        "noisy",
        "learner",
        {f"λ = {sure:g}": name for name, sure in WARM_UPS.items()},
    ),
    "incomplete-data": Ablation(
        "EM on incomplete data",
        "incomplete",
        "learner",
        {"with EM": APPENDIX, "without EM": NO_EM},
    ),
    "noisy-incomplete-data": Ablation(
        "EM and SURE on noisy, incomplete data",
        "imperfect",
        "learner",
        {"EM and SURE": APPENDIX, "EM, λ = 0": NO_SURE, "SURE, no EM": NO_EM},
    ),
}


def tell(work: Reproduction, panels: Sequence[Panel], path: Path) -> Told:
    """Rows and summary of panels, and their picture: a row for each noise level."""
    of = [regret.curves(work.store, panel) for panel in panels]
    both = list(zip(panels, of, strict=True))
    grid = [
        [regret.grid_panel(*one) for one in both if one[0].noise_std == noise]
        for noise in NOISE_LEVELS
    ]
    draw_regret_grid([row for row in grid if row], path.with_suffix(".png"))
    summaries = [regret.summary_of(*one) for one in both]
    return regret.rows(panels, of), {"panels": summaries}
