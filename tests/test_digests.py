"""A digest covers what made a result: tasks, recipe, versions of generators and of samplers."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from diffts.diffusion.networks import ArmDenoiser
from diffts.diffusion.posterior import SAMPLERS
from diffts.problems import PROBLEMS, Corruption, Groups, PopularNiche, get_problem
from diffts.problems.images import Images
from diffts.problems.problem import SuggestedArms
from diffts.reproduction import EXPERIMENTS, PROFILES, images, pictures
from diffts.reproduction.digests import KNOWN, fingerprint
from diffts.reproduction.specs import APPENDIX, ARMS, PriorSpec, Run, diffts, plan_for
from diffts.reproduction.store import Made, Store
from diffts.reproduction.work import Reproduction

#: What is finished of the evaluation.
EVALUATION = Path(__file__).parent.parent / "results" / "paper"
SMOKE, PAPER = PROFILES["smoke"], PROFILES["paper"]

RACE = diffts("popular-niche", "perfect", 0.1, APPENDIX)
IMPERFECT = diffts("popular-niche", "imperfect", 0.1, APPENDIX)
BASELINE = Run("popular-niche", "perfect", "gts-full", 0.1)
UCB = Run("popular-niche", "perfect", "ucb1", 0.1)
RUNS = (RACE, IMPERFECT, BASELINE, UCB)


@pytest.fixture
def shop(tmp_path):
    return new_shop(tmp_path)


def new_shop(folder, data_dir=None):
    return Reproduction(SMOKE, Store(folder, SMOKE.as_json()), data_dir)


def changed(shop, tmp_path, runs=RUNS):
    """Which runs a new process would not find finished."""
    again = new_shop(tmp_path)
    return [shop.run_part(run).digest != again.run_part(run).digest for run in runs]


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


def test_the_two_kinds_of_labeled_arms_have_digests_of_their_own(tmp_path):
    work = Reproduction(PAPER, Store(tmp_path, {}))
    names = ("labeled-arms", "labeled-arms-common")
    assert len({work.prior_part(PriorSpec(name, "perfect")).digest for name in names}) == 2


def test_tasks_are_covered_as_far_as_a_run_uses_them(shop, monkeypatch):
    before = {run: shop.run_part(run).digest for run in RUNS}
    prior = shop.prior_part(RACE.prior).digest
    data = shop.problem("popular-niche")
    with monkeypatch.context() as patched:
        patched.setattr(data, "test", lambda _: np.zeros((3, 200)))
        assert all(shop.run_part(run).digest != before[run] for run in RUNS)
        assert shop.prior_part(RACE.prior).digest == prior  # which never saw them
    prints = data.fingerprints
    told = dict(prints)
    prints["train"] = "other tasks"
    moved = [shop.run_part(run).digest != before[run] for run in RUNS]
    assert moved == [True, True, True, False]  # UCB1 learns nothing
    prints |= told | {"calibration": "other tasks"}
    moved = [shop.run_part(run).digest != before[run] for run in RUNS]
    assert moved == [True, True, False, False]


def test_a_generators_version_is_covered(shop, monkeypatch):
    prior = shop.prior_part(RACE.prior).digest
    before = [shop.run_part(run).digest for run in RUNS]
    monkeypatch.setattr(PopularNiche, "version", 99)
    assert all(a != shop.run_part(run).digest for a, run in zip(before, RUNS, strict=True))
    assert shop.prior_part(RACE.prior).digest != prior
    monkeypatch.undo()
    monkeypatch.setattr(Corruption, "version", 99)
    moved = [a != shop.run_part(run).digest for a, run in zip(before, RUNS, strict=True)]
    assert moved == [False, True, False, False]


def test_another_law_is_noticed_even_if_its_version_was_forgotten(shop, tmp_path, monkeypatch):
    for run in RUNS:
        shop.run_part(run)
    assert changed(shop, tmp_path) == [False] * 4
    monkeypatch.setattr(PopularNiche, "popular_value", 0.7)
    assert changed(shop, tmp_path) == [True] * 4


def raise_version(monkeypatch, sampler):
    monkeypatch.setitem(SAMPLERS, sampler, SimpleNamespace(version=99))


@pytest.mark.parametrize(
    ("sampler", "moved"),
    [
        ("paper", [True, True, False, False]),
        ("paper-sampled-noise", [False, True, False, False]),  # of the latents that are kept
        ("moment-damped", [False] * 4),  # it scores, and nobody chooses by that
    ],
)
def test_a_samplers_version_is_covered_where_it_is_used(shop, monkeypatch, sampler, moved):
    before = [shop.run_part(run).digest for run in RUNS]
    raise_version(monkeypatch, sampler)
    after = [shop.run_part(run).digest for run in RUNS]
    assert [a != b for a, b in zip(before, after, strict=True)] == moved


def test_the_length_of_our_chains_is_covered(shop, monkeypatch):
    """Of runs whose digests are older than that, it is 12 steps."""
    for profile, moved in ((PAPER, True), (SMOKE, False)):  # SMOKE has one of its own
        shop.profile = profile
        ours = diffts("popular-niche", "perfect", 0.1, ARMS, sampler="merged")
        before = [shop.run_part(run).digest for run in (ours, RACE)]
        with monkeypatch.context() as patched:
            patched.setattr(ArmDenoiser, "default_steps", 20)
            after = [shop.run_part(run).digest for run in (ours, RACE)]
        assert [a != b for a, b in zip(before, after, strict=True)] == [moved, False]


def test_the_gaussian_below_is_covered(shop, monkeypatch):
    data = shop.problem("popular-niche")
    before = data.fit_part("perfect", "below").digest
    assert data.fit_part("imperfect", "below").digest != before
    monkeypatch.setattr(PopularNiche, "suggested_arms", SuggestedArms({"most_factors": 1}))
    data.profile = PAPER  # a tiny one has ranks of its own
    assert data.fit_part("perfect", "below").digest != before


def test_samplers_of_the_procedures():
    assert plan_for("popular-niche", PAPER, ARMS).procedure.samplers == {"merged"}
    theirs = plan_for("popular-niche", PAPER, APPENDIX).procedure
    assert theirs.samplers == {"paper", "paper-sampled-noise"}


def test_twenty_groups_know_their_recipe(shop, monkeypatch):
    piece, _ = pictures.group_pieces(shop)  # one of each seed
    assert piece.part == pictures.group_pieces(shop)[0].part
    for change in (
        lambda: monkeypatch.setattr(Groups, "version", 99),
        lambda: monkeypatch.setattr("diffts.problems.groups.MOST_ACTIVE", 5),
        lambda: raise_version(monkeypatch, "paper-sampled-noise"),
        lambda: setattr(shop, "profile", dataclasses.replace(SMOKE, length=1.0)),
    ):
        change()
        assert pictures.group_pieces(shop)[0].part.digest != piece.part.digest
        monkeypatch.undo()
        shop.profile = SMOKE
    made = Made({}, {"recipe": "the paper's", "scores": {}})  # as it was before
    shop.store.save(piece.part, made)
    assert not piece.finished(shop)


def test_images_know_their_data(tmp_path, monkeypatch):
    (tmp_path / "mnist").mkdir()
    shop = new_shop(tmp_path / "parts", data_dir=tmp_path)
    digests = set()
    for seed in (0, 1):
        pixels = np.random.default_rng(seed).random((50, 784), np.float32)
        monkeypatch.setattr(
            images, "read_images", lambda _, pixels=pixels: Images("mnist", pixels, 28, 28)
        )
        images._fingerprint_of.cache_clear()
        digests.add(images.ImageSet(shop, "mnist").pieces()[0].part.digest)
    raise_version(monkeypatch, "paper")
    digests.add(images.ImageSet(shop, "mnist").pieces()[0].part.digest)
    assert len(digests) == 3
    images._fingerprint_of.cache_clear()


def test_real_slots_are_those_of_the_table_or_the_published_ones(shop, tmp_path, monkeypatch):
    run = diffts("bidding", "perfect", 0.2, tasks="real")
    published = shop.run_part(run).digest
    rows = [f"{slot},{price}" for slot in "ab" for price in range(60)]
    table = tmp_path / "data" / "ipinyou_slots" / "merged_slot_prices.csv"
    table.parent.mkdir(parents=True)
    table.write_text("\n".join(["slotid,payprice", *rows]))
    assert new_shop(tmp_path / "a", tmp_path / "data").run_part(run).digest != published
    monkeypatch.setitem(KNOWN, "real slots", "others")
    assert new_shop(tmp_path / "b").run_part(run).digest != published


@pytest.mark.slow
def test_a_fit_to_other_tasks_is_made_anew(shop):
    data, store = shop.problem("popular-niche"), shop.store
    first = data.mixture("perfect", 2, 1)
    part = data.fit_part("perfect", "mixture2-seed1")
    moved = Made({}, {}, [store.arrays(part.apart[0]) | {"means": first.means + 1}])
    store.save(part, moved._replace(note={"recipe": part.digest}))
    assert np.allclose(data.mixture("perfect", 2, 1).means, first.means + 1)  # taken as it is
    for said in ({"recipe": "others"}, {}):
        store.save(part, moved._replace(note=said))
        assert np.allclose(data.mixture("perfect", 2, 1).means, first.means, atol=1e-6)


# The committed results


def test_the_evaluations_finished_runs_are_of_todays_recipes():
    shop = Reproduction(PAPER, Store(EVALUATION / "parts", PAPER.as_json()))
    asked = {
        run.key: run
        for experiment in EXPERIMENTS.values()
        if experiment.panels is not None
        for panel in experiment.panels(PAPER)
        for run in panel.runs
    }
    parts = EVALUATION / "parts"
    made = [str(path.relative_to(parts))[: -len(".npz")] for path in parts.glob("*/runs/*.npz")]
    assert len(made) > 200
    for key in made:
        run = asked[key]
        assert shop.is_played(run)
        note = shop.store.note(run.key)
        assert note["run"] == dataclasses.asdict(run)
        assert "dirty" not in note["commit"]
