"""``diffts demo``: the whole method on one problem, in minutes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from diffts.cli import options as opt
from diffts.cli.console import say
from diffts.cli.keeping import beside, kept_priors, kept_training
from diffts.cli.learning import learn
from diffts.cli.outputs import check_outputs, do_all, write_json
from diffts.cli.race import play, print_outcomes
from diffts.extras import require


def demo(
    folder: Annotated[Path, opt.output("Folder for the pictures.", "--out", path="DIR")] = Path(
        "out"
    ),
    tasks: Annotated[int, opt.playing("Test tasks.")] = 100,
    horizon: Annotated[int, opt.playing("Rounds in each task.")] = 1000,
    rule: opt.Rules = None,
    train_steps: opt.TrainSteps = 3000,
    checkpoint: opt.Checkpoint = None,
    seed: opt.Seed = 0,
    json_file: opt.JsonFile = None,
) -> None:
    """See the point in minutes: a learned diffusion prior against the usual policies.

    Learns a prior on the popular-niche problem from scratch, races DiffTS by the default rule
    against UCB1, GTS-diag, GTS-full and GMMTS on new tasks, prints a table and writes pictures.
    """
    require("matplotlib", "the demo")
    from diffts.bandits.policies import split_name, with_rules
    from diffts.experiments.compare import Comparison, draw_tasks, summary
    from diffts.experiments.demo import (
        NETWORK,
        PICTURES,
        POLICIES,
        short_procedure,
        write_pictures,
    )
    from diffts.experiments.learning_plan import LearningPlan
    from diffts.problems import PopularNiche

    pictures = {f"picture {name} of --out": folder / name for name in PICTURES}
    check_outputs({"--json": json_file, **pictures}, {"--out": folder, "--checkpoint": checkpoint})
    started = time.perf_counter()
    problem = PopularNiche()
    known = list(dict.fromkeys(split_name(name)[0] for name in POLICIES))
    names = with_rules(known, rule) if rule else list(POLICIES)
    sets = draw_tasks(problem, names, horizon, tasks, seed)
    comparison = Comparison(problem, sets.train, sets.test, horizon, seed=seed)
    plan = LearningPlan("arms", NETWORK, procedure=short_procedure(train_steps))
    with kept_training(checkpoint, beside(folder, "checkpoint")) as state:
        prior = learn(plan, problem, sets[:2], seed, state)
    say(
        f"Learned a prior over {prior.n_arms} arms from {len(sets.train)} past tasks in "
        f"{time.perf_counter() - started:.0f} s."
    )
    policies = {name: split_name(name)[0] == "diffts" for name in names}
    options = f"--tasks {tasks} --horizon {horizon} --seed {seed} --policies {','.join(names)}"
    again = f"compare {problem.name} {options}".split()
    with kept_priors([prior], beside(folder, "prior"), again):
        outcomes = play(comparison, policies, {seed: prior})
        folder.mkdir(parents=True, exist_ok=True)
    result = summary(outcomes, time.perf_counter() - started)
    do_all(
        lambda: write_json(json_file, result),
        lambda: print_outcomes(outcomes, result),
        lambda: write_pictures(comparison, prior, outcomes, folder),
    )
    say(f"Pictures: {', '.join(sorted(PICTURES))} in {folder}/")
