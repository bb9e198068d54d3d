"""Work that can be done side by side: where an accelerator computes, the CPU is free."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import jax

T = TypeVar("T")


def has_accelerator() -> bool:
    """Whether programs run on something else than the CPU."""
    return jax.default_backend() != "cpu"


def results_of(jobs: Sequence[Callable[[], T]], *, at_once: bool | None = None) -> Iterator[T]:
    """What some jobs return, in their order.

    Without an accelerator one after the other, each when its result is asked for: two would only
    share the cores. With one, all at once in threads: a fit on the CPU hides behind a training on
    the GPU, and programs compile at the same time. A job's error is raised where its result is
    asked for.

    Args:
        jobs: functions without arguments.
        at_once: whether to run all of them at once; by default, whether there is an accelerator.

    >>> list(results_of([lambda: "mixture", lambda: "diffusion"], at_once=True))
    ['mixture', 'diffusion']
    """
    if at_once is None:
        at_once = has_accelerator()
    if not at_once or len(jobs) < 2:
        yield from (job() for job in jobs)
        return
    with ThreadPoolExecutor(len(jobs), thread_name_prefix="diffts-fit") as pool:
        running = [pool.submit(job) for job in jobs]
        for one in running:
            yield one.result()
