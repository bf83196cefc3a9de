"""Progress of long work, reported to a viewer; by default to none."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator

Watch = Callable[[str, int, int], None]
"""Takes the name of the work, what is done and the total (0: unknown); the name "" ends
it."""

_watch: contextvars.ContextVar[Watch | None] = contextvars.ContextVar("watch")


@contextlib.contextmanager
def watching(watch: Watch | None) -> Iterator[None]:
    """Report progress within the block to a function; None: to nobody."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def report(what: str, done: int, total: int) -> None:
    """Report progress to the viewer, if there is one."""
    if watch := _watch.get(None):
        watch(what, done, total)
