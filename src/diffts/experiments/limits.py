"""What is too much to ask for: refused with what it would take, before anything is allocated."""

from __future__ import annotations

import os
from pathlib import Path

from diffts.errors import InvalidInputError
from diffts.validation import whole_number

#: Pulls are counted in 32-bit floats, which from here on no longer grow by one.
MOST_ROUNDS = 2**24
#: Draws and tasks are numbered in 32 bits.
MOST_NUMBERED = 2**31 - 1
#: Where a control group (a container) has its limit, in the two versions there are.
_CONTAINER_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


def check_rounds(horizon: int) -> int:
    """The number of rounds, if that many can be counted."""
    return whole_number("horizon", horizon, 1, MOST_ROUNDS)


def check_memory(name: str, count: int, bytes_each: int) -> None:
    """Refuse a number of things that this machine has no memory for.

    Args:
        name: the argument.
        count: how many are asked for.
        bytes_each: about what each of them takes.
    """
    there = machine_memory()
    most = min(there // bytes_each, MOST_NUMBERED)
    if count > most:
        raise InvalidInputError(
            f"{name}: {count} would need about {count * bytes_each / 2**30:.3g} GiB of memory, "
            f"this machine has {there / 2**30:.3g}; at most {most}"
        )


def machine_memory() -> int:
    """Bytes of memory of the machine, or of the container that this runs in."""
    known = []
    try:
        known.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):  # Windows
        known.append(2**34)
    for file in _CONTAINER_LIMITS:
        try:
            known.append(int(Path(file).read_text()))
        except (OSError, ValueError):  # no such file, or 'max'
            continue
    return min(size for size in known if size > 0)
