"""What all tests share: compiled programs are forgotten before there are too many."""

import gc
from pathlib import Path

import jax
import pytest

MAPS = Path("/proc/self/maps")
MOST_MAPS = 20_000  # Linux allows 65,530 in a process; beyond that, XLA's compiler crashes


@pytest.fixture(autouse=True)
def forget_compiled_programs():
    """Every compiled program takes some memory maps; a test worker compiles thousands."""
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
        gc.collect()
