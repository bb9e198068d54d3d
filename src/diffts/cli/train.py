"""``diffts train``: learn and save a problem's prior."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from diffts.cli import options as opt
from diffts.cli.console import say
from diffts.cli.keeping import beside, kept_training
from diffts.cli.learning import corruption_of, learn, make_plan
from diffts.cli.outputs import PRIOR, check_outputs, save_prior
from diffts.cli.plugins import load_plugins
from diffts.errors import InvalidInputError


def train(
    problem: opt.ProblemName,
    folder: Annotated[Path, opt.output("Folder for the prior.", "--out", path="DIR")],
    plugin: opt.Plugins = None,
    past_tasks: opt.PastTasks = None,
    data: opt.Data = "exact",
    missing: opt.Missing = None,
    noise: opt.Noise = None,
    seed: opt.Seed = 0,
    network: opt.NetworkName = None,
    train_steps: opt.TrainSteps = 15_000,
    paper: Annotated[
        bool, opt.learning("Constant learning rate and no average.", "--paper-recipe")
    ] = False,
    procedure: opt.ProcedureName = None,
    sure: opt.Sure = None,
    checkpoint: opt.Checkpoint = None,
    steps: Annotated[str | None, opt.learning("See --train-steps.", hidden=True)] = None,
) -> None:
    """Learn and calibrate a problem's diffusion prior, and save it.

    Stopped by Ctrl-C or SIGTERM, it keeps the training in a folder beside --out (or in that of
    --checkpoint) and prints the command that goes on.
    """
    if steps is not None:
        raise InvalidInputError("--steps: the length of a chain; gradient steps are --train-steps")
    load_plugins(plugin)
    from diffts.experiments.compare import as_known, past_and_test
    from diffts.problems import get_problem

    folders = {"--out": folder, "--checkpoint": checkpoint}
    check_outputs({}, folders, {"--plugin": plugin}, out_kind=PRIOR)
    chosen = get_problem(problem)
    plan = make_plan(train_steps, procedure, sure, network, paper)
    corruption = corruption_of(data, missing=missing, noise=noise, procedure=procedure, sure=sure)
    if paper and corruption is not None:
        raise InvalidInputError("--paper-recipe: for exact data; here --procedure paper")
    known = as_known(past_and_test(chosen, past_tasks, 0, seed), corruption, seed)
    with kept_training(checkpoint, beside(folder, "checkpoint")) as state:
        prior = learn(plan, chosen, known, seed, state)
        save_prior(prior, folder)
    say(f"Saved a prior over {prior.n_arms} arms in {folder}")
