"""Work of many small matrix factorisations, kept on the CPU."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import jax


def on_cpu() -> AbstractContextManager[Any]:
    """Run what is inside on the CPU, whatever the default device.

    A GPU factorises thousands of small matrices no faster than a few CPU cores do, and takes far
    longer to compile for each size.
    """
    device: AbstractContextManager[Any] = jax.default_device(jax.devices("cpu")[0])
    return device
