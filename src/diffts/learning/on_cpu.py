"""Work of many small matrix factorisations, kept on the CPU."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import jax


def on_cpu() -> AbstractContextManager[Any]:
    """Run what is inside on the CPU, whatever the default device.

    In a first try on a GPU the fits took longer than all the training after them; we take it that
    compiling batched factorisations for each of their many sizes costs more than it saves.
    """
    device: AbstractContextManager[Any] = jax.default_device(jax.devices("cpu")[0])
    return device
