"""``diffts compare``: policies against each other on any problem."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from diffts.cli import options as opt
from diffts.cli.console import progress, say
from diffts.cli.keeping import kept_priors, kept_training
from diffts.cli.learning import corruption_of, given_priors, learn, make_plan
from diffts.cli.outputs import check_outputs, do_all, write_csv, write_json
from diffts.cli.plugins import load_plugins
from diffts.cli.race import play, print_outcomes
from diffts.errors import InvalidInputError

if TYPE_CHECKING:
    from diffts.problems.problem import Tasks


def compare(
    problem: opt.ProblemName,
    data: opt.Data = "exact",
    missing: opt.Missing = None,
    noise: opt.Noise = None,
    past_tasks: opt.PastTasks = None,
    tasks: Annotated[int | None, opt.problem("Test tasks; the problem's default.")] = None,
    logs: Annotated[
        Path | None,
        opt.problem("iPinYou logs: test bidding on real slots, not simulated ones.", path="PATH"),
    ] = None,
    min_prices: Annotated[int, opt.problem("Of --logs, slots with so many prices.")] = 1000,
    plugin: opt.Plugins = None,
    seed: opt.Seed = 0,
    seeds: Annotated[int, opt.problem("So many trainings and rewards: seed, seed + 1, …")] = 1,
    prior: Annotated[
        list[str] | None,
        opt.learning(
            "Folder of a prior saved by 'diffts train', or 'builtin'; else learn. Repeatable: "
            "one for each of the seeds."
        ),
    ] = None,
    network: opt.NetworkName = None,
    train_steps: opt.TrainSteps = 15_000,
    procedure: opt.ProcedureName = None,
    sure: opt.Sure = None,
    checkpoint: opt.Checkpoint = None,
    policies: Annotated[
        str, opt.playing("Policies, separated by commas.")
    ] = "diffts,ucb1,gts-diag,gts-full,gmmts-10",
    horizon: Annotated[int | None, opt.playing("Rounds; the problem's default.")] = None,
    rule: opt.Rules = None,
    floor: Annotated[float, opt.playing("Least chance of every arm on offer.")] = 0.0,
    noise_std: Annotated[
        str | None,
        opt.playing("Assumed noise: a number, 'auto' or 'bernoulli'; the problem's default."),
    ] = None,
    sampler: Annotated[
        list[str] | None,
        opt.playing("Posterior sampler of DiffTS; repeatable. Default: the prior's own."),
    ] = None,
    steps: opt.Steps = None,
    json_file: opt.JsonFile = None,
    csv_file: Annotated[
        Path | None, opt.output("Write a row for each round and task here.", "--csv", path="FILE")
    ] = None,
    figure: Annotated[Path | None, opt.output("Draw the regret here.", path="FILE")] = None,
) -> None:
    """Race policies on a problem and print their regret.

    With --data imperfect all priors, the baselines' too, are learned from tasks of which entries
    are missing and the others noisy.
    """
    load_plugins(plugin)
    from diffts.bandits import RULES
    from diffts.bandits.noise import as_noise, number_or_word
    from diffts.bandits.policies import with_rules
    from diffts.circumstances import circumstances
    from diffts.diffusion.posterior import SAMPLERS
    from diffts.diffusion.schedule import Schedule
    from diffts.experiments.compare import Comparison, as_known, draw_tasks, summary
    from diffts.figures import draw_regret
    from diffts.problems import get_problem
    from diffts.validation import number_between, one_of, whole_number

    # All that can be refused is refused before anything takes time.
    chosen = get_problem(problem)
    names = [name.strip() for name in policies.split(",") if name.strip()]
    names = with_rules(names, [one_of("rule", one, RULES) for one in rule or []])
    number_between("floor", floor, 0.0, 1.0)
    samplers = list(dict.fromkeys(one_of("sampler", one, SAMPLERS) for one in sampler or []))
    assumed = chosen.noise_std if noise_std is None else number_or_word(noise_std)
    as_noise(assumed).check_law(chosen.rewards.bounds)
    corruption = corruption_of(data, missing=missing, noise=noise, procedure=procedure, sure=sure)
    plan = make_plan(train_steps, procedure, sure, network)
    named = prior or []
    if len(named) not in (0, 1, seeds):
        raise InvalidInputError(f"--prior: {len(named)} of them for {seeds} seeds")
    check_outputs(
        {"--json": json_file, "--csv": csv_file, "--figure": figure},
        {"--checkpoint": checkpoint},
        {"--prior": named, "--plugin": plugin, "--logs": [logs] if logs else None},
    )
    given = given_priors(named, chosen, data, past_tasks)
    if steps is not None:
        schedules = [one.schedule for one in given] or [Schedule.linear()]
        steps = whole_number("steps", steps, 1, min(one.n_steps for one in schedules))
    horizon = chosen.horizon if horizon is None else horizon
    sets = draw_tasks(chosen, names, horizon, tasks, seed, past_tasks, seeds)
    source = getattr(chosen, "source", "")
    if logs is not None:
        test, source = _real_slots(problem, logs, min_prices, tasks)
        sets = sets._replace(test=test)
        say(f"Priors from simulated ad slots, tested on {source}.")

    started = time.perf_counter()
    known = as_known(sets, corruption, seed)
    comparison = Comparison(chosen, known[0], sets.test, horizon, assumed, seed, floor)
    draws: dict[str, bool] = {}
    with progress("fitting the baselines", len(names)) as advance:
        for name in names:
            advance(len(draws), name)
            draws[name] = comparison.draws_from_prior(name)
    all_seeds = list(range(seed, seed + seeds))
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
    with kept_priors(learned, Path(f"diffts-{chosen.name}-prior")):
        outcomes = play(comparison, draws, by_seed, samplers or [None], steps)

    result = {
        "problem": chosen.name,
        "data": data,
        "corruption": None if corruption is None else dataclasses.asdict(corruption),
        "seeds": all_seeds,
        "prior": prior or ("learned" if learned else None),
        "samplers": samplers or sorted({one.sampler for one in outcomes.values() if one.sampler}),
        "steps": steps,
        "noise_std": assumed,
        "floor": floor,
        "versions": circumstances(),
        **summary(outcomes, time.perf_counter() - started),
    }
    labels = {"problem": chosen.name, "noise_std": assumed}
    rows = (row for outcome in outcomes.values() for row in outcome.rows(**labels))
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
