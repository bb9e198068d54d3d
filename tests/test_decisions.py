"""Decisions for people: the same as an agent's, from any process, for arms that come and go."""

import csv
import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import norm

from command_line import diffts
from diffts.decisions import FILE, Decisions, SQLiteStore, sqlite
from diffts.decisions.batch import batch_sizes
from diffts.errors import ArtifactError, InvalidInputError
from five_arms import ARMS, MEAN, NEW, NOISE, STD, fitted

TOP = 0.95  # the quantile that the default rule goes by


@pytest.fixture(autouse=True)
def fast_disk(monkeypatch):
    monkeypatch.setattr(sqlite, "SYNCHRONOUS", "OFF")


@pytest.fixture
def folder(tmp_path):
    fitted().save(tmp_path)
    return tmp_path


def test_a_choice_is_an_arm_by_name_and_an_id_for_its_reward(folder):
    decisions = Decisions(folder)
    choice = decisions.choose("ann")
    assert choice.arm in ARMS
    assert choice.chance == 1.0  # the default rule has no coin
    decisions.reward(choice.decision_id, 0.75)
    decisions.reward(choice.decision_id, 0.75)
    assert decisions.history("ann") == {choice.arm: (1, 0.75, 0.0)}
    assert decisions.history("bob") == {}
    with pytest.raises(InvalidInputError, match=r"has 0.75 already, got 0.5$"):
        decisions.reward(choice.decision_id, 0.5)
    with pytest.raises(InvalidInputError, match=r"unknown id 'x'"):
        decisions.reward("x", 0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "noise"), [("gaussian", "fixed"), ("mixture", "bernoulli"), ("independent", "fixed")]
)
def test_any_process_decides_as_one_agent_would(tmp_path, kind, noise):
    """Each decision by another object, with tasks in between that are none of its business."""
    what = fitted(kind, noise)
    what.save(tmp_path)
    agent, rng = what.agent(), np.random.default_rng(0)
    for _ in range(8):
        decisions = Decisions(tmp_path)
        other, choice = decisions.choose_many(["other", "ann"])
        assert choice.arm == agent.choose()
        reward = float(rng.random() < 0.5)
        decisions.reward([choice.decision_id, other.decision_id], [reward, 1.0])
        agent.update(choice.arm, reward)
    assert {arm: totals.pulls for arm, totals in decisions.history("ann").items()} == {
        arm: pulls for arm, pulls in agent.pulls.items() if pulls
    }
    advice, expected = decisions.advice("ann"), agent.advice()
    assert advice.arm == expected.arm


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gaussian", "diffusion"])
def test_several_tasks_at_once_are_the_same_as_one_by_one(tmp_path, kind):
    """A task that comes twice, arms of each task's own, one of them new, rewards before."""
    tasks = ["ann", "bob", "ann", "cat", 4]
    among = [["ash", "elm"], ["oak", "ash"], ARMS, ["oak", "fir", "elm"], ["date", "cedar", "elm"]]
    answers = []
    for at_once in (True, False):
        (tmp_path / str(at_once)).mkdir()
        fitted(kind).save(tmp_path / str(at_once))
        decisions = Decisions(tmp_path / str(at_once), rule="thompson", chances=7, seed=5)
        for task in ("ann", "bob"):
            first = decisions.choose(task, ["oak", "elm"])
            decisions.reward(first.decision_id, 0.45)
        if at_once:
            choices = decisions.choose_many(tasks, among)
        else:
            choices = [decisions.choose(t, a) for t, a in zip(tasks, among, strict=True)]
        answers.append([(choice.arm, choice.chance) for choice in choices])
    assert answers[0] == answers[1]
    assert len({arm for arm, _ in answers[0]}) > 1


def test_batches_are_of_a_few_sizes():
    assert {size for rows in range(1, 3000) for size in batch_sizes(rows, 300)} == {
        1,
        4,
        17,
        65,
        257,
    }
    for rows in (1, 2, 17, 18, 300, 1111):
        assert rows <= sum(batch_sizes(rows, 300)) < 4 * rows + 1


def test_without_a_seed_decisions_are_independent(folder):
    decisions = Decisions(folder, rule="uniform", chances=0)
    chosen = [choice.arm for choice in decisions.choose_many(["ann"] * 60)]
    again = [choice.arm for choice in decisions.choose_many(["ann"] * 60)]
    assert chosen != again  # the same 60 of five arms: a chance of 5^-60
    assert decisions.choose("ann").chance is None


# --- chances ------------------------------------------------------------------------------


@pytest.mark.slow
def test_arms_that_are_not_on_offer_are_never_chosen(folder):
    """Nor places for new arms that are nobody's: a rule of pure chance would find them."""
    n, among = 1200, ["beech", "oak", "elm"]
    decisions = Decisions(folder, rule="uniform", seed=0)
    choices = decisions.choose_many([f"t{i}" for i in range(n)], among)
    for arm in among:
        share = np.mean([choice.arm == arm for choice in choices])
        assert abs(share - 1 / 3) < 4.5 * np.sqrt(2 / 9 / n)
    assert {choice.arm for choice in choices} == set(among)


@pytest.mark.slow
def test_a_logged_chance_is_that_of_the_choice(folder):
    """Weighed by one over their chance, decisions for an arm are one to a task, on average."""
    n, floor = 1000, 0.1
    decisions = Decisions(folder, rule="thompson", floor=floor, seed=1)
    for arm, reward in [("ash", 0.6), ("beech", 0.5)]:
        ids = [one.decision_id for one in decisions.choose_many(["ann"] * 5, [arm])]
        decisions.reward(ids, [reward] * 5)
    choices = decisions.choose_many(["ann"] * n, ["ash", "beech", "cedar"])
    assert min(choice.chance for choice in choices) >= floor
    for arm in ("ash", "beech", "cedar"):
        weights = [(one.arm == arm) / one.chance for one in choices]
        assert abs(np.mean(weights) - 1) < 4.5 * np.std(weights) / np.sqrt(n)
        assert np.std(weights) > 0


def test_the_chance_under_a_floor_is_exact_for_a_rule_without_a_coin(folder):
    n, floor = 400, 0.05
    choices = Decisions(folder, floor=floor, seed=2).choose_many(["ann"] * n)
    chances = {choice.arm: choice.chance for choice in choices}
    best = max(chances, key=chances.get)
    assert chances == {arm: 0.8 if arm == best else floor for arm in ARMS}
    share = np.mean([choice.arm == best for choice in choices])
    assert abs(share - 0.8) < 4.5 * np.sqrt(0.16 / n)


# --- arms come and go ---------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["independent", "gaussian"])
def test_a_new_arm_that_is_the_best_is_found(tmp_path, kind):
    """By each of some tasks alone, with the default rule.

    While the quantile of the new arm, ``m_n + z s_n``, is above that of an arm never pulled, it is
    played. With n rewards it is Gaussian: the chance that it ever falls below is at most the sum.
    """
    fitted(kind).save(tmp_path)
    best, rounds, tasks, z = 0.9, 12, 40, norm.ppf(TOP)
    others, prior = MEAN + z * STD, NEW.std**2
    n = np.arange(1, rounds)
    gain = n * prior / (NOISE**2 + n * prior)
    width = np.sqrt(prior * NOISE**2 / (NOISE**2 + n * prior))
    expected = NEW.mean + gain * (best - NEW.mean) + z * width
    lost = norm.cdf((others - expected) / (gain * NOISE / np.sqrt(n))).sum()
    assert NEW.mean + z * NEW.std > others  # it is tried
    assert lost < 0.05

    decisions, rng = Decisions(tmp_path), np.random.default_rng(3)
    names = [f"t{i}" for i in range(tasks)]
    alone = [[*ARMS, f"new of {name}"] for name in names]  # what others see of it does not help
    found = np.zeros(tasks)
    for _ in range(rounds):
        choices = decisions.choose_many(names, alone)
        is_new = np.array([choice.arm.startswith("new") for choice in choices])
        found += is_new
        means = np.where(is_new, best, MEAN)
        rewards = means + NOISE * rng.standard_normal(tasks)
        decisions.reward([choice.decision_id for choice in choices], rewards.tolist())
    always = (found == rounds).mean()
    assert always >= 1 - lost - 4.5 * np.sqrt(lost * (1 - lost) / tasks)


def test_a_bad_new_arm_is_tried_by_the_first_task_and_not_by_all(folder):
    decisions, among = Decisions(folder), [*ARMS, "oak"]
    first = decisions.choose("t0", among)
    assert first.arm == "oak"
    assert decisions.choose("t1", among).arm == "oak"  # nobody knows yet
    decisions.reward(first.decision_id, 0.0)
    assert all(decisions.choose(f"t{i}", among).arm != "oak" for i in range(2, 6))


def test_a_good_new_arm_is_taken_over_by_others(folder):
    decisions = Decisions(folder)
    ids = [one.decision_id for one in decisions.choose_many(["t0", "t1", "t2"], ["oak"])]
    decisions.reward(ids, [0.9, 0.9, 0.9])
    advice = decisions.advice("another", [*ARMS, "oak"])
    assert advice.arm == "oak"
    assert advice.chance > 0.8
    assert decisions.advice("another", ARMS).arm in ARMS


def test_retired_arms_stay_readable(folder):
    decisions = Decisions(folder)
    for arm in ("oak", "ash"):
        choice = decisions.choose("ann", [arm])
        decisions.reward(choice.decision_id, 0.5)
    later = Decisions(folder)
    assert later.choose("ann", ["elm", "cedar"]).arm in ("elm", "cedar")
    assert later.history("ann") == {"ash": (1, 0.5, 0.0), "oak": (1, 0.5, 0.0)}
    assert later.arms == [*ARMS, "oak"]
    assert later.choose("ann").arm in ARMS  # without a word, new arms are not on offer


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "noise"),
    [
        ("independent", "bernoulli"),
        ("gaussian", "bernoulli"),
        ("mixture", "fixed"),
        ("diffusion", "bernoulli"),
    ],
)
def test_every_kind_of_fit_decides_about_new_arms(tmp_path, kind, noise):
    fitted(kind, noise).save(tmp_path)
    decisions = Decisions(tmp_path, chances=3)
    among = ["oak", "fir", "elm"]
    choice = decisions.choose("ann", among)
    decisions.reward(choice.decision_id, 1.0)
    assert decisions.advice("ann", among).arm == choice.arm


def test_a_later_fit_goes_on_with_the_same_tasks(folder):
    decisions = Decisions(folder)
    choice = decisions.choose("ann", ["oak"])
    decisions.reward(choice.decision_id, 0.7)
    fitted("independent", arms=[*ARMS, "oak"]).save(folder)  # the log has told of it since
    assert Decisions(folder).history("ann") == {"oak": (1, 0.7, 0.0)}
    assert Decisions(folder).arms == [*ARMS, "oak"]
    fitted("independent", arms=["fig", "gum"]).save(folder)
    with pytest.raises(ArtifactError, match=r"of another fit, which had other arms"):
        Decisions(folder)


# --- what is refused ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "no-such"}, "rule: unknown"),
        ({"floor": 2.0}, "floor: must be"),
        ({"chances": -1}, "chances: must be"),
        ({"seed": "x"}, "seed: expected"),
    ],
)
def test_options_that_are_refused(folder, options, message):
    with pytest.raises(InvalidInputError, match=message):
        Decisions(folder, **options)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (lambda d: d.choose(""), "task: is empty"),
        (lambda d: d.choose(None), "task: expected a name"),
        (lambda d: d.choose_many("ann"), "tasks: expected a list"),
        (lambda d: d.choose("ann", []), "among: no arm on offer"),
        (lambda d: d.choose("ann", "ash"), "among: expected a list"),
        (lambda d: d.choose("ann", ["ash", None]), "among: expected a name"),
        (lambda d: d.choose_many(["a", "b", "c"], [["ash"], ["elm"]]), "2 lists for 3 task"),
        (lambda d: d.choose_many(["a", "b"], [["ash"], []]), "among: no arm on offer"),
        (lambda d: d.reward("x", "high"), "reward: not an array of numbers"),
        (lambda d: d.reward("x", float("inf")), "reward: 1 value"),
        (lambda d: d.reward(["x", "y"], [1.0]), "reward: expected one for each of 2"),
        (lambda d: d.reward("x", 1.5), "reward: must be from 0 to 1"),
    ],
)
def test_questions_that_are_refused(tmp_path, question, message):
    fitted(noise="bernoulli").save(tmp_path)
    decisions = Decisions(tmp_path)
    with pytest.raises(InvalidInputError, match=message):
        question(decisions)
    assert decisions.table()["task"] == []
    assert SQLiteStore(tmp_path / FILE).waiting() == 0


def test_a_folder_without_a_fit_is_refused_and_left_alone(tmp_path):
    with pytest.raises(ArtifactError, match=r"no config\.json there"):
        Decisions(tmp_path)
    assert list(tmp_path.iterdir()) == []


# --- the command line ---------------------------------------------------------------------


def rows_of(text):
    return list(csv.DictReader(text.splitlines()))


def test_the_road_of_a_script(folder):
    chosen = diffts("decide", folder, "choose", "--task", "ann", "--among", "ash,elm")
    assert (chosen.returncode, chosen.stderr) == (0, "")
    arm, decision = chosen.stdout.rstrip("\n").split("\t")
    assert arm in ("ash", "elm")
    for note in ("", f"note: decision {decision} has this reward already\n"):
        told = diffts("decide", folder, "reward", "--decision", decision, "--reward", "0.25")
        assert (told.returncode, told.stdout, told.stderr) == (0, "", note)
    past = diffts("decide", folder, "history", "--task", "ann")
    assert past.stdout == f"arm,pulls,mean\n{arm},1,0.25\n"
    advice = diffts("decide", folder, "advise", "--task", "ann", "--json")
    assert json.loads(advice.stdout)["arm"] in ARMS

    again = diffts(
        "decide",
        folder,
        "choose",
        "--task",
        "bob",
        "--among",
        "ash,oak",
        "--floor",
        "0.1",
        "--json",
    )
    assert again.stderr == "note: new here, not in the log: 'oak'\n"
    answer = json.loads(again.stdout)
    assert answer["arm"] in ("ash", "oak")
    assert answer["chance"] in (0.1, 0.9)
    logged = diffts("decide", folder, "log")
    assert logged.stderr == "note: 1 decision(s) have no reward yet, and are left out\n"
    (row,) = rows_of(logged.stdout)
    assert list(row) == ["task", "arm", "reward", "time", "propensity"]
    assert (row["task"], row["arm"], row["reward"], row["propensity"]) == (
        "ann",
        arm,
        "0.25",
        "1.0",
    )
    assert diffts("decide", folder, "log", "--out", folder / "log.csv").stdout == ""
    assert (folder / "log.csv").read_text() == logged.stdout
    table = Decisions(folder).table()
    assert {name: str(column[0]) for name, column in table.items()} == row


def test_names_with_commas_come_from_a_file(folder):
    (folder / "arms.txt").write_text("red, large\nblue, small\n", encoding="utf-8")
    chosen = diffts(
        "decide", folder, "choose", "--task", "ann", "--among-file", folder / "arms.txt"
    )
    assert chosen.stdout.split("\t")[0] in ("red, large", "blue, small")
    cut = diffts("decide", folder, "choose", "--task", "ann", "--among", "red, large,ash")
    assert "not in the log: 'red', 'large'\n" in cut.stderr
    assert "names with commas go into a file: --among-file" in cut.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["here", "choose", "--task", ""], 2, "task: is empty"),
        (["here", "choose", "--task", "a", "--among", ","], 2, "among: no arm on offer"),
        (["here", "choose", "--task", "a", "--rule", "no"], 2, "rule: unknown 'no'"),
        (["here", "choose", "--task", "a", "--floor", "7"], 2, "floor: must be"),
        (["here", "choose", "--task", "a", "--among-file", "gone"], 1, "gone: No such file"),
        (["here", "reward", "--decision", "x", "--reward", "1"], 2, "decision: unknown id 'x'"),
        (["here", "log", "--out", "no/such/file"], 2, "--out: no folder"),
        (["here", "log", "--out", "here/decisions.sqlite"], 2, "is read by DIR"),
        (["bare", "choose", "--task", "a"], 1, "no config.json there"),
        (["bare", "reward", "--decision", "x", "--reward", "1"], 1, "nothing was decided yet"),
        (["bare", "log"], 1, "nothing was decided yet"),
        (["spoilt", "choose", "--task", "a"], 1, "damaged or foreign"),
        (["spoilt", "reward", "--decision", "x", "--reward", "1"], 1, "damaged or foreign"),
    ],
)
def test_what_goes_wrong_is_one_line(tmp_path, monkeypatch, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    for name in ("here", "bare", "spoilt"):
        (tmp_path / name).mkdir()
    fitted().save("here")
    SQLiteStore(tmp_path / "here" / FILE).claim(ARMS, None)
    fitted().save("spoilt")
    (tmp_path / "spoilt" / FILE).write_bytes(b"no database" * 100)
    result = diffts("decide", *arguments)
    assert (result.returncode, result.stdout) == (code, "")
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.slow
def test_rewards_of_commands_that_are_killed_are_told_again_and_count_once(folder):
    """Processes as scripts start them; each is told at once, and half of them killed."""
    decisions, chance = Decisions(folder), random.Random(0)
    choices = decisions.choose_many(["ann"] * 6, ["ash"])
    rewards = [0.5 + number for number in range(6)]
    told = dict.fromkeys(range(6), False)
    while not all(told.values()):
        started = {}
        for number in (number for number, done in told.items() if not done):
            command = ["decide", folder, "reward", "--decision", choices[number].decision_id]
            started[number] = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "diffts",
                    *map(str, command),
                    "--reward",
                    str(rewards[number]),
                ],
                env={**os.environ, "JAX_PLATFORMS": "no-such-chip"},  # it does without JAX
                stderr=subprocess.DEVNULL,
            )
            if chance.random() < 0.5:
                with_luck = chance.random()
                try:
                    started[number].wait(with_luck)
                except subprocess.TimeoutExpired:
                    started[number].kill()
        for number, process in started.items():
            told[number] = process.wait() == 0
            assert process.returncode in (0, -9)
    (totals,) = Decisions(folder).history("ann").values()
    assert totals == pytest.approx((6, 18.0, 17.5))  # in which order is chance
