"""What all tests share: fixed examples without deadlines, and not too many compiled programs."""

import gc
from pathlib import Path

import jax
import pytest
from hypothesis import settings

MAPS = Path("/proc/self/maps")
MOST_MAPS = 20_000  # Linux allows 65,530 in a process; beyond that, XLA's compiler crashes

# The same examples in every run, and no time limit for one: a busy machine changes nothing.
settings.register_profile("fixed", deadline=None, derandomize=True, database=None)
settings.load_profile("fixed")


@pytest.fixture(autouse=True)
def forget_compiled_programs():
    """Every compiled program takes some memory maps; a test worker compiles thousands."""
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
        gc.collect()
