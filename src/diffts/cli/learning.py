"""What ``train`` and ``compare`` share: options about data, recipes, and a bar for learning."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffts.cli.common import phase_progress, progress, say
from diffts.errors import InvalidInputError

if TYPE_CHECKING:
    from diffts.experiments.compare import Race

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


def find_problem(name: str) -> Any:
    """The problem of that name."""
    from diffts.problems import get_problem

    return get_problem(name)


def with_steps(recipe: Any, train_steps: int) -> Any:
    """The recipe with so many gradient steps."""
    training = dataclasses.replace(recipe.training, steps=train_steps)
    return dataclasses.replace(recipe, training=training)


def imperfect_data(
    data: str, sets: Any, missing: float, noise: float, others: bool, seed: int
) -> Any:
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


def imperfect_recipe(recipe: Any, procedure: str, train_steps: int, sure: str | None) -> Any:
    """A procedure by its name; its phases shrink or grow in the ratio of the warm-ups."""
    from diffts.learning.procedure import as_procedure
    from diffts.learning.training import MOST_STEPS
    from diffts.validation import whole_number

    named = as_procedure(procedure)
    whole_number("train_steps", train_steps, 1, MOST_STEPS)
    weight: float | str | None = sure
    if sure is not None and sure != "auto":
        try:
            weight = float(sure)
        except ValueError:
            raise InvalidInputError(f"sure: expected a number or 'auto', got {sure!r}") from None
        dataclasses.replace(named, sure=weight)  # refuses what is no λ
    scaled = named.scaled(train_steps / 15_000)
    return dataclasses.replace(recipe, procedure=scaled, sure=weight)


def print_account(prior: Any) -> None:
    """What learning from imperfect data came to, and what not to trust."""
    told = prior.metadata["learning"]
    say(
        f"Held-out CRPS {told['held_out_crps']:.4g}, error of the mean {told['held_out_rmse']:.4g} "
        f"(weights of step {told['kept_step']})."
    )
    for what, arms in (
        ("never observed", told["arms_never_observed"]),
        ("observed too seldom to calibrate (mean error of the others used)",
         told["arms_seldom_calibrated"]),
    ):  # fmt: skip
        if arms:
            named = ", ".join(map(str, arms[:10])) + (" …" if len(arms) > 10 else "")
            say(f"{len(arms)} arms {what}: {named}")


def learn_with_progress(race: Race, train_steps: int) -> Any:
    """The race's prior, learned with a bar."""
    if race.imperfect is not None:
        with phase_progress("learning the prior") as show:
            race.on_progress = show
            return race.prior
    with progress("learning the prior", train_steps) as advance:
        race.on_training = lambda state: advance(int(state.step), f"loss {float(state.loss):.4f}")
        return race.prior
