"""Make the ready-made priors of src/diffts/priors, in half precision.

python scripts/make_builtin_priors.py popular-niche labeled-arms labeled-arms-common bidding
python scripts/make_builtin_priors.py maze --prior FOLDER                  # learned elsewhere (GPU)
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from diffts.diffusion.prior import DiffusionPrior
from diffts.experiments.reproduce.profile import PROFILES
from diffts.experiments.reproduce.recipes import recipe_for
from diffts.learning import learn_prior
from diffts.priors import __file__ as package
from diffts.problems import get_problem

#: Narrower where the reproduction's network would be over 3 MB.
NARROWER = {"popular-niche": {"width": 256}}


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
            recipe = recipe_for(problem, PROFILES["paper"])
            sizes = {**(recipe.options or {}), **NARROWER.get(name, {})}
            recipe = dataclasses.replace(recipe, options=sizes)
            tasks = problem.split(seed=0)
            how = recipe.network_for(problem)
            prior = learn_prior(*tasks[:2], config=recipe.training, seed=0, **how)
        if prior.n_arms != problem.n_arms:
            parser.error(f"{options.prior}: {prior.n_arms} arms, {name} has {problem.n_arms}")
        folder = Path(package).parent / name
        prior.save(folder, half=True)
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{name}: {size / 2**20:.2f} MiB in {folder.name}/")


if __name__ == "__main__":
    main()
