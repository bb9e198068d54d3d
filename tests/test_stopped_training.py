"""Training that is stopped, diverges, or cannot save its state: nothing is lost unsaid."""

import jax
import numpy as np
import pytest

from diffts import Evidence, InvalidInputError, TrainingConfig, learn_prior
from diffts.learning import (
    CheckpointWarning,
    Lesson,
    OurProcedure,
    TrainingStopped,
    choose_sure,
    learn_priors,
)
from diffts.learning.checkpoint import Checkpoint

TASKS = np.random.default_rng(0).normal(size=(40, 3))
CONFIG = TrainingConfig(steps=6, batch_size=4, block=2)
SMALL = {"options": {"width": 4, "n_blocks": 1}, "seed": 1}
SHORT = OurProcedure(
    warmup_steps=4, rounds=1, inner_steps=2, score_every=4, sampler_steps=2, draws=1,
    training=TrainingConfig(batch_size=4, block=2),
)  # fmt: skip


def learn(on_block=None, checkpoint=None, config=CONFIG):
    return learn_prior(
        TASKS[:30], TASKS[30:], config=config, checkpoint=checkpoint, on_progress=on_block, **SMALL
    )


def learn_imperfect(on_block=None, checkpoint=None):
    known = Evidence(TASKS, 0.1, np.random.default_rng(1).random(TASKS.shape) < 0.7)
    return learn_prior(known, procedure=SHORT, checkpoint=checkpoint, on_progress=on_block, **SMALL)


def stop_at(count):
    """A report that is interrupted when it is called for the ``count``-th time."""
    calls = []

    def report(_):
        calls.append(1)
        if len(calls) == count:
            raise KeyboardInterrupt

    return report


def same(a, b):
    leaves = zip(*map(jax.tree.leaves, (a, b)), strict=True)
    return all(np.array_equal(x, y) for x, y in leaves)


@pytest.mark.parametrize("how", [learn, pytest.param(learn_imperfect, marks=pytest.mark.slow)])
def test_an_interrupt_saves_the_state_and_the_training_goes_on_from_it(tmp_path, how):
    folder = tmp_path / "checkpoint"
    with pytest.raises(TrainingStopped) as stopped:
        how(stop_at(2), folder)
    assert (stopped.value.folder, stopped.value.step) == (folder, 4)
    steps = []
    again = how(steps.append, folder)
    assert len(steps) == 1  # the block that was left
    assert same(again, how())


def test_without_a_checkpoint_an_interrupt_is_just_that(tmp_path):
    with pytest.raises(KeyboardInterrupt) as stopped:
        learn(stop_at(2))
    assert not isinstance(stopped.value, TrainingStopped)
    assert list(tmp_path.iterdir()) == []


def test_the_state_is_kept_elsewhere_if_its_folder_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lost = tmp_path / "file" / "checkpoint"
    lost.parent.write_text("not a folder any more")
    with pytest.raises(TrainingStopped) as stopped:
        learn(stop_at(2), lost)
    assert stopped.value.folder != lost
    assert same(learn(checkpoint=stopped.value.folder), learn())


def test_a_checkpoint_that_cannot_be_saved_is_a_warning(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(CheckpointWarning, match="the training goes on"):
        prior = learn(checkpoint=tmp_path / "file" / "checkpoint")
    assert prior.n_arms == 3


@pytest.mark.slow
def test_a_choice_of_sure_has_a_checkpoint_for_each(tmp_path):
    known = Evidence(TASKS, 0.1)
    how = {"procedure": SHORT, "candidates": (0.0, 0.1), **SMALL}
    blocks = []

    def stop_in_the_second(sure, _):
        blocks.append(sure)
        if blocks.count(0.1) == 2:
            raise KeyboardInterrupt

    with pytest.raises(TrainingStopped):
        choose_sure(known, checkpoint=tmp_path, on_progress=stop_in_the_second, **how)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sure-0", "sure-0.1"]
    blocks.clear()
    again, _ = choose_sure(
        known, checkpoint=tmp_path, on_progress=lambda sure, _: blocks.append(sure), **how
    )
    assert blocks == [0.1]  # only what was left
    assert same(again, choose_sure(known, **how)[0])


WILD = TrainingConfig(steps=8, batch_size=4, block=2, learning_rate=1e30)


@pytest.mark.slow
def test_training_that_diverges_says_so():
    with pytest.raises(
        InvalidInputError, match=r"^training diverged: .* at step \d.*lower learning"
    ):
        learn(config=WILD)
    lessons = [Lesson(TASKS[:30], TASKS[30:], config=WILD, seed=seed) for seed in (0, 1)]
    with pytest.raises(
        InvalidInputError, match=r"^training diverged: .* at step \d.*lower learning"
    ):
        learn_priors(lessons, options=SMALL["options"])


def test_a_diverged_state_is_not_saved(tmp_path):
    with pytest.raises(InvalidInputError, match="diverged"):
        learn(config=WILD, checkpoint=tmp_path / "checkpoint")
    assert not (tmp_path / "checkpoint").exists()


def test_weights_lost_in_the_last_step_are_seen():
    """The loss of a step is that of the weights before it."""
    last = TrainingConfig(steps=1, batch_size=4, learning_rate=3e38)
    with pytest.raises(InvalidInputError, match="diverged"):
        learn(config=last)


def test_a_state_is_saved_at_its_end(tmp_path):
    learn(checkpoint=tmp_path / "checkpoint")
    steps = []
    learn(steps.append, tmp_path / "checkpoint")
    assert steps == []
    assert Checkpoint(None, "").load(3) == 3
