"""The ways in which a command ends: with an error, by Ctrl-C or by a signal."""

import contextlib
import logging
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

import typer

OWN, BAD, STOPPED = 1, 2, 130
"""Exit codes: error in a user's function, bad input, stopped by the user."""
_asked: list[int] = []  # numbers of the signals that asked this process to stop


def complain(text: str, code: int = BAD) -> int:
    """Print one line to stderr, and return the exit code."""
    print(f"troth: {' '.join(text.split())}", file=sys.stderr)
    return code


class Warnings(logging.Handler):
    """A handler that prints the library's warnings to stderr, one line each."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        """Print one warning."""
        complain(record.getMessage())


def again() -> str:
    """Return a hint that repeating this command continues its work."""
    return f"repeat the command to continue: {shlex.join(['troth', *sys.argv[1:]])}"


def refuse(text: str) -> NoReturn:
    """Raise Refusal with a text that names the problem and its remedy."""
    from troth.types import Refusal

    raise Refusal(text) from None


@contextlib.contextmanager
def stoppable(text: Callable[[], str]) -> Iterator[None]:
    """On Ctrl-C, print the line `text()` and exit with code 130."""
    from troth.runs.train import Interrupted

    try:
        yield
    except (Interrupted, KeyboardInterrupt):
        raise typer.Exit(complain(text(), STOPPED)) from None


def heed() -> None:
    """Make SIGTERM and SIGHUP end a command as Ctrl-C does.

    A signal that was ignored when the command started, as with `nohup`, is still
    ignored.
    """
    home = os.getpid()

    def note(number: int, frame: FrameType | None) -> None:
        if os.getpid() != home:  # a child process inherited this function
            os._exit(128 + number)
        _asked.append(number)
        stop = signal.getsignal(signal.SIGINT)
        if callable(stop):
            stop(signal.SIGINT, frame)
        else:  # a command in the background ignores Ctrl-C
            raise KeyboardInterrupt

    for name in ("SIGTERM", "SIGHUP"):  # not every system has both
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, note)


def stopped(code: int) -> int:
    """Return the exit code: 128 plus the signal's number if a signal stopped it."""
    return 128 + _asked[-1] if code == STOPPED and _asked else code
