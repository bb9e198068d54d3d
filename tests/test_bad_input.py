"""Whatever is wrong with an argument, the error names it; nothing else is ever raised."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from diffts import DiffusionPrior, Evidence, InvalidInputError
from diffts.diffusion import Gaussian, build_denoiser
from diffts.diffusion.units import Units
from diffts.learning import fit_mixture

PRIOR = DiffusionPrior.gaussian([0.0, 0.0], np.eye(2))
QUICK = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])

any_float = st.floats(allow_nan=True, allow_infinity=True, width=64)
bad_float = st.sampled_from([np.nan, np.inf, -np.inf, 1e39, -1e200])
any_shape = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)


def raises(*names):
    """An InvalidInputError whose message starts with one of the argument names."""
    return pytest.raises(InvalidInputError, match=rf"^({'|'.join(names)})")


def plant(array, position, value):
    flat = np.array(array, dtype=np.float64)
    flat.flat[position % flat.size] = value
    return flat


@QUICK
@given(
    mean=hnp.arrays(np.float64, any_shape, elements=any_float),
    std=hnp.arrays(np.float64, any_shape, elements=any_float),
    mask=st.none() | hnp.arrays(bool, any_shape),
)
def test_evidence_is_valid_or_refused(mean, std, mask):
    """Any arrays at all: either an Evidence that keeps its promises, or one clear error."""
    try:
        evidence = Evidence(mean, std, mask)
    except InvalidInputError as error:
        assert str(error).startswith(("mean", "std", "mask"))  # noqa: PT017
        return
    assert evidence.mean.shape == evidence.std.shape == evidence.mask.shape == mean.shape
    assert np.isfinite(evidence.mean).all()
    assert np.isfinite(evidence.std).all()
    assert (evidence.std >= 0).all()


@QUICK
@given(st.integers(0, 5), bad_float)
def test_bad_numbers_in_evidence(position, value):
    good = np.ones((2, 3))
    full = np.ones((2, 3), bool)
    with raises("mean"):
        Evidence(plant(good, position, value), good, full)
    with raises("std"):
        Evidence(good, plant(good, position, value), full)
    with raises("std"):
        Evidence(good, plant(good, position, -abs(np.float32(0.5))), full)


@QUICK
@given(st.integers(0, 3), bad_float)
def test_bad_numbers_in_a_gaussian(position, value):
    with raises("mean"):
        DiffusionPrior.gaussian(plant(np.zeros(2), position, value), np.eye(2))
    with raises("covariance"):
        DiffusionPrior.gaussian(np.zeros(2), plant(np.eye(2), position, value))


@QUICK
@given(hnp.arrays(np.float64, (3, 3), elements=st.floats(-10, 10)))
def test_a_matrix_is_a_covariance_or_is_refused(matrix):
    symmetric = np.abs(matrix - matrix.T).max() <= 1e-6 * np.abs(matrix).max()
    smallest = np.linalg.eigvalsh(0.5 * (matrix + matrix.T))[0]
    if symmetric and smallest >= -1e-6 * np.abs(matrix).max():
        assert Gaussian(np.zeros(3), matrix).std.shape == (3,)
        return
    with raises("covariance: not symmetric", "covariance: indefinite"):
        Gaussian(np.zeros(3), matrix)


@pytest.mark.slow
@QUICK
@given(
    st.integers(max_value=0) | st.integers(min_value=101) | st.floats() | st.booleans() | st.text()
)
def test_bad_steps(steps):
    with raises("steps"):
        PRIOR.posterior_sample(Evidence.none(2), steps=steps)


@QUICK
@given(st.integers(max_value=0) | st.floats() | st.booleans() | st.text())
def test_bad_numbers_of_draws(n):
    with raises("n:"):
        PRIOR.sample(n)
    with raises("n:"):
        PRIOR.posterior_sample(Evidence.none(2), n=n)


@QUICK
@given(st.text() | st.integers() | st.none())
def test_unknown_names(name):
    if name is not None:  # which is what suits the prior
        with raises("sampler"):
            PRIOR.posterior_sample(Evidence.none(2), sampler=name)
    with raises("variance"):
        PRIOR.posterior_sample(Evidence.none(2), variance=name)


@QUICK
@given(st.integers(1, 6).filter(lambda arms: arms != 2))
def test_evidence_of_another_number_of_arms(arms):
    with raises("evidence"):
        PRIOR.posterior_sample(Evidence.none(arms))


@QUICK
@given(st.text() | st.none() | st.floats() | st.booleans() | st.integers(max_value=-1))
def test_bad_seeds(seed):
    with raises("seed"):
        PRIOR.sample(1, seed=seed)


@pytest.mark.parametrize("evidence", [None, [1.0, 2.0], {"mean": [1.0]}, np.zeros(2)])
def test_what_is_no_evidence(evidence):
    with raises("evidence"):
        PRIOR.posterior_sample(evidence)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"tau": np.ones((100, 3))}, "tau"),
        ({"tau": np.ones((99, 2))}, "tau"),
        ({"tau": -np.ones((100, 2))}, "tau"),
        ({"tau": np.full((100, 2), np.nan)}, "tau"),
        ({"units": Units(0.0, 0.0)}, "units"),
        ({"units": Units(0.0, -1.0)}, "units"),
        ({"units": Units(np.nan, 1.0)}, "units"),
    ],
)
def test_bad_parts_of_a_prior(changes, named):
    with raises(named):
        DiffusionPrior(**{"denoiser": PRIOR.denoiser, "tau": PRIOR.tau, **changes})


@pytest.mark.parametrize(
    ("network", "options", "named"),
    [
        ("residual-mlp", {"width": 0}, "width"),
        ("residual-mlp", {"width": -3}, "width"),
        ("residual-mlp", {"width": 2.5}, "width"),
        ("residual-mlp", {"n_blocks": -1}, "n_blocks"),
        ("residual-mlp", {"embedding_size": 5}, "embedding_size"),
        ("residual-mlp", {"embedding_size": 2}, "embedding_size"),
        ("residual-conv", {"channels": 0}, "channels"),
        ("residual-conv", {"length": -1}, "length"),
        ("residual-conv", {"n_blocks": -1}, "n_blocks"),
        ("unet-1d", {"channels": [0]}, "channels"),
        ("unet-1d", {"embedding_size": 7}, "embedding_size"),
        ("residual-mlp", {"colour": "red"}, "options of residual-mlp"),
    ],
)
def test_networks_that_cannot_be_built(network, options, named):
    with raises(named):
        build_denoiser(network, 4, **options)


@pytest.mark.slow
def test_more_mixture_components_than_tasks():
    with raises("components: 7 of a mixture, from 5 tasks"):
        fit_mixture(np.random.default_rng(0).random((5, 2)), 7)


@pytest.mark.parametrize("limits", [(1.0, 0.0), (0.5, 0.5), (np.nan, 1.0)])
def test_limits_of_a_prior_that_hold_nothing(limits):
    with raises("units"):
        DiffusionPrior(PRIOR.denoiser, PRIOR.tau, units=Units(0.0, 1.0, *limits))
