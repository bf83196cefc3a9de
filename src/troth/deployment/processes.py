"""Start processes that end when this process ends."""

import contextlib
import ctypes
import os
import signal
import subprocess
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

_PATIENCE = 10.0  # seconds between asking a process to end and killing it


@contextlib.contextmanager
def child(
    command: Sequence[str],
    environment: Mapping[str, str],
    orphaned: signal.Signals = signal.SIGTERM,
    **how: Any,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a child process that ends with the `with` block.

    On Linux, the child also ends if this process is killed. It ignores Ctrl-C.

    Args:
        command: Program and arguments.
        environment: Variables to set in addition to those of this process.
        orphaned: Signal that the child gets if this process is killed.
        **how: Further arguments of `subprocess.Popen`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks with threads
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
    """Return the function that the child runs before the program.

    All names are looked up here, because the child should do as little as possible
    between fork and exec.
    """
    own = getattr(ctypes.CDLL(None), "prctl", None)  # only Linux has prctl

    def bind() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if own is not None:
            own(1, int(orphaned))

    return bind
