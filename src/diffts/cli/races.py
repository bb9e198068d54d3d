"""Commands that race policies: the demo, and races of any policies on any problem."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from diffts.cli.common import CheckpointFolder, JsonFile, out, path_option, progress, say
from diffts.cli.keeping import beside, kept_prior, kept_training
from diffts.cli.learning import (
    Data,
    Missing,
    Noise,
    PastTasks,
    ProcedureName,
    Sure,
    find_problem,
    imperfect_data,
    imperfect_recipe,
    learn_with_progress,
    print_account,
    with_steps,
)
from diffts.cli.outputs import check_outputs, write_json
from diffts.cli.signals import this_command
from diffts.errors import InvalidInputError

if TYPE_CHECKING:
    from diffts.bandits.simulate import Simulation
    from diffts.diffusion.prior import DiffusionPrior
    from diffts.experiments.compare import Race


def demo(
    folder: Annotated[
        Path,
        typer.Option("--out", parser=path_option, metavar="DIR", help="Folder for the pictures."),
    ] = Path("out"),
    tasks: Annotated[int, typer.Option(help="Test tasks.")] = 100,
    horizon: Annotated[int, typer.Option(help="Rounds in each task.")] = 1000,
    train_steps: Annotated[int, typer.Option(help="Gradient steps of the training.")] = 7000,
    checkpoint: CheckpointFolder = None,
    seed: Annotated[int, typer.Option(help="Seed of everything.")] = 0,
    json_file: JsonFile = None,
) -> None:
    """See the point in minutes: a learned diffusion prior against the usual policies.

    Learns a prior on the popular-niche problem from scratch, calibrates it, races DiffTS against
    UCB1, GTS-diag, GTS-full and GMMTS on new tasks, prints a table and writes pictures.
    """
    from diffts.experiments.demo import DEMO_POLICIES, PICTURES, demo_race, write_pictures

    pictures = {f"picture {name} of --out": folder / name for name in PICTURES}
    check_outputs({"--json": json_file, **pictures}, {"--out": folder, "--checkpoint": checkpoint})
    started = time.perf_counter()
    race, settings = demo_race(tasks=tasks, horizon=horizon, train_steps=train_steps, seed=seed)
    with kept_training(checkpoint, beside(folder, "checkpoint")) as race.checkpoint:
        learned = learn_with_progress(race, train_steps)
    say(
        f"Learned a prior over {learned.n_arms} arms from {len(race.tasks.train)} past tasks in "
        f"{time.perf_counter() - started:.0f} s."
    )
    rest = f"--tasks {tasks} --horizon {horizon} --seed {seed} --steps {settings['steps']}"
    with kept_prior(
        lambda: learned,
        beside(folder, "prior"),
        lambda kept: (
            this_command(instead=["compare", race.problem.name, "--prior", str(kept)]) + f" {rest}"
        ),
    ):
        runs = _race(race, DEMO_POLICIES, settings)
        folder.mkdir(parents=True, exist_ok=True)
    seconds = time.perf_counter() - started
    _deliver(runs, seconds, json_file, lambda: write_pictures(race, runs, folder))
    say(f"Pictures: {', '.join(sorted(PICTURES))} in {folder}/")


def compare(
    problem: Annotated[str, typer.Argument(help="Name of the problem.")],
    policies: Annotated[
        str, typer.Option(help="Policies, separated by commas.")
    ] = "diffts,ucb1,gts-diag,gts-full,gmmts-10",
    horizon: Annotated[int | None, typer.Option(help="Rounds; the problem's default.")] = None,
    tasks: Annotated[int | None, typer.Option(help="Test tasks; the problem's default.")] = None,
    noise_std: Annotated[
        float | None, typer.Option(help="Assumed noise level; the problem's default.")
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(help="Folder of a prior saved by 'diffts train', or 'builtin'; else learn."),
    ] = None,
    sampler: Annotated[str, typer.Option(help="Posterior sampler of DiffTS.")] = "paper",
    steps: Annotated[int | None, typer.Option(help="Length of its chain.")] = None,
    train_steps: Annotated[int, typer.Option(help="Gradient steps of the training.")] = 15_000,
    checkpoint: CheckpointFolder = None,
    seed: Annotated[int, typer.Option(help="Seed of everything.")] = 0,
    logs: Annotated[
        Path | None,
        typer.Option(
            parser=path_option,
            metavar="PATH",
            help="iPinYou logs: for bidding, test on real slots, not on simulated ones.",
        ),
    ] = None,
    min_prices: Annotated[
        int, typer.Option(help="With --logs: leave out slots with fewer prices.")
    ] = 1000,
    json_file: JsonFile = None,
    figure: Annotated[
        Path | None,
        typer.Option(parser=path_option, metavar="FILE", help="Write the regret picture here."),
    ] = None,
    data: Data = "clean",
    missing: Missing = 0.5,
    noise: Noise = 0.1,
    procedure: ProcedureName = "default",
    sure: Sure = None,
    past_tasks: PastTasks = None,
) -> None:
    """Race policies on a problem and print their regret.

    With --data imperfect all priors, the baselines' too, are learned from tasks of which entries
    are missing and the others noisy.
    """
    from diffts.diffusion.posterior import as_sampler
    from diffts.experiments.compare import Race, Recipe, prepare
    from diffts.figures import draw_regret

    names = [name.strip() for name in policies.split(",") if name.strip()]
    chosen = find_problem(problem)
    as_sampler(sampler)
    horizon = chosen.horizon if horizon is None else horizon
    given = _given_prior(prior, problem, data, past_tasks)
    _check_race(given, steps, noise_std)
    check_outputs(
        {"--json": json_file, "--figure": figure},
        {"--checkpoint": checkpoint},
        {"--prior": None if prior is None else Path(prior), "--logs": logs},
    )
    sets = prepare(chosen, names, horizon, tasks, seed, past_tasks)
    source = getattr(chosen, "source", "")
    if logs is not None:
        sets, source = _real_slots(sets, problem, logs, min_prices, tasks)
        say(f"Priors from simulated ad slots, tested on {source}.")
    recipe = with_steps(Recipe(), train_steps)
    asked = procedure != "default" or sure is not None
    known = imperfect_data(data, sets, missing, noise, asked, seed)
    if known is not None:
        recipe = imperfect_recipe(recipe, procedure, train_steps, sure)
    started = time.perf_counter()
    race = Race(chosen, sets, given, recipe, seed, imperfect=known)
    learned: DiffusionPrior | None = None
    if given is not None:
        _ = race.prior  # refuses one of other arms before the first policy plays
    elif any(name.startswith("diffts") for name in names):
        default = Path(f"diffts-{chosen.name}-checkpoint")
        with kept_training(checkpoint, default) as race.checkpoint:
            learned = learn_with_progress(race, train_steps)
        if known is not None:
            print_account(learned)
    settings = {"horizon": horizon, "noise_std": noise_std, "sampler": sampler, "steps": steps}
    with kept_prior(
        None if learned is None else lambda: race.prior,
        Path(f"diffts-{chosen.name}-prior"),
        lambda kept: this_command("--prior", str(kept)),
    ):
        runs = _race(race, names, settings)
    title = f"{chosen.name}: {source}" if source else chosen.name
    title += "" if known is None else ", priors from imperfect data"
    title = title.replace("$", r"\$")  # in a file's name, no formula

    def draw() -> None:
        if figure is not None:
            draw_regret(runs, figure, title=title)

    _deliver(runs, time.perf_counter() - started, json_file, draw)


def _given_prior(
    prior: str | None, problem: str, data: str, past_tasks: int | None
) -> DiffusionPrior | None:
    """The prior that the user names; None for one to be learned."""
    from diffts.diffusion.prior import DiffusionPrior
    from diffts.priors import builtin_prior

    if prior is None:
        return None
    if not prior:
        raise InvalidInputError("--prior: is empty")
    if prior != "builtin":
        return DiffusionPrior.load(prior)
    if data != "clean":
        raise InvalidInputError("--prior: built-in ones are learned from clean data")
    if past_tasks is not None:
        raise InvalidInputError(
            "--past-tasks: a built-in prior has seen all 5000 (bidding: 1200) past tasks; "
            "others would race with fewer"
        )
    return builtin_prior(problem)


def _check_race(given: DiffusionPrior | None, steps: int | None, noise_std: float | None) -> None:
    from diffts.diffusion.schedule import Schedule

    if steps is not None:
        (Schedule.linear() if given is None else given.schedule).strided(steps)
    if noise_std is not None and not 0 < noise_std < float("inf"):
        raise InvalidInputError(f"noise_std: must be above 0 and finite, got {noise_std}")


def _real_slots(
    sets: Any, problem: str, logs: Path, min_prices: int, tasks: int | None
) -> tuple[Any, str]:
    """The same sets with real ad slots to be tested on: a test of transfer."""
    from diffts.problems import Bidding

    if problem != "bidding":
        raise InvalidInputError(f"logs: only for the bidding problem, not {problem}")
    real = Bidding.from_logs(logs, min_prices)
    assert real.win_rates is not None
    slots = len(real.win_rates) if tasks is None else tasks
    return sets._replace(test=real.sample(slots, seed=0)), real.source


def _race(race: Race, policies: Sequence[str], settings: dict[str, Any]) -> dict[str, Simulation]:
    runs: dict[str, Simulation] = {}
    for name in policies:
        with progress(f"playing {name}", 100) as advance:

            def show(done: int, total: int, advance: Any = advance) -> None:
                advance(int(100 * done / total), f"{done} decisions")

            runs[name] = race.run(name, **settings, on_block=show)
    return runs


def _deliver(
    runs: dict[str, Simulation],
    seconds: float,
    json_file: Path | None,
    draw: Callable[[], None],
) -> None:
    """JSON and table first, then the pictures; what fails stops none of the others."""
    from diffts.experiments.compare import summary

    result = summary(runs, seconds)
    try:
        write_json(json_file, result)
    finally:
        try:
            _print_table(runs, result)
        finally:
            draw()


def _print_table(runs: dict[str, Simulation], result: dict[str, Any]) -> None:
    table = Table(title=f"{result['tasks']} tasks, {result['horizon']} rounds")
    for name in ("policy", "regret ± s.e.", "simple regret", "right arm", "decisions / s"):
        table.add_column(name, justify="left" if name == "policy" else "right")
    ranked = sorted(result["regret"], key=result["regret"].get)
    for name in ranked:
        table.add_row(
            name,
            f"{result['regret'][name]:.1f} ± {result['stderr'][name]:.1f}",
            f"{result['simple_regret'][name]:.4f}",
            f"{result['share_right'][name]:.0%}",
            f"{result['decisions_per_second'][name]:,.0f}",
        )
    out.print(table)
    say(_sentence(runs, ranked))


def _sentence(runs: dict[str, Simulation], ranked: list[str]) -> str:
    """One plain sentence about the two best policies, with the paired error of their gap."""
    import numpy as np

    if len(ranked) == 1:
        return f"{ranked[0]} alone: {runs[ranked[0]].mean_regret[-1]:.1f} of regret."
    first, second = ranked[:2]
    gap = runs[second].regret[-1] - runs[first].regret[-1]
    if gap.mean() == 0.0:
        return f"{first} and {second} are level."
    error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else 0.0
    ratio = gap.mean() / runs[second].mean_regret[-1]
    said = f"{first} is first: {ratio:.0%} less regret than {second}, the next best"
    if error == 0.0:
        return f"{said}; too few tasks to say how sure that is."
    return (
        f"{said}; the gap of {gap.mean():.1f} is {gap.mean() / error:.1f} standard errors, task "
        "by task."
    )


COMMANDS: dict[Callable[..., Any], str] = {
    demo: "diffts demo --out out",
    compare: "diffts compare popular-niche --policies diffts,gts-full --horizon 500",
}
