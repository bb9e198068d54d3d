"""``diffts groups``: the 20 Groups toy, whose half-hidden tasks a good draw completes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from diffts.cli import options as opt
from diffts.cli.console import out, table_of
from diffts.cli.keeping import kept_training
from diffts.cli.learning import given_priors, learn, make_plan
from diffts.cli.outputs import check_outputs, do_all, write_json
from diffts.cli.plugins import load_plugins

#: Observations diffused with predicted noise, and with sampled noise.
PAPER_SAMPLERS = ("paper", "paper-sampled-noise")


def groups(
    sampler: Annotated[
        list[str] | None,
        opt.playing("Posterior sampler; repeatable. Default: paper and paper-sampled-noise."),
    ] = None,
    plugin: opt.Plugins = None,
    seed: opt.Seed = 0,
    network: Annotated[str, opt.learning("Network to train.")] = "residual-conv",
    train_steps: opt.TrainSteps = 15_000,
    prior: Annotated[
        str | None, opt.learning("Folder of a prior learned on 20 Groups; else learn.")
    ] = None,
    checkpoint: opt.Checkpoint = None,
    json_file: opt.JsonFile = None,
) -> None:
    """Complete half-hidden tasks of the 20 Groups toy, with a prior trained on it.

    Prints recall and precision of the groups found in posterior draws; by default with the
    paper's sampler, whose observations are diffused with predicted and with sampled noise.
    """
    load_plugins(plugin)
    from diffts.diffusion.posterior import SAMPLERS
    from diffts.experiments.compare import past_and_test
    from diffts.problems.groups import Groups, hide, recall_precision
    from diffts.validation import one_of

    problem, named = Groups(), [] if prior is None else [prior]
    samplers = [one_of("sampler", name, SAMPLERS) for name in sampler or PAPER_SAMPLERS]
    plan = make_plan(train_steps, network=network, paper=True)
    inputs = {"--prior": named, "--plugin": plugin}
    check_outputs({"--json": json_file}, {"--checkpoint": checkpoint}, inputs)
    given = given_priors(named, problem)
    sets = past_and_test(problem, None, None, seed)
    if not given:
        with kept_training(checkpoint, Path("diffts-groups-checkpoint")) as state:
            given = [learn(plan, problem, sets[:2], seed, state, "training")]
    title = f"20 Groups: half of the entries hidden, {len(sets.test)} tasks"
    table = table_of(title, ["sampler"], "recall", "precision")
    evidence, rows = hide(sets.test, seed=seed + 1), []
    for name in samplers:
        draws = given[0].posterior_sample(evidence, sampler=name, seed=seed)
        recall, precision = recall_precision(sets.test, draws)
        table.add_row(name, f"{recall:.1%}", f"{precision:.1%}")
        rows.append({"sampler": name, "recall": recall, "precision": precision})
    do_all(lambda: write_json(json_file, rows), lambda: out.print(table))
