"""Commands about bandits: the demo, races between policies, training and looking at priors."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from diffts.cli.common import (
    JsonFile,
    check_writable,
    out,
    phase_progress,
    progress,
    write_json,
)
from diffts.errors import InvalidInputError

Data = Annotated[
    str, typer.Option(help="What priors are learned from: 'clean' means or 'imperfect' data.")
]
Missing = Annotated[float, typer.Option(help="Imperfect data: probability of a missing entry.")]
Noise = Annotated[float, typer.Option(help="Imperfect data: noise level of the others.")]
ProcedureName = Annotated[
    str,
    typer.Option(help="Imperfect data: default, paper, paper-without-em, ipinyou or images."),
]
Sure = Annotated[
    str | None,
    typer.Option(help="Imperfect data: λ of the SURE term, or 'auto' for a held-out choice."),
]

PastTasks = Annotated[
    int | None,
    typer.Option(help="Past tasks to learn from, and a fifth as many to calibrate on."),
]

if TYPE_CHECKING:
    from diffts.bandits.simulate import Simulation
    from diffts.experiments.compare import Race


def demo(
    folder: Annotated[Path, typer.Option("--out", help="Folder for the pictures.")] = Path("out"),
    tasks: Annotated[int, typer.Option(help="Test tasks.")] = 100,
    horizon: Annotated[int, typer.Option(help="Rounds in each task.")] = 1000,
    train_steps: Annotated[int, typer.Option(help="Gradient steps of the training.")] = 7000,
    seed: Annotated[int, typer.Option(help="Seed of everything.")] = 0,
    json_file: JsonFile = None,
) -> None:
    """See the point in minutes: a learned diffusion prior against the usual policies.

    Learns a prior on the popular-niche problem from scratch, calibrates it, races DiffTS against
    UCB1, GTS-diag, GTS-full and GMMTS on new tasks, prints a table and writes pictures.
    """
    from diffts.experiments.demo import DEMO_POLICIES, demo_race, write_pictures

    check_writable("--json", json_file)
    if folder.exists() and not folder.is_dir():
        raise InvalidInputError(f"--out: {folder} is not a folder")
    started = time.perf_counter()
    with progress("learning the prior", train_steps) as advance:
        race, settings = demo_race(
            tasks=tasks,
            horizon=horizon,
            train_steps=train_steps,
            seed=seed,
            on_training=lambda state: advance(int(state.step), f"loss {float(state.loss):.4f}"),
        )
        learned = race.prior
    out.print(
        f"Learned a prior over {learned.n_arms} arms from {len(race.tasks.train)} past tasks in "
        f"{time.perf_counter() - started:.0f} s.",
        highlight=False,
    )
    runs = _race(race, DEMO_POLICIES, settings)
    folder.mkdir(parents=True, exist_ok=True)
    write_pictures(race, runs, folder)
    _report(runs, time.perf_counter() - started, json_file)
    out.print(f"Pictures: {', '.join(sorted(p.name for p in folder.glob('*.png')))} in {folder}/")


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
    seed: Annotated[int, typer.Option(help="Seed of everything.")] = 0,
    logs: Annotated[
        Path | None,
        typer.Option(help="iPinYou logs: for bidding, test on real slots, not on simulated ones."),
    ] = None,
    min_prices: Annotated[
        int, typer.Option(help="With --logs: leave out slots with fewer prices.")
    ] = 1000,
    json_file: JsonFile = None,
    figure: Annotated[Path | None, typer.Option(help="Write the regret picture here.")] = None,
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
    from diffts.diffusion.prior import DiffusionPrior
    from diffts.diffusion.schedule import Schedule
    from diffts.experiments.compare import Race, Recipe, prepare
    from diffts.figures import draw_regret
    from diffts.priors import builtin_prior

    check_writable("--json", json_file)
    check_writable("--figure", figure)
    names = [name.strip() for name in policies.split(",") if name.strip()]
    chosen = _problem(problem)
    as_sampler(sampler)
    if steps is not None:
        Schedule.linear().strided(steps)
    if noise_std is not None and not noise_std > 0:
        raise InvalidInputError(f"noise_std: must be above 0, got {noise_std}")
    horizon = chosen.horizon if horizon is None else horizon
    sets = prepare(chosen, names, horizon, tasks, seed, past_tasks)
    source = getattr(chosen, "source", "")
    if logs is not None:
        sets, source = _real_slots(sets, problem, logs, min_prices, tasks)
        out.print(f"Priors from simulated ad slots, tested on {source}.", highlight=False)
    given = None
    if prior == "builtin":
        if data != "clean":
            raise InvalidInputError("--prior: built-in ones are learned from clean data")
        if past_tasks is not None:
            raise InvalidInputError(
                "--past-tasks: a built-in prior has seen all 5000 (bidding: 1200) past tasks; "
                "others would race with fewer"
            )
        given = builtin_prior(problem)
    elif prior is not None:
        given = DiffusionPrior.load(prior)
    recipe = _recipe(Recipe(), train_steps)
    asked = procedure != "default" or sure is not None
    known = _imperfect(data, sets, missing, noise, asked, seed)
    if known is not None:
        recipe = _imperfect_recipe(recipe, procedure, train_steps, sure)
    started = time.perf_counter()
    race = Race(chosen, sets, given, recipe, seed, imperfect=known)
    if given is None and any(name.startswith("diffts") for name in names):
        _learn(race, train_steps)
    settings = {"horizon": horizon, "noise_std": noise_std, "sampler": sampler, "steps": steps}
    runs = _race(race, names, settings)
    if figure is not None:
        title = f"{chosen.name}: {source}" if source else chosen.name
        title += "" if known is None else ", priors from imperfect data"
        draw_regret(runs, figure, title=title)
    _report(runs, time.perf_counter() - started, json_file)


def train(
    problem: Annotated[str, typer.Argument(help="Name of the problem.")],
    folder: Annotated[Path, typer.Option("--out", help="Folder for the prior.")],
    network: Annotated[str | None, typer.Option(help="Network; the problem's own.")] = None,
    train_steps: Annotated[int, typer.Option("--steps", help="Gradient steps.")] = 15_000,
    paper: Annotated[
        bool, typer.Option("--paper-recipe", help="Constant learning rate and no average.")
    ] = False,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder to resume a killed training from.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of data and training.")] = 0,
    data: Data = "clean",
    missing: Missing = 0.5,
    noise: Noise = 0.1,
    procedure: ProcedureName = "default",
    sure: Sure = None,
    past_tasks: PastTasks = None,
) -> None:
    """Learn and calibrate a problem's diffusion prior, and save it."""
    import dataclasses

    from diffts.experiments.compare import (
        Recipe,
        past_and_test,
        train_prior,
        train_prior_imperfect,
    )
    from diffts.learning import TrainingConfig

    chosen = _problem(problem)
    recipe = _recipe(Recipe(network=network), train_steps)
    sets = past_and_test(chosen, past_tasks, 0, seed)
    asked = procedure != "default" or sure is not None
    known = _imperfect(data, sets, missing, noise, asked, seed)
    if known is not None:
        if paper:
            raise InvalidInputError("--paper-recipe: for clean data; here --procedure paper")
        recipe = _imperfect_recipe(recipe, procedure, train_steps, sure)
        with phase_progress("learning the prior") as show:
            learned = train_prior_imperfect(
                chosen, known, recipe, seed=seed, checkpoint=checkpoint, on_progress=show
            )
        learned.save(folder)
        _account(learned)
        out.print(f"Saved a prior over {learned.n_arms} arms in {folder}", highlight=False)
        return
    if paper:
        recipe = dataclasses.replace(recipe, training=TrainingConfig(steps=train_steps))
    with progress("learning the prior", train_steps) as advance:
        learned = train_prior(
            chosen,
            sets,
            recipe,
            seed=seed,
            checkpoint=checkpoint,
            on_block=lambda state: advance(int(state.step), f"loss {float(state.loss):.4f}"),
        )
    learned.save(folder)
    out.print(f"Saved a prior over {learned.n_arms} arms in {folder}", highlight=False)


def inspect(
    folder: Annotated[Path, typer.Argument(help="Folder of a prior.")],
    figure: Annotated[
        Path | None, typer.Option(help="Picture to write; by default prior.png in the folder.")
    ] = None,
) -> None:
    """Summarise a saved prior, and draw it."""
    import numpy as np

    from diffts.diffusion.prior import DiffusionPrior
    from diffts.figures import draw_prior

    prior = DiffusionPrior.load(folder)
    figure = folder / "prior.png" if figure is None else figure
    check_writable("--figure", figure)
    recipe = dict(prior.denoiser.recipe())
    error = prior.reconstruction_error
    table = Table("what", "value", show_header=False)
    for name, value in {
        "arms": prior.n_arms,
        "denoiser": recipe.get("network", recipe["kind"]),
        "predicts": recipe.get("predicts", "exact posterior mean"),
        "diffusion steps": prior.schedule.n_steps,
        "shift, scale": f"{float(prior.shift):.4g}, {float(prior.scale):.4g}",
        "mean error at first, middle, last step": ", ".join(
            f"{error[i].mean():.4g}" for i in (0, len(error) // 2, -1)
        ),
        "mean and sd of draws": "{:.4g}, {:.4g}".format(*_mean_sd(prior.sample(200))),
        **_metadata(prior.metadata),
    }.items():
        table.add_row(name, str(value))
    out.print(table)
    if not np.isfinite(error).all():
        raise InvalidInputError("tau: not finite")
    draw_prior(prior, figure)
    out.print(f"Picture: {figure}", highlight=False)


def _metadata(metadata: dict[str, Any]) -> dict[str, str]:
    """Metadata as rows; of learning from imperfect data only the outcome."""
    rows = {key: str(value) for key, value in metadata.items() if key not in _LONG}
    if told := metadata.get("learning"):
        rows["held-out CRPS, error of the mean"] = (
            f"{told['held_out_crps']:.4g}, {told['held_out_rmse']:.4g}"
        )
        rows["arms never observed, seldom calibrated"] = (
            f"{len(told['arms_never_observed'])}, {len(told['arms_seldom_calibrated'])}"
        )
    return rows


def _mean_sd(values: Any) -> tuple[float, float]:
    return float(values.mean()), float(values.std())


def _problem(name: str) -> Any:
    from diffts.problems import get_problem

    return get_problem(name)


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


def _recipe(recipe: Any, train_steps: int) -> Any:
    import dataclasses

    training = dataclasses.replace(recipe.training, steps=train_steps)
    return dataclasses.replace(recipe, training=training)


def _imperfect(data: str, sets: Any, missing: float, noise: float, others: bool, seed: int) -> Any:
    """What is known of the tasks; None for everything. ``others``: more options ask for it."""
    from diffts.problems import Corruption, corrupt
    from diffts.validation import one_of

    corruption = Corruption(missing, noise)
    if one_of("data", data, ("clean", "imperfect")) == "clean":
        if others or corruption != Corruption():
            raise InvalidInputError(
                "--missing, --noise, --procedure, --sure: only with --data imperfect"
            )
        return None
    return corrupt(sets, corruption, seed)


def _imperfect_recipe(recipe: Any, procedure: str, train_steps: int, sure: str | None) -> Any:
    """A procedure by its name; its phases shrink or grow in the ratio of the warm-ups."""
    import dataclasses

    from diffts.learning.procedure import as_procedure

    named = as_procedure(procedure)
    if train_steps < 1:
        raise InvalidInputError(f"train_steps: must be at least 1, got {train_steps}")
    weight: float | str | None = sure
    if sure is not None and sure != "auto":
        try:
            weight = float(sure)
        except ValueError:
            raise InvalidInputError(f"sure: expected a number or 'auto', got {sure!r}") from None
    scaled = named.scaled(train_steps / 15_000)
    return dataclasses.replace(recipe, procedure=scaled, sure=weight)


def _account(prior: Any) -> None:
    """What learning from imperfect data came to, and what not to trust."""
    told = prior.metadata["learning"]
    out.print(
        f"Held-out CRPS {told['held_out_crps']:.4g}, error of the mean {told['held_out_rmse']:.4g} "
        f"(weights of step {told['kept_step']}).",
        highlight=False,
    )
    for what, arms in (
        ("never observed", told["arms_never_observed"]),
        ("observed too seldom to calibrate (mean error of the others used)",
         told["arms_seldom_calibrated"]),
    ):  # fmt: skip
        if arms:
            named = ", ".join(map(str, arms[:10])) + (" …" if len(arms) > 10 else "")
            out.print(f"{len(arms)} arms {what}: {named}", highlight=False)


def _learn(race: Race, train_steps: int) -> None:
    if race.imperfect is not None:
        with phase_progress("learning the prior") as show:
            race.on_progress = show
            learned = race.prior
        _account(learned)
        return
    with progress("learning the prior", train_steps) as advance:
        race.on_training = lambda state: advance(int(state.step), f"loss {float(state.loss):.4f}")
        _ = race.prior


def _race(race: Race, policies: Sequence[str], settings: dict[str, Any]) -> dict[str, Simulation]:
    runs: dict[str, Simulation] = {}
    for name in policies:
        with progress(f"playing {name}", 100) as advance:

            def show(done: int, total: int, advance: Any = advance) -> None:
                advance(int(100 * done / total), f"{done} decisions")

            runs[name] = race.run(name, **settings, on_block=show)
    return runs


def _report(runs: dict[str, Simulation], seconds: float, json_file: Path | None) -> None:
    from diffts.experiments.compare import summary

    result = summary(runs, seconds)
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
    out.print(_sentence(runs, ranked), highlight=False)
    write_json(json_file, result)


def _sentence(runs: dict[str, Simulation], ranked: list[str]) -> str:
    """One plain sentence about the two best policies, with the paired error of their gap."""
    import numpy as np

    if len(ranked) == 1:
        return f"{ranked[0]} alone: {runs[ranked[0]].mean_regret[-1]:.1f} of regret."
    first, second = ranked[:2]
    gap = runs[second].regret[-1] - runs[first].regret[-1]
    error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else float("nan")
    ratio = gap.mean() / runs[second].mean_regret[-1]
    return (
        f"{first} is first: {ratio:.0%} less regret than {second}, the next best; the gap of "
        f"{gap.mean():.1f} is {gap.mean() / error:.1f} standard errors, task by task."
    )


_LONG = ("learning", "procedure")  # metadata that would fill the screen

COMMANDS: dict[Callable[..., Any], str] = {
    demo: "diffts demo --out out",
    compare: "diffts compare popular-niche --policies diffts,gts-full --horizon 500",
    train: "diffts train popular-niche --out priors/popular-niche --data imperfect",
    inspect: "diffts inspect priors/popular-niche",
}
