"""Saved priors: round trips, damage, foreign and newer files, crashes in the middle of a save."""

import json
import os
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffts.priors
from diffts import DiffusionPrior, Evidence, TrainingConfig, learn_prior, storage
from diffts.diffusion import NETWORKS, Schedule, build_denoiser
from diffts.diffusion.units import Units
from diffts.errors import ArtifactError, InvalidInputError
from diffts.priors import builtin_names, builtin_prior
from diffts.problems import get_problem
from diffts.storage import named_arrays

OPTIONS = {
    "residual-conv": {"channels": 2, "length": 8, "n_blocks": 2},
    "residual-mlp": {"width": 16, "n_blocks": 1},
    "unet-1d": {"channels": [8, 8]},
    "unet-2d": {"channels": [8, 8], "height": 3, "width": 4},
}


def network_prior(name="residual-mlp", predicts="clean", seed=0):
    denoiser = build_denoiser(name, 12, predicts=predicts, seed=seed, **OPTIONS[name])
    tau = np.linspace(0.01, 1.0, 20)[:, None] * np.ones(12)
    return DiffusionPrior(
        denoiser,
        tau,
        schedule=Schedule.linear(20),
        units=Units(0.5, 0.25),
        metadata={"problem": "toy", "seed": seed},
    )


def exact_priors():
    yield DiffusionPrior.gaussian([1.0, 2.0], [[1.0, 0.3], [0.3, 2.0]])
    yield DiffusionPrior.mixture(
        [0.4, 0.6], [[0.0, 1.0], [1.0, 0.0]], [np.eye(2), 0.5 * np.eye(2)], Schedule.cosine(30)
    )


def assert_same(a, b):
    draws = [p.posterior_sample(Evidence.none(a.n_arms), n=2, steps=5) for p in (a, b)]
    np.testing.assert_array_equal(*draws)
    arrays, others = named_arrays(a), named_arrays(b)
    assert arrays.keys() == others.keys()
    for name in arrays:
        np.testing.assert_array_equal(arrays[name], others[name], err_msg=name)
    assert a.metadata == b.metadata
    assert a.schedule == b.schedule
    np.testing.assert_array_equal(a.reconstruction_error, b.reconstruction_error)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "predicts"),
    # What is predicted is a word in the config, the same for all networks: one shows it.
    [*((name, "clean") for name in sorted(NETWORKS)), ("residual-mlp", "noise"),
     ("residual-mlp", "velocity")],
)  # fmt: skip
def test_network_priors_come_back_the_same(tmp_path, name, predicts):
    prior = network_prior(name, predicts)
    prior.save(tmp_path / "prior")
    assert_same(prior, DiffusionPrior.load(tmp_path / "prior"))


@pytest.mark.slow
def test_a_residual_network_comes_back_with_its_gaussian(tmp_path):
    tasks = np.random.default_rng(0).standard_normal((30, 4))
    config = TrainingConfig(steps=2, batch_size=8)
    prior = learn_prior(tasks, predicts="residual", options={"width": 8}, config=config)
    prior.save(tmp_path)
    again = DiffusionPrior.load(tmp_path)
    np.testing.assert_array_equal(prior.sample(3), again.sample(3))
    np.testing.assert_array_equal(
        prior.denoiser.base.eigenvectors, again.denoiser.base.eigenvectors
    )


@pytest.mark.slow
def test_in_half_precision_a_prior_takes_half_the_room(tmp_path):
    prior = network_prior("residual-mlp")
    prior.save(tmp_path / "whole")
    prior.save(tmp_path / "half", half=True)
    size = {
        name: sum(path.stat().st_size for path in (tmp_path / name).glob("*.safetensors"))
        for name in ("whole", "half")
    }
    assert size["half"] < 0.6 * size["whole"]
    again = DiffusionPrior.load(tmp_path / "half")
    np.testing.assert_array_equal(prior.tau, again.tau)  # errors and units are kept in full
    for a, b in zip(*map(jax.tree.leaves, (prior.denoiser, again.denoiser)), strict=True):
        if eqx.is_inexact_array(a):
            assert b.dtype == jnp.float32
            np.testing.assert_allclose(a, b, rtol=2**-11, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("name", builtin_names())
def test_built_in_priors_fit_their_problems_and_are_small(name):
    prior = builtin_prior(name)
    problem = get_problem(name)
    assert prior.n_arms == problem.n_arms
    draws, tasks = prior.sample(50, seed=0, steps=10), problem.sample(50, seed=0)
    assert abs(draws.mean() - tasks.mean()) < 0.1 * tasks.std()
    assert 0.8 < draws.std() / tasks.std() < 1.2
    folder = Path(diffts.priors.__file__).parent / name
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 3 * 2**20


def test_there_is_a_built_in_prior_for_every_bandit_problem_of_the_paper():
    assert builtin_names() == [
        "bidding", "labeled-arms", "labeled-arms-common", "maze", "popular-niche",
    ]  # fmt: skip
    with pytest.raises(InvalidInputError, match="prior: none is built in for 'groups'"):
        builtin_prior("groups")
    folder = Path(diffts.priors.__file__).parent
    assert sum(path.stat().st_size for path in folder.glob("*/*")) <= 12 * 2**20


@pytest.mark.slow
def test_built_in_priors_of_labeled_arms_are_each_of_their_own_law():
    """With a scale for each task the values spread by a third more than with a common one."""
    spreads = {}
    for name in ("labeled-arms", "labeled-arms-common"):
        spreads[name] = builtin_prior(name).sample(50, seed=0, steps=20).std()
        tasks = get_problem(name).sample(500, seed=0)
        assert abs(spreads[name] / tasks.std() - 1) < 0.05
    assert spreads["labeled-arms"] > 1.2 * spreads["labeled-arms-common"]


@pytest.mark.slow
def test_exact_priors_come_back_the_same(tmp_path):
    for index, prior in enumerate(exact_priors()):
        prior.save(tmp_path / str(index))
        assert_same(prior, DiffusionPrior.load(tmp_path / str(index)))


def test_a_folder_holds_json_and_safetensors_only(tmp_path):
    network_prior().save(tmp_path)
    names = sorted(path.suffix for path in tmp_path.iterdir())
    assert names == [".json", ".safetensors"]
    json.loads((tmp_path / "config.json").read_text())


def test_saving_again_replaces_the_old_prior(tmp_path):
    network_prior(seed=0).save(tmp_path)
    network_prior(seed=1).save(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    assert_same(network_prior(seed=1), DiffusionPrior.load(tmp_path))


@pytest.mark.parametrize("crash_at", range(1, 5))
def test_a_crash_during_a_save_leaves_the_old_prior_whole(tmp_path, monkeypatch, crash_at):
    """Fail at each system call that changes the folder, in turn."""
    network_prior(seed=0).save(tmp_path)
    calls = 0

    def crashing(original):
        def call(*arguments, **keywords):
            nonlocal calls
            calls += 1
            if calls == crash_at:
                raise KeyboardInterrupt
            return original(*arguments, **keywords)

        return call

    monkeypatch.setattr(storage.os, "fsync", crashing(os.fsync))
    monkeypatch.setattr(storage.os, "replace", crashing(os.replace))
    with pytest.raises(KeyboardInterrupt):
        network_prior(seed=1).save(tmp_path)
    monkeypatch.undo()
    assert_same(network_prior(seed=0), DiffusionPrior.load(tmp_path))
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    network_prior(seed=2).save(tmp_path)
    assert_same(network_prior(seed=2), DiffusionPrior.load(tmp_path))
    assert len(list(tmp_path.iterdir())) == 2


def edit(folder, change):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


def arrays_file(folder):
    return next(folder.glob("*.safetensors"))


DAMAGE = {
    "no folder": lambda folder: [path.unlink() for path in folder.iterdir()],
    "no arrays": lambda folder: arrays_file(folder).unlink(),
    "truncated arrays": lambda folder: os.truncate(arrays_file(folder), 200),
    "empty arrays": lambda folder: os.truncate(arrays_file(folder), 0),
    "truncated config": lambda folder: os.truncate(folder / "config.json", 40),
    "binary config": lambda folder: (folder / "config.json").write_bytes(b"\xff\xfe\x00"),
    "a list": lambda folder: (folder / "config.json").write_text("[]"),
    "foreign": lambda folder: (folder / "config.json").write_text('{"model": "other"}'),
    "newer": lambda folder: edit(folder, lambda c: c.update(version=99)),
    "no version": lambda folder: edit(folder, lambda c: c.pop("version")),
    "other kind": lambda folder: edit(folder, lambda c: c.update(kind="diffts.training")),
    "no content": lambda folder: edit(folder, lambda c: c.pop("content")),
    "no denoiser": lambda folder: edit(folder, lambda c: c["content"].pop("denoiser")),
    "no metadata": lambda folder: edit(folder, lambda c: c["content"].pop("metadata")),
    "odd denoiser": lambda folder: edit(folder, lambda c: c["content"].update(denoiser=[1])),
    "unknown denoiser": lambda folder: edit(
        folder, lambda c: c["content"]["denoiser"].update(kind="oracle")
    ),
    "unknown network": lambda folder: edit(
        folder, lambda c: c["content"]["denoiser"].update(network="oracle")
    ),
    "other sizes": lambda folder: edit(
        folder, lambda c: c["content"]["denoiser"]["options"].update(width=17)
    ),
    "other arms": lambda folder: edit(folder, lambda c: c["content"]["denoiser"].update(n_arms=3)),
    "bad schedule": lambda folder: edit(folder, lambda c: c["content"].update(alpha_bar=[2, 1])),
    "a path": lambda folder: edit(folder, lambda c: c["arrays"].update(file="../x.safetensors")),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_what_cannot_be_read_is_refused_with_its_place(tmp_path, name):
    network_prior().save(tmp_path / "prior")
    DAMAGE[name](tmp_path / "prior")
    with pytest.raises(ArtifactError, match="prior"):
        DiffusionPrior.load(tmp_path / "prior")


def test_flipped_bits_are_found(tmp_path):
    network_prior().save(tmp_path)
    path = arrays_file(tmp_path)
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArtifactError, match="hash"):
        DiffusionPrior.load(tmp_path)


def test_a_newer_file_says_so(tmp_path):
    network_prior().save(tmp_path)
    edit(tmp_path, lambda config: config.update(version=3))
    with pytest.raises(ArtifactError, match=r"format 3.*newer diffts"):
        DiffusionPrior.load(tmp_path)


def test_a_prior_of_the_first_format_has_no_limits(tmp_path):
    """As it was saved before there were any: the same arrays without them."""
    prior = network_prior()
    arrays = named_arrays(prior)
    old = {name: array for name, array in arrays.items() if name not in (".low", ".high")}
    content = {
        "denoiser": prior.denoiser.recipe(),
        "alpha_bar": list(prior.schedule.alpha_bar),
        "metadata": prior.metadata,
    }
    storage.save_folder(tmp_path, "diffts.prior", 1, content, old)
    again = DiffusionPrior.load(tmp_path)
    assert (float(again.low), float(again.high)) == (-np.inf, np.inf)
    assert_same(prior, again)


def test_nothing_foreign_is_overwritten(tmp_path):
    (tmp_path / "config.json").write_text('{"mine": true}')
    with pytest.raises(ArtifactError, match="another folder"):
        network_prior().save(tmp_path)
    assert (tmp_path / "config.json").read_text() == '{"mine": true}'


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "prior").write_text("hello")
    with pytest.raises(ArtifactError, match="prior"):
        network_prior().save(tmp_path / "prior")


def test_metadata_must_be_json():
    with pytest.raises(InvalidInputError, match="metadata"):
        DiffusionPrior(
            build_denoiser("residual-mlp", 2, width=4), np.ones((100, 2)), metadata={"f": print}
        )
