"""The time of a fit, on a clock of the tests' own: plans that shrink, races that are cut."""

import numpy as np
import pytest

from diffts import InvalidInputError
from diffts.evidence import Evidence
from diffts.fitting import Budget
from diffts.fitting.candidates import fit_candidates
from diffts.fitting.entries import LEAST_RACED, MOST_RACED, enter
from diffts.learning import Procedure, TrainingConfig, learn_prior, learn_prior_within
from diffts.learning.within import in_whole_blocks


class Clock:
    """Time that passes when it is looked at: so much for each of the first looks, then the last."""

    def __init__(self, *steps):
        self.steps, self.now, self.looks = list(steps), 0.0, 0

    def __call__(self):
        self.now += self.steps[min(self.looks, len(self.steps) - 1)]
        self.looks += 1
        return self.now


def test_parts_add_up_and_the_end_is_later_than_the_plan():
    budget = Budget(2, Clock(1.0))
    with budget.part("judging"):
        pass
    with budget.part("judging"):
        pass
    assert budget.parts == {"judging": 2.0}
    assert budget.most_left - budget.left == pytest.approx(0.3 * 120 + 60, abs=2)
    assert budget.facts()["planned"] == 120


@pytest.mark.parametrize("minutes", [-1, float("nan"), "soon"])
def test_impossible_minutes_are_refused(minutes):
    with pytest.raises(InvalidInputError, match="minutes"):
        Budget(minutes)


def test_a_cheap_race_has_all_tasks():
    entries = enter({"independent": 0.01, "gaussian": 0.1}, 500, Budget(0, Clock(0.0)))
    assert (entries.tasks, entries.note, entries.too_slow) == (MOST_RACED, None, {})


def test_a_costly_race_has_as_many_tasks_as_fit_and_says_so():
    # 5 s a task in all, 240 s of which 40 are needed later.
    costs = {"independent": 0.5, "gaussian": 0.5, "diffusion": 4.0}
    entries = enter(costs, 500, Budget(4, Clock(0.0)), kept_back=40.0)
    assert entries.tasks == 40
    assert entries.kinds == tuple(costs)
    assert entries.note == "40 tasks instead of 100 were raced: more would have taken too long"


def test_who_cannot_race_a_few_tasks_in_time_is_left_out():
    costs = {"independent": 0.1, "gaussian": 0.2, "diffusion": 60.0}
    entries = enter(costs, 500, Budget(4, Clock(0.0)))
    assert entries.kinds == ("independent", "gaussian")
    assert "10.0 minutes" in entries.too_slow["diffusion"]
    assert entries.tasks == MOST_RACED
    alone = enter({"diffusion": 60.0}, 500, Budget(0, Clock(0.0)))
    assert (alone.kinds, alone.tasks) == (("diffusion",), LEAST_RACED)


def test_a_slow_belief_that_predicts_worse_leaves_the_tasks_to_the_others():
    costs = {"gaussian": 0.01, "mixture": 5.0, "diffusion": 0.7}
    told = {"available": 500, "budget": Budget(2, Clock(0.0))}
    all_of_them = enter(costs, **told)
    assert all_of_them.kinds == ("gaussian", "mixture", "diffusion")
    assert all_of_them.tasks == 21
    entries = enter(costs, **told, plausible=["diffusion"])
    assert (entries.kinds, entries.tasks) == (("gaussian", "diffusion"), 100)
    assert "predicts worse" in entries.too_slow["mixture"]
    # It races if it predicts as well, if it is quick, or if there is time for all.
    assert enter(costs, **told, plausible=["mixture"]).kinds == all_of_them.kinds
    assert len(enter(costs | {"mixture": 0.6}, **told, plausible=["diffusion"]).kinds) == 3
    assert len(enter(costs, 500, Budget(60, Clock(0.0)), plausible=["diffusion"]).kinds) == 3


def past_tasks(n, seed=0):
    rng = np.random.default_rng(seed)
    tasks = rng.standard_normal((n, 1)) * [1.0, 1.0, -1.0] + 0.3 * rng.standard_normal((n, 3))
    return Evidence(tasks, std=0.2, mask=rng.random((n, 3)) < 0.8)


BRIEF = {
    "warmup_steps": 400,
    "rounds": 0,
    "score_every": 200,
    "training": TrainingConfig(batch_size=16, block=50, decay="cosine", ema_decay=0.9),
}
SMALL = {"options": {"width": 16}}


@pytest.fixture(scope="module")
def past():
    return past_tasks(40), past_tasks(10, 1)


@pytest.mark.slow
def test_with_time_enough_the_prior_is_the_same(past):
    plan = Procedure.named("default", **BRIEF)
    whole = learn_prior(*past, procedure=plan, **SMALL)
    within = learn_prior_within(1e6, *past, procedure=plan, clock=Clock(1e-6), **SMALL)
    np.testing.assert_array_equal(within.tau, whole.tau)
    assert within.metadata == whole.metadata


@pytest.mark.slow
def test_a_slow_machine_gets_a_shorter_plan(past):
    plan = Procedure.named("default", **BRIEF)
    # Looks: the start, before the first block, after it (30 s: it compiles), after the second
    # (5 s for 50 steps), and from then on nothing is slow. 24 s are left: 240 steps' worth of
    # work, all around included.
    clock = Clock(0.0, 0.0, 30.0, 5.0, 0.0)
    prior = learn_prior_within(59.0, *past, procedure=plan, clock=clock, **SMALL)
    planned = prior.metadata["procedure"]["warmup_steps"]
    assert 20 <= planned < 200
    assert planned % BRIEF["training"].block == 0  # other lengths would be programs of their own
    assert prior.metadata["learning"]["steps"] == planned


def test_plans_of_whole_blocks_keep_what_is_none():
    plan = Procedure.named("arms", warmup_steps=166, inner_steps=(20, 260), rounds=2)
    whole = in_whole_blocks(plan)
    assert (whole.warmup_steps, whole.inner_steps, whole.final_steps) == (200, (100, 300), 0)


@pytest.mark.slow
def test_learning_stops_when_time_is_up_and_keeps_what_it_has(past):
    plan = Procedure.named("default", **BRIEF)
    # Measured to be fast, so all of the plan is tried; then 10 s a look: the third is too late.
    clock = Clock(0.0, 0.0, 0.0, 1e-3, 0.0, 10.0)
    prior = learn_prior_within(25.0, *past, procedure=plan, clock=clock, **SMALL)
    assert prior.metadata["procedure"]["warmup_steps"] == 400
    told = prior.metadata["learning"]
    assert 100 < told["steps"] < 400
    assert np.isfinite(np.asarray(prior.tau)).all()
    # Before any score: the weights as they are.
    clock = Clock(0.0, 0.0, 0.0, 1e-3, 0.0, 100.0)
    early = learn_prior_within(25.0, *past, procedure=plan, clock=clock, **SMALL)
    told = early.metadata["learning"]
    assert told["steps"] == told["kept_step"] == 150
    assert told["scores"] == []
    assert told["held_out_crps"] is None


@pytest.mark.slow
def test_without_time_the_costly_ones_are_left_out_and_say_so():
    # 50 s at each look: the Gaussian alone takes half of all that there can be.
    fits = fit_candidates(
        past_tasks(300),
        ["gaussian", "mixture", "diffusion"],
        budget=Budget(0.5, Clock(50.0)),
        seed=0,
        tell=lambda _: None,
    )
    gaussian, mixture, diffusion = fits
    assert gaussian.law is not None
    assert gaussian.seconds == 50.0
    assert mixture.note == diffusion.note == "no time left of 0.5 minutes"
