"""What ``train`` and ``compare`` share: data, plans and priors by the names of options."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from diffts.cli.console import learning_progress, say
from diffts.errors import InvalidInputError

if TYPE_CHECKING:
    from diffts.diffusion.prior import DiffusionPrior
    from diffts.experiments.learning_plan import LearningPlan
    from diffts.problems import Corruption, Problem


def corruption_of(data: str, **only_imperfect: float | str | None) -> Corruption | None:
    """What makes the data imperfect; None for exact data, of which there is no more to say."""
    from diffts.problems import Corruption
    from diffts.validation import one_of

    if data == "clean":
        raise InvalidInputError("data: 'clean' is now called 'exact'")
    given = {name: value for name, value in only_imperfect.items() if value is not None}
    if one_of("data", data, ("exact", "imperfect")) == "exact":
        if given:
            named = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            raise InvalidInputError(f"{named}: only with --data imperfect")
        return None
    return Corruption(**{name: given[name] for name in ("missing", "noise") if name in given})  # type: ignore[arg-type]


def make_plan(
    train_steps: int,
    procedure: str | None = None,
    sure: str | None = None,
    network: str | None = None,
    paper: bool = False,
) -> LearningPlan:
    """A plan of so many gradient steps; a procedure's phases grow in the ratio of the defaults."""
    from diffts.diffusion.networks import ARMS, NETWORKS
    from diffts.experiments.learning_plan import LearningPlan
    from diffts.learning import PROCEDURES, TrainingConfig
    from diffts.validation import one_of

    of_others = procedure is not None or sure is not None or paper
    if network == ARMS and of_others:
        raise InvalidInputError("network 'arms' has its own procedure: no other can be asked for")
    if network is None and not of_others:
        network = ARMS
    named = PROCEDURES[one_of("procedure", procedure or "default", PROCEDURES)]
    if sure is not None and sure != "auto":
        try:
            weight = float(sure)
        except ValueError:
            raise InvalidInputError(f"sure: expected a number or 'auto', got {sure!r}") from None
        named = dataclasses.replace(named, sure=weight)
    config = TrainingConfig() if paper else LearningPlan.config
    return LearningPlan(
        network=None if network is None else one_of("network", network, (ARMS, *NETWORKS)),
        config=dataclasses.replace(config, steps=train_steps),
        procedure=named.scaled(train_steps / 15_000),
        choose_sure=sure == "auto",
    )


def given_priors(
    names: Sequence[str], problem: Problem, data: str = "exact", past_tasks: int | None = None
) -> list[DiffusionPrior]:
    """The priors over a problem's arms that the user names: folders, or 'builtin'."""
    from diffts.diffusion.prior import DiffusionPrior
    from diffts.priors import builtin_prior

    if "" in names:
        raise InvalidInputError("--prior: is empty")
    if "builtin" in names and data != "exact":
        raise InvalidInputError("--prior: built-in ones are learned from exact data")
    if "builtin" in names and past_tasks is not None:
        raise InvalidInputError(
            "--past-tasks: a built-in prior has seen all 5000 (bidding: 1200) past tasks; "
            "others would race with fewer"
        )
    priors = []
    for name in names:
        prior = builtin_prior(problem.name) if name == "builtin" else DiffusionPrior.load(name)
        if prior.n_arms != problem.n_arms:
            raise InvalidInputError(
                f"prior: has {prior.n_arms} arms, {problem.name} has {problem.n_arms}"
            )
        priors.append(prior)
    return priors


def learn(
    plan: LearningPlan,
    problem: Problem,
    known: tuple[object, object],
    seed: int,
    checkpoint: Path,
    what: str = "learning the prior",
) -> DiffusionPrior:
    """Learn a prior, with a bar; then say what it came to, and what not to trust."""
    with learning_progress(what) as show:
        prior = plan.learn(problem, *known, seed=seed, checkpoint=checkpoint, on_progress=show)
    told = prior.metadata.get("learning", {})
    if "held_out_crps" not in told:
        return prior
    kept = f"(weights of step {told['kept_step']})."
    if told["held_out_crps"] is None:
        say(f"Held-out regret {told['held_out_regret']:.4g} a round {kept}")
    else:
        rmse = told["held_out_rmse"]
        say(f"Held-out CRPS {told['held_out_crps']:.4g}, error of the mean {rmse:.4g} {kept}")
    for said, arms in (
        ("never observed", told["arms_never_observed"]),
        ("observed too seldom to calibrate (mean error of the others used)",
         told["arms_seldom_calibrated"]),
    ):  # fmt: skip
        if arms:
            named = ", ".join(map(str, arms[:10])) + (" …" if len(arms) > 10 else "")
            say(f"{len(arms)} arms {said}: {named}")
    return prior
