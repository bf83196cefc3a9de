"""Processes that end with this one."""

import contextlib
import ctypes
import os
import signal
import subprocess
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

_PATIENCE = 10.0  # seconds that a process has to end when it is told to


@contextlib.contextmanager
def child(
    command: Sequence[str],
    environment: Mapping[str, str],
    orphaned: signal.Signals = signal.SIGTERM,
    **how: Any,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that ends with the block, and on Linux if this one is killed.

    `environment` is what it has beside ours, `orphaned` the signal it gets when this
    process is killed. Ctrl-C does not reach it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12: of threads
        made = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            preexec_fn=_binding(orphaned) if os.name == "posix" else None,
            **how,
        )
    try:
        yield made
    finally:
        made.terminate()
        try:
            made.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            made.kill()
            made.wait()


def _binding(orphaned: signal.Signals) -> Callable[[], None]:
    """Return what a child does first; look all up before there is a second process."""
    own = getattr(ctypes.CDLL(None), "prctl", None)  # Linux alone has it

    def bind() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if own is not None:
            own(1, int(orphaned))

    return bind
