"""Progress of long work, reported to whoever watches; by default to nobody."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator

Watch = Callable[[str, int, int], None]
"""Told what goes on, how far it is, and how far it goes (0: not known); "" as what goes
on: it is over."""

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
    """Report progress to whoever watches."""
    if watch := _watch.get(None):
        watch(what, done, total)
