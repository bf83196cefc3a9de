"""How a command ends that does not end well."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

BAD, STOPPED = 2, 130
"""Exit codes: bad input; stopped by the user."""
_asked: list[int] = []


def complain(text: str, code: int = BAD) -> int:
    """One line on stderr; returns the exit code."""
    print(f"troth: {' '.join(text.split())}", file=sys.stderr)
    return code


def heed() -> None:
    """Whoever ends a command (SIGTERM, or a terminal that closes) ends it as Ctrl-C.

    What is told to ignore these signals, as by nohup, goes on doing so.
    """
    home = os.getpid()

    def note(number: int, frame: FrameType | None) -> None:
        if os.getpid() != home:  # a child that has not become a program of its own
            os._exit(128 + number)
        _asked.append(number)
        stop = signal.getsignal(signal.SIGINT)
        if callable(stop):
            stop(signal.SIGINT, frame)
        else:  # Ctrl-C is ignored in the background
            raise KeyboardInterrupt

    for name in ("SIGTERM", "SIGHUP"):  # not every system has both
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, note)


def stopped(code: int) -> int:
    """The exit code of a command that was stopped: 128 and the signal that did it."""
    return 128 + _asked[-1] if code == STOPPED and _asked else code
