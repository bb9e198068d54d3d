import dataclasses

import jax
import numpy as np
import pytest

from diffts import Evidence, InvalidInputError


def test_history_gives_means_and_shrinking_noise():
    evidence = Evidence.from_history([2, 0, 2, 2], [1.0, 0.5, 2.0, 3.0], n_arms=4, noise_std=0.3)
    np.testing.assert_allclose(evidence.mean, [0.5, 0, 2.0, 0])
    np.testing.assert_allclose(evidence.std, [0.3, 0, 0.3 / np.sqrt(3), 0], rtol=1e-6)
    assert evidence.mask.tolist() == [True, False, True, False]


def test_empty_history_is_no_evidence():
    evidence = Evidence.from_history([], [], n_arms=3, noise_std=0.1)
    assert not evidence.mask.any()


def test_history_takes_one_noise_level_per_arm():
    evidence = Evidence.from_history([0, 1], [0, 0], n_arms=2, noise_std=[0.1, 0.4])
    np.testing.assert_allclose(evidence.std, [0.1, 0.4], rtol=1e-6)


def test_perfect_data_is_std_zero_and_full_mask():
    evidence = Evidence.exact([[0.1, 0.2], [0.3, 0.4]])
    assert evidence.mask.all()
    assert (evidence.std == 0).all()
    assert evidence.batch_shape == (2,)


def test_nan_means_unobserved_unless_the_mask_says_otherwise():
    assert Evidence([np.nan, 1.0], 0.1).mask.tolist() == [False, True]
    assert Evidence([np.nan, 1.0], np.nan, [False, False]).mean.tolist() == [0, 0]
    with pytest.raises(InvalidInputError, match="mean"):
        Evidence([np.nan, 1.0], 0.1, [True, True])


def test_it_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Evidence([1.0], 0.1).mean = np.zeros(1)


def test_stack_and_map_like_any_pytree():
    batch = Evidence.stack([Evidence([1.0], 0.1), Evidence([2.0], 0.2)])
    assert batch.mean.shape == (2, 1)
    doubled = jax.jit(jax.vmap(lambda task: Evidence(2 * task.mean, task.std, task.mask)))(batch)
    np.testing.assert_allclose(doubled.mean, [[2.0], [4.0]])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (dict(mean=[1.0], std=[-0.1]), "std"),
        (dict(mean=[1.0], std=[np.inf]), "std"),
        (dict(mean=[1.0], std=[np.nan]), "std"),
        (dict(mean=[np.inf], std=[0.1]), "mean"),
        (dict(mean=[1e300], std=[0.1]), "mean"),
        (dict(mean=[1.0, 2.0], std=[0.1, 0.1, 0.1]), "std"),
        (dict(mean=[1.0, 2.0], std=0.1, mask=[True] * 3), "mask"),
        (dict(mean=[1.0], std=0.1, mask=[2]), "mask"),
        (dict(mean=1.0, std=0.1), "mean"),
        (dict(mean=[], std=0.1), "mean"),
        (dict(mean=["a"], std=0.1), "mean"),
    ],
)
def test_bad_evidence_is_refused_by_name(arguments, named):
    with pytest.raises(InvalidInputError, match=named):
        Evidence(**arguments)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (dict(arms=[3], rewards=[1.0]), "arms.*3"),
        (dict(arms=[-1], rewards=[1.0]), "arms"),
        (dict(arms=[0.5], rewards=[1.0]), "arms"),
        (dict(arms=[0, 1], rewards=[1.0]), "rewards"),
        (dict(arms=[0], rewards=[np.nan]), "rewards"),
        (dict(arms=[0], rewards=[1.0], noise_std=-1.0), "noise_std"),
        (dict(arms=[0], rewards=[1.0], noise_std=[1.0, 1.0]), "noise_std"),
        (dict(arms=[0], rewards=[1.0], n_arms=0), "n_arms"),
    ],
)
def test_bad_history_is_refused_by_name(arguments, named):
    with pytest.raises(InvalidInputError, match=named):
        Evidence.from_history(**{"n_arms": 3, "noise_std": 0.1, **arguments})
