"""What is too much to ask for: refused with what it would take, before anything is allocated."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from diffts.errors import InvalidInputError

#: Draws and tasks are numbered in 32 bits.
MOST_NUMBERED = 2**31 - 1
#: Where a control group (a container) has its limit, in the two versions there are.
_CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def check_memory(name: str, count: int, bytes_each: int) -> None:
    """Refuse a number of things, each of about so many bytes, that there is no memory for."""
    there = machine_memory()
    most = min(there // bytes_each, MOST_NUMBERED)
    if count > most:
        raise InvalidInputError(
            f"{name}: {count} would need about {count * bytes_each / 2**30:.3g} GiB of memory, "
            f"this machine has {there / 2**30:.3g}; at most {most}"
        )


def machine_memory() -> int:
    """Bytes of memory of the machine, or of the container that this runs in."""
    try:
        known = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, OSError, ValueError):  # Windows
        known = [2**34]
    for file in _CONTAINER_LIMITS:
        with contextlib.suppress(OSError, ValueError):  # no such file, or 'max'
            known.append(int(Path(file).read_text()))
    return min(size for size in known if size > 0)
