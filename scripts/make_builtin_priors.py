"""Make the ready-made priors of src/diffts/priors, in half precision.

python scripts/make_builtin_priors.py popular-niche labeled-arms labeled-arms-common bidding maze
python scripts/make_builtin_priors.py maze --prior FOLDER                  # learned elsewhere (GPU)
"""

from __future__ import annotations

import argparse
from pathlib import Path

from diffts.diffusion.prior import DiffusionPrior
from diffts.experiments.learning_plan import LearningPlan
from diffts.priors import __file__ as package
from diffts.problems import get_problem


def main() -> None:
    """Make those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problem", nargs="+")
    parser.add_argument("--prior", type=Path, help="take this prior instead of training one")
    options = parser.parse_args()
    for name in options.problem:
        problem = get_problem(name)
        if options.prior is not None:
            prior = DiffusionPrior.load(options.prior)
        else:
            prior = LearningPlan("arms").learn(problem, *problem.split(seed=0)[:2])
        if prior.n_arms != problem.n_arms:
            parser.error(f"{options.prior}: {prior.n_arms} arms, {name} has {problem.n_arms}")
        folder = Path(package).parent / name
        for old in folder.glob("arrays-*"):
            old.unlink()
        prior.save(folder, half=True)
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{name}: {size / 2**20:.2f} MiB in {folder.name}/")


if __name__ == "__main__":
    main()
