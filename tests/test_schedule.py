import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffts import InvalidInputError
from diffts.diffusion import Schedule


def test_the_papers_schedule():
    schedule = Schedule.linear()
    beta = 1 - np.divide(schedule.alpha_bar[1:], schedule.alpha_bar[:-1])
    np.testing.assert_allclose(beta, np.linspace(1e-4, 0.1, 100), rtol=1e-9)
    assert 0.005 < schedule.alpha_bar[-1] < 0.007


@given(st.integers(1, 100), st.floats(1.0, 5.0))
def test_a_strided_schedule_keeps_both_ends_and_is_strictly_increasing(steps, lateness):
    kept = Schedule.linear().strided(steps, lateness)
    assert len(kept) == steps + 1
    assert (kept[0], kept[-1]) == (0, 100)
    assert (np.diff(kept) > 0).all()


@given(st.integers(1, 50))
def test_a_late_chain_has_more_steps_where_there_is_little_noise(steps):
    even, late = (np.array(Schedule.linear().strided(steps, by)) for by in (1.0, 1.5))
    np.testing.assert_array_equal(even, np.round(np.linspace(0, 100, steps + 1)))
    assert (late <= even).all()
    assert steps == 1 or (late < even).any()


@given(st.integers(1, 100))
def test_reverse_coefficients_invert_the_forward_process(steps):
    """``q(x_ℓ | x_{ℓ+1}, x_0)`` averaged over ``q(x_{ℓ+1} | x_0)`` is ``q(x_ℓ | x_0)``."""
    step = Schedule.linear().transitions(steps)
    mean = step.c0 + step.c1 * step.source.signal
    variance = step.variance + step.c1**2 * step.source.noise**2
    np.testing.assert_allclose(mean, step.target.signal, rtol=2e-6)
    np.testing.assert_allclose(variance, step.target.noise**2, rtol=2e-6, atol=1e-9)


def test_the_last_step_returns_the_estimate_itself():
    step = Schedule.linear().transitions()
    assert (step.c0[-1], step.c1[-1], step.variance[-1]) == (1.0, 0.0, 0.0)
    assert step.is_last.tolist() == [0.0] * 99 + [1.0]


def test_small_noise_is_not_lost_to_rounding():
    level = Schedule.linear().level(1)
    assert level.noise == pytest.approx(1e-2, rel=1e-6)


def test_cosine_is_a_schedule():
    schedule = Schedule.cosine(50)
    assert schedule.n_steps == 50
    assert schedule.alpha_bar[-1] < 0.01


@pytest.mark.parametrize("steps", [0, -1, 101, 2.5, True, None, "ten"])
def test_impossible_numbers_of_steps_are_refused(steps):
    if steps is None:
        assert len(Schedule.linear().strided(None)) == 101
        return
    with pytest.raises(InvalidInputError, match="steps"):
        Schedule.linear().strided(steps)


@pytest.mark.parametrize("lateness", [0.5, 0.0, -1.0, float("nan"), float("inf")])
def test_a_chain_is_never_early(lateness):
    with pytest.raises(InvalidInputError, match="lateness"):
        Schedule.linear().strided(12, lateness)


@pytest.mark.parametrize("levels", [(1.0,), (0.9, 0.5), (1.0, 0.5, 0.5), (1.0, 0.0), (1.0, np.nan)])
def test_what_is_no_schedule_is_refused(levels):
    with pytest.raises(InvalidInputError, match="alpha_bar"):
        Schedule(levels)


@pytest.mark.parametrize("betas", [[0.0, 0.1], [1.0], [-0.1], [np.nan], [[0.1]]])
def test_bad_betas_are_refused(betas):
    with pytest.raises(InvalidInputError, match="betas"):
        Schedule.from_betas(betas)
