"""A digest covers what made a result: tasks, recipe, versions of generators and of samplers."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from diffts.diffusion.posterior import SAMPLERS
from diffts.experiments.reproduce import EXPERIMENTS, PROFILES, images, pictures, regret
from diffts.experiments.reproduce.fingerprints import KNOWN, fingerprint
from diffts.experiments.reproduce.recipes import (
    ABLATED,
    digest_of,
    procedure_for,
    samplers_of,
)
from diffts.experiments.reproduce.runs import Learned, Run, diffts
from diffts.experiments.reproduce.store import Store
from diffts.experiments.reproduce.workshop import SEED, Workshop
from diffts.problems import PROBLEMS, Corruption, Groups, PopularNiche, get_problem
from diffts.problems.images import Images

SMOKE, PAPER = PROFILES["smoke"], PROFILES["paper"]
RESULTS = Path(__file__).parent.parent / "results" / "paper"

RACE = diffts("popular-niche", "perfect", 0.1)
IMPERFECT = diffts("popular-niche", "imperfect", 0.1)
BASELINE = Run("popular-niche", "perfect", "gts-full", 0.1)
UCB = Run("popular-niche", "perfect", "ucb1", 0.1)
RUNS = (RACE, IMPERFECT, BASELINE, UCB)


@pytest.fixture
def shop(tmp_path):
    return new_shop(tmp_path)


def new_shop(folder, data_dir=None):
    return Workshop(SMOKE, Store(folder, SMOKE.as_json()), data_dir, lambda *_: None)


def changed(shop, tmp_path, runs=RUNS):
    """Which runs a new process would not find finished."""
    again = new_shop(tmp_path)
    return [shop.recipe_of(run) != again.recipe_of(run) for run in runs]


# Fingerprints of arrays


@pytest.mark.parametrize("name", sorted(PROBLEMS))
def test_other_last_bits_are_the_same_tasks_and_other_tasks_are_not(name):
    tasks = get_problem(name).split(seed=0).train
    rng = np.random.default_rng(0)
    elsewhere = np.nextafter(tasks, rng.choice(np.float32([-2, 2]), size=tasks.shape))
    assert fingerprint(elsewhere) == fingerprint(tasks)
    assert fingerprint(get_problem(name).split(seed=1).train) != fingerprint(tasks)
    assert fingerprint(tasks[::-1]) != fingerprint(tasks)
    assert fingerprint(tasks[:, ::-1]) != fingerprint(tasks)
    assert fingerprint(tasks[:-1]) != fingerprint(tasks)
    some = tasks.copy()
    some[:5] = 1 - some[:5]  # five tasks of thousands
    assert fingerprint(some) != fingerprint(tasks)


def test_large_arrays_are_read_in_blocks():
    tasks = np.random.default_rng(0).random((5000, 3), np.float32)
    tasks[4999] += 3
    assert fingerprint(tasks) != fingerprint(np.where(tasks > 3, tasks - 3, tasks))


# What a digest covers


def test_the_two_kinds_of_labeled_arms_have_digests_of_their_own():
    digests = set()
    for name in ("labeled-arms", "labeled-arms-common"):
        problem = get_problem(name)
        sets = problem.split(seed=SEED)._asdict()
        prints = {which: fingerprint(tasks) for which, tasks in sets.items()}
        digests.add(digest_of(problem, "perfect", "ours", PAPER, prints))
    assert len(digests) == 2


def test_tasks_are_covered_as_far_as_a_run_uses_them(shop):
    before = {run: shop.recipe_of(run) for run in RUNS}
    prior = shop.digest(RACE.learned)
    prints = shop.field("popular-niche").fingerprints
    prints["test"] = "other tasks"
    assert all(shop.recipe_of(run) != before[run] for run in RUNS)
    assert shop.digest(RACE.learned) == prior  # which never saw them
    prints["test"] = shop_prints(shop)["test"]
    prints["train"] = "other tasks"
    moved = [shop.recipe_of(run) != before[run] for run in RUNS]
    assert moved == [True, True, True, False]  # UCB1 learns nothing
    prints["train"] = shop_prints(shop)["train"]
    prints["calibration"] = "other tasks"
    moved = [shop.recipe_of(run) != before[run] for run in RUNS]
    assert moved == [True, True, False, False]


def shop_prints(shop):
    sets = shop.field("popular-niche").sets._asdict()
    return {name: fingerprint(tasks) for name, tasks in sets.items()}


def test_a_generators_version_is_covered(shop, monkeypatch):
    prior = shop.digest(RACE.learned)
    before = [shop.recipe_of(run) for run in RUNS]
    monkeypatch.setattr(PopularNiche, "version", 99)
    assert all(a != shop.recipe_of(run) for a, run in zip(before, RUNS, strict=True))
    assert shop.digest(RACE.learned) != prior
    monkeypatch.undo()
    monkeypatch.setattr(Corruption, "version", 99)
    moved = [a != shop.recipe_of(run) for a, run in zip(before, RUNS, strict=True)]
    assert moved == [False, True, False, False]


def test_another_law_is_noticed_even_if_its_version_was_forgotten(shop, tmp_path, monkeypatch):
    for run in RUNS:
        shop.recipe_of(run)
    assert changed(shop, tmp_path) == [False] * 4
    monkeypatch.setattr(PopularNiche, "popular_value", 0.7)
    assert changed(shop, tmp_path) == [True] * 4


def raise_version(monkeypatch, sampler):
    monkeypatch.setitem(SAMPLERS, sampler, SimpleNamespace(version=99))


@pytest.mark.parametrize(
    ("sampler", "moved"),
    [
        ("paper", [True, True, False, False]),
        ("moment-damped", [False, True, False, False]),  # it scores what was learned
        ("moment", [False] * 4),
    ],
)
def test_a_samplers_version_is_covered_where_it_is_used(shop, monkeypatch, sampler, moved):
    before = [shop.recipe_of(run) for run in RUNS]
    raise_version(monkeypatch, sampler)
    after = [shop.recipe_of(run) for run in RUNS]
    assert [a != b for a, b in zip(before, after, strict=True)] == moved


def test_samplers_of_the_procedures():
    ours = procedure_for(get_problem("popular-niche"), "ours", PAPER)
    assert samplers_of(ours) == {"moment-learned", "moment-damped"}
    assert samplers_of(ABLATED["paper"]) == {"paper", "paper-sampled-noise"}


def test_twenty_groups_know_their_recipe(shop, monkeypatch):
    part, recipe = pictures._groups_part(shop)
    assert recipe == pictures._groups_part(shop)[1]
    for change in (
        lambda: monkeypatch.setattr(Groups, "version", 99),
        lambda: monkeypatch.setattr("diffts.problems.groups.MOST_ACTIVE", 5),
        lambda: raise_version(monkeypatch, "paper-sampled-noise"),
        lambda: setattr(shop, "profile", dataclasses.replace(SMOKE, length=1.0)),
    ):
        change()
        assert pictures._groups_part(shop)[1] != recipe
        monkeypatch.undo()
        shop.profile = SMOKE
    shop.store.save(part, {}, {"recipe": "the paper's", "scores": {}})  # as it was before
    assert not pictures.has_groups(shop)


def test_images_know_their_data(tmp_path, monkeypatch):
    (tmp_path / "mnist").mkdir()
    shop = new_shop(tmp_path / "parts", data_dir=tmp_path)
    recipes = set()
    for seed in (0, 1):
        pixels = np.random.default_rng(seed).random((50, 784), np.float32)
        monkeypatch.setattr(
            images, "read_images", lambda _, pixels=pixels: Images("mnist", pixels, 28, 28)
        )
        images._fingerprint_of.cache_clear()
        recipes.add(images._recipe_of(shop, "mnist"))
    raise_version(monkeypatch, "paper")
    recipes.add(images._recipe_of(shop, "mnist"))
    assert len(recipes) == 3
    images._fingerprint_of.cache_clear()


def test_real_slots_are_those_of_the_table_or_the_published_ones(shop, tmp_path, monkeypatch):
    run = diffts("bidding", "perfect", 0.2, tasks="real")
    published = shop.recipe_of(run)
    rows = [f"{slot},{price}" for slot in "ab" for price in range(60)]
    table = tmp_path / "data" / "ipinyou_slots" / "merged_slot_prices.csv"
    table.parent.mkdir(parents=True)
    table.write_text("\n".join(["slotid,payprice", *rows]))
    assert new_shop(tmp_path / "a", tmp_path / "data").recipe_of(run) != published
    monkeypatch.setitem(KNOWN, "real slots", "others")
    assert new_shop(tmp_path / "b").recipe_of(run) != published


def test_a_fit_to_other_tasks_is_made_anew(shop):
    field = shop.field("popular-niche")
    first = field.mixture("perfect", 2)
    key = "popular-niche/fits/perfect-mixture2-v1"  # as it always was: fits take minutes
    arrays, note = shop.store.load(key)
    field._mixtures.clear()
    shop.store.save(key, arrays | {"means": first.means + 1}, note)
    assert np.allclose(field.mixture("perfect", 2).means, first.means + 1)  # taken as it is
    field._mixtures.clear()
    shop.store.save(key, arrays | {"means": first.means + 1}, note | {"fitted_to": "others"})
    assert np.allclose(field.mixture("perfect", 2).means, first.means, atol=1e-6)


def test_a_fit_that_does_not_say_is_one_of_the_first_version(shop, monkeypatch):
    field = shop.field("popular-niche")
    first = field.mixture("perfect", 2)
    key = "popular-niche/fits/perfect-mixture2-v1"
    arrays, note = shop.store.load(key)
    note.pop("fitted_to")
    shop.store.save(key, arrays | {"means": first.means + 1}, note)
    field._mixtures.clear()
    assert np.allclose(field.mixture("perfect", 2).means, first.means + 1)
    monkeypatch.setattr(PopularNiche, "version", 2)
    field._mixtures.clear()
    assert np.allclose(field.mixture("perfect", 2).means, first.means, atol=1e-6)


# The committed results


def test_all_published_parts_are_of_todays_recipes():
    """Else `diffts reproduce --finished` would leave them out."""
    shop = Workshop(PAPER, Store(RESULTS / "parts", PAPER.as_json()), None, lambda *_: None)
    runs = {
        run
        for experiment in EXPERIMENTS.values()
        if experiment.panels is not None
        for panel in experiment.panels(PAPER)
        for line in panel.lines
        for run in line.runs
    }
    assert [run.key for run in sorted(runs) if not shop.is_played(run)] == []
    for run in runs:
        assert shop.store.load(run.key)[1]["run"] == dataclasses.asdict(run)
    learned = {run.learned for run in runs if run.learned}
    assert all(shop.has(one.time_key, shop.digest(one)) for one in learned)
    for problem in regret.TITLES:
        assert pictures.has_task_panels(shop, problem)
        assert pictures.has_calibration_rows(shop, problem)
    assert pictures.has_groups(shop)
    assert all(images.is_finished(shop, name) for name in images.SETS)
    assert Learned("labeled-arms-common", "perfect") in learned
