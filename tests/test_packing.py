"""Regrets that are packed come back to 0.02%, whatever they are."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from diffts.reproduction.packing import packed, unpacked

_SHAPES = hnp.array_shapes(min_dims=2, max_dims=2, max_side=6)
_VALUES = st.floats(-(2.0**99), 2.0**99, width=32, allow_subnormal=False)


@given(hnp.arrays(np.float32, _SHAPES, elements=_VALUES))
def test_values_come_back_to_eleven_bits(values):
    """Growing or falling, of any sign and size."""
    kept = packed(values)
    assert kept.shape == (3, *values.shape)
    np.testing.assert_allclose(unpacked(kept), values, rtol=2.0**-12)


@given(hnp.arrays(np.float32, _SHAPES, elements=_VALUES))
def test_packing_again_changes_nothing(values):
    """So that what is kept can be read, cut and kept again."""
    once = unpacked(packed(values))
    np.testing.assert_array_equal(unpacked(packed(once)), once)


def test_what_was_never_packed_is_read_as_it_is():
    """Parts from before there was packing."""
    values = np.array([[0.0, 1.5], [0.25, 1e-9]], np.float32)
    np.testing.assert_array_equal(unpacked(values), values)


def test_growing_values_take_half_the_room():
    """What packing is for: regrets of a hundred tasks over fifty records."""
    rng = np.random.default_rng(0)
    regret = np.cumsum(rng.gamma(0.3, 1.0, (50, 100)), axis=0).astype(np.float32)

    def size(values):
        buffer = io.BytesIO()
        np.savez_compressed(buffer, values=values)
        return len(buffer.getvalue())

    assert size(packed(regret)) < 0.6 * size(unpacked(packed(regret)).astype(np.float32))


@pytest.mark.parametrize("value", [0.0, -0.0, 65.25, 1e-30])
def test_a_single_record_is_kept(value):
    """The first record is a step from nothing."""
    got = unpacked(packed(np.full((1, 2), value)))
    np.testing.assert_allclose(got, value, rtol=2.0**-12)
