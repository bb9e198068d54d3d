"""``diffts compare``: policies against each other on any problem."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from diffts.cli import options
from diffts.cli.console import progress, say
from diffts.cli.keeping import kept_priors, kept_training
from diffts.cli.learning import check_arms, corruption_of, given_priors, learn, make_plan
from diffts.cli.outputs import check_outputs, do_all, write_csv, write_json
from diffts.cli.plugins import load_plugins
from diffts.cli.race import play, print_outcomes
from diffts.cli.signals import this_command
from diffts.errors import InvalidInputError

if TYPE_CHECKING:
    from diffts.problems.problem import Tasks


def compare(
    problem: options.ProblemName,
    policies: Annotated[
        str, options.playing("Policies, separated by commas.")
    ] = "diffts,ucb1,gts-diag,gts-full,gmmts-10",
    horizon: Annotated[int | None, options.playing("Rounds; the problem's default.")] = None,
    tasks: Annotated[int | None, options.playing("Test tasks; the problem's default.")] = None,
    noise_std: Annotated[
        float | None, options.playing("Assumed noise level; the problem's default.")
    ] = None,
    sampler: Annotated[
        list[str] | None,
        options.playing("Posterior sampler of DiffTS; repeatable. paper."),
    ] = None,
    steps: options.Steps = None,
    plugin: options.Plugins = None,
    past_tasks: options.PastTasks = None,
    data: options.Data = "exact",
    missing: options.Missing = None,
    noise: options.Noise = None,
    seed: options.Seed = 0,
    seeds: Annotated[int, options.problem("So many trainings and rewards: seed, seed + 1, …")] = 1,
    logs: Annotated[
        Path | None,
        options.problem(
            "iPinYou logs: for bidding, test on real slots, not on simulated ones.", path="PATH"
        ),
    ] = None,
    min_prices: Annotated[
        int, options.problem("With --logs: leave out slots with fewer prices.")
    ] = 1000,
    prior: Annotated[
        list[str] | None,
        options.learning(
            "Folder of a prior saved by 'diffts train', or 'builtin'; else learn. Repeatable: "
            "one for each of the seeds.",
        ),
    ] = None,
    train_steps: options.TrainSteps = 15_000,
    procedure: options.ProcedureName = None,
    sure: options.Sure = None,
    checkpoint: options.Checkpoint = None,
    json_file: options.JsonFile = None,
    csv_file: Annotated[
        Path | None,
        options.output("Write a row for each round and task here.", "--csv", path="FILE"),
    ] = None,
    figure: Annotated[
        Path | None, options.output("Write the regret picture here.", path="FILE")
    ] = None,
) -> None:
    """Race policies on a problem and print their regret.

    With --data imperfect all priors, the baselines' too, are learned from tasks of which entries
    are missing and the others noisy.
    """
    load_plugins(plugin)
    from diffts.circumstances import circumstances
    from diffts.diffusion.posterior import SAMPLERS
    from diffts.diffusion.schedule import Schedule
    from diffts.experiments.compare import (
        Comparison,
        as_known,
        draw_tasks,
        summary,
    )
    from diffts.figures import draw_regret
    from diffts.problems import get_problem
    from diffts.validation import one_of, positive_number, whole_number

    names = [name.strip() for name in policies.split(",") if name.strip()]
    chosen = get_problem(problem)
    samplers = list(dict.fromkeys(one_of("sampler", one, SAMPLERS) for one in sampler or ["paper"]))
    horizon = chosen.horizon if horizon is None else horizon
    noise_std = chosen.noise_std if noise_std is None else positive_number("noise_std", noise_std)
    corruption = corruption_of(data, missing=missing, noise=noise, procedure=procedure, sure=sure)
    plan = make_plan(train_steps, procedure, sure)
    given = given_priors(prior or [], chosen, data, past_tasks)
    if len(given) not in (0, 1, seeds):
        raise InvalidInputError(f"--prior: {len(given)} of them for {seeds} seeds")
    if steps is not None:
        schedule = given[0].schedule if given else Schedule.linear()
        whole_number("steps", steps, 1, schedule.n_steps)
    inputs = [("--prior", one) for one in prior or []] + [("--plugin", one) for one in plugin or []]
    check_outputs(
        {"--json": json_file, "--csv": csv_file, "--figure": figure},
        {"--checkpoint": checkpoint},
        [*inputs, ("--logs", logs)],
    )
    for one in given:
        check_arms(one, chosen)
    sets = draw_tasks(chosen, names, horizon, tasks, seed, past_tasks, seeds)
    all_seeds = list(range(seed, seed + seeds))
    source = getattr(chosen, "source", "")
    if logs is not None:
        test, source = _real_slots(problem, logs, min_prices, tasks)
        sets = sets._replace(test=test)
        say(f"Priors from simulated ad slots, tested on {source}.")
    known = as_known(sets, corruption, seed)
    comparison = Comparison(chosen, known[0], sets.test, horizon, noise_std, seed)
    started = time.perf_counter()
    with progress("fitting the baselines", len(names)) as advance:
        draws = {}
        for name in names:
            advance(len(draws), name)
            draws[name] = comparison.draws_from_prior(name)
    learned = []
    if any(draws.values()) and not given:
        with kept_training(checkpoint, Path(f"diffts-{chosen.name}-checkpoint")) as state:
            for one_seed in all_seeds:
                folder, what = state, "learning the prior"
                if seeds > 1:
                    folder, what = state / f"seed-{one_seed}", f"{what} of seed {one_seed}"
                learned.append(learn(plan, chosen, known, one_seed, folder, what))
    priors: list[Any] = learned or given or [None]
    by_seed = dict(zip(all_seeds, priors * seeds, strict=False))  # one for all, or one for each
    with kept_priors(
        learned, Path(f"diffts-{chosen.name}-prior"), lambda more: this_command(*more)
    ):
        outcomes = play(comparison, draws, by_seed, samplers, steps)
    result = {
        "problem": chosen.name,
        "data": data,
        "corruption": None if corruption is None else dataclasses.asdict(corruption),
        "seeds": all_seeds,
        "samplers": samplers,
        "steps": steps or (priors[0].schedule.n_steps if priors[0] else None),
        "noise_std": noise_std,
        "prior": prior or "learned",
        "versions": circumstances(),
        **summary(outcomes, time.perf_counter() - started),
    }
    rows = (
        row
        for outcome in outcomes.values()
        for row in outcome.rows(problem=chosen.name, noise_std=noise_std)
    )
    title = f"{chosen.name}: {source}" if source else chosen.name
    title += "" if corruption is None else ", priors from imperfect data"

    def draw() -> None:
        if figure is not None:
            draw_regret(outcomes, figure, title=title.replace("$", r"\$"))  # no formula

    do_all(
        lambda: write_json(json_file, result),
        lambda: write_csv(csv_file, rows),
        lambda: print_outcomes(outcomes, result),
        draw,
    )


def _real_slots(problem: str, logs: Path, min_prices: int, tasks: int | None) -> tuple[Tasks, str]:
    """Real ad slots to be tested on, for a test of transfer; and where they come from."""
    from diffts.problems import Bidding

    if problem != "bidding":
        raise InvalidInputError(f"logs: only for the bidding problem, not {problem}")
    real = Bidding.from_logs(logs, min_prices)
    assert real.win_rates is not None
    return real.sample(len(real.win_rates) if tasks is None else tasks, seed=0), real.source
