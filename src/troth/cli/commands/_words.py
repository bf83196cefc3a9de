"""How a command ends: with an error, by Ctrl-C or by a signal."""

import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

import typer

BAD, STOPPED = 2, 130
"""Exit codes: bad input; stopped by the user."""
_asked: list[int] = []


def complain(text: str, code: int = BAD) -> int:
    """Print one line to stderr, and return the exit code."""
    print(f"troth: {' '.join(text.split())}", file=sys.stderr)
    return code


def again() -> str:
    """Say how to continue a command that continues when it is repeated."""
    return f"repeat the command to continue: {shlex.join(['troth', *sys.argv[1:]])}"


def refuse(text: str) -> NoReturn:
    """Refuse bad input: say what is wrong and how to fix it."""
    from troth.types import Refusal

    raise Refusal(text) from None


@contextlib.contextmanager
def stoppable(text: Callable[[], str]) -> Iterator[None]:
    """Turn Ctrl-C into this line and exit code 130."""
    from troth.runs.train import Interrupted

    try:
        yield
    except (Interrupted, KeyboardInterrupt):
        raise typer.Exit(complain(text(), STOPPED)) from None


def heed() -> None:
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does.

    A command that was started to ignore these signals, as by nohup, ignores them.
    """
    home = os.getpid()

    def note(number: int, frame: FrameType | None) -> None:
        if os.getpid() != home:  # a child process that still runs our code
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
    """Return the exit code of a stopped command: 128 plus the signal's number."""
    return 128 + _asked[-1] if code == STOPPED and _asked else code
