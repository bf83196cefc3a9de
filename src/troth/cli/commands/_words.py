"""How a command ends that does not end well."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType

import typer

BAD, STOPPED = 2, 130
"""Exit codes: bad input; stopped by the user."""
_asked: list[int] = []


def complain(text: str, code: int = BAD) -> int:
    """Print one line on stderr, and return the exit code."""
    print(f"troth: {' '.join(text.split())}", file=sys.stderr)
    return code


@contextlib.contextmanager
def stoppable(text: Callable[[], str]) -> Iterator[None]:
    """Have Ctrl-C end a command with these words, which say how to go on."""
    from troth.runs.train import Interrupted

    try:
        yield
    except (Interrupted, KeyboardInterrupt):
        raise typer.Exit(complain(text(), STOPPED)) from None


def heed() -> None:
    """Let SIGTERM, and a terminal that closes, end a command as Ctrl-C does.

    A command that was started to ignore these signals, as by nohup, ignores them.
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
