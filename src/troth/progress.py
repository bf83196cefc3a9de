"""Reports on the progress of long work, and warnings."""

import contextlib
import contextvars
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

Watch = Callable[[str, int, int], None]
"""Function (name of the work, amount done, total) that shows progress. A total of 0
means unknown; the name "" means that the work has ended."""

_watch: contextvars.ContextVar[Watch | None] = contextvars.ContextVar("watch")


@contextlib.contextmanager
def watching(watch: Watch | None) -> Iterator[None]:
    """Within the block, pass reports to `watch`; with `None`, they are dropped."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def report(what: str, done: int, total: int) -> None:
    """Report progress to the function of `watching`, if any."""
    if watch := _watch.get(None):
        watch(what, done, total)


def warn(text: str, category: type[Warning]) -> None:
    """Issue a warning whose source is the line of user code that called Troth."""
    here, level, outer = str(Path(__file__).parent), 1, 1
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        outer = level if frame.f_code.co_filename.startswith(here) else outer
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=outer + 1)
