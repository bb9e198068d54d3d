"""Ctrl-C and SIGTERM: both end a command in the same orderly way."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from diffts.cli.console import complain

_STOPPING = (signal.SIGINT, signal.SIGTERM)
_received: list[int] = []


@contextmanager
def signals_as_interrupts() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt, as SIGINT does, once.

    A second signal must not break the saving that the first one began; a third one ends all.
    A signal that the caller's shell has set to be ignored stays so.
    """
    _received.clear()
    before: dict[signal.Signals, Any] = {}
    try:
        for number in _STOPPING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, _stop)
    except ValueError:  # not in the main thread: whoever is there decides
        pass
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, _: Any) -> None:
    _received.append(number)
    if len(_received) == 1:
        raise KeyboardInterrupt
    if len(_received) == 2:
        complain("stopping already; once more to end at once", "note")
        return
    os._exit(128 + number)


def exit_code_when_stopped() -> int:
    """128 and the number of the signal: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + (_received[0] if _received else signal.SIGINT)


def this_command(*more: str, instead: list[str] | None = None) -> str:
    """The command that is running with ``more`` arguments, to be pasted into a shell.

    ``instead`` are arguments in the place of the ones it was started with.
    """
    started = sys.argv[0]
    by_module = os.path.basename(started) in ("__main__.py", "-m")
    program = [sys.executable, "-m", "diffts"] if by_module else [started]
    return shlex.join([*program, *(sys.argv[1:] if instead is None else instead), *more])
