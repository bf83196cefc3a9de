"""Progress of long work, reported to a viewer function if one is set."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator

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
