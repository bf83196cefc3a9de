"""Progress of long work, reported to a viewer function if one is set, and warnings."""

import contextlib
import contextvars
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

Watch = Callable[[str, int, int], None]
"""Function of the name of the work, the amount done and the total (0 if unknown). The
name "" ends the report."""

_watch: contextvars.ContextVar[Watch | None] = contextvars.ContextVar("watch")


@contextlib.contextmanager
def watching(watch: Watch | None) -> Iterator[None]:
    """Report progress within the block to a function; `None` reports to nobody."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def report(what: str, done: int, total: int) -> None:
    """Report progress to the viewer function, if one is set."""
    if watch := _watch.get(None):
        watch(what, done, total)


def warn(text: str, category: type[Warning]) -> None:
    """Warn, and give the line of the user's code that called Troth as the source."""
    here, level, outer = str(Path(__file__).parent), 1, 1
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        outer = level if frame.f_code.co_filename.startswith(here) else outer
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=outer + 1)
