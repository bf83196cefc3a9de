"""Run the script that makes an entry; it ends when we do."""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from troth.data import catalogue
from troth.data.datasets import _files
from troth.reproduce.entry import Entry
from troth.reproduce.kept import experiments
from troth.types import Refusal

PATIENCE = 10.0
"""Seconds that a script has to end when it is told to."""


def check(entry: Entry, data_dir: str | None = None) -> Path:
    """Whether an entry's script can be run; the folder that it lies below.

    Raises:
        Refusal: there is no checkout with experiments, or data are not here.
    """
    root = experiments()
    if root is None:
        raise Refusal(
            f"{entry.name} is made by experiments/{entry.script[0]}, which is not part "
            "of an installed package; run troth from a checkout of its source"
        )
    for data in entry.data:
        found = catalogue.entry(data, data_dir)
        if found.place is None and found.source is not None:
            why = f" (wanted for {entry.name}; --show tells what has been run)"
            raise Refusal(_files.absent(found.source, data_dir, why))
    return root


def script(entry: Entry, device: str = "auto", data_dir: str | None = None) -> None:
    """Run the script that makes an entry; it goes on where it was.

    Args:
        entry: which.
        device: auto, cpu, cuda, cuda:N or mps.
        data_dir: where data sets are looked for first.

    Raises:
        Refusal: it cannot be run (`check`), or it fails.
    """
    root = check(entry, data_dir)
    name, *rest = entry.script
    takes = "--device" in (root / name).read_text("utf-8")
    takes = takes or "from common import" in (root / name).read_text("utf-8")
    command = [sys.executable, str(root / name), *rest]
    command += ["--device", device] if takes else []
    code = ran(command, {"TROTH_DATA": data_dir} if data_dir else {})
    if code:
        raise Refusal(
            f"experiments/{name} ended with code {code}; what it said is "
            "above, and what it finished is kept"
        )


def ran(command: Sequence[str], told: Mapping[str, str]) -> int:
    """The exit code of a process that ends with ours, and leaves no folders behind.

    Args:
        command: what to run.
        told: what its environment has beside ours.
    """
    with tempfile.TemporaryDirectory(prefix="troth-script-") as place:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # 3.12: of threads
            process = subprocess.Popen(
                command,
                stdout=subprocess.DEVNULL,
                env={**os.environ, **told, "TMPDIR": place},
                preexec_fn=_bound() if os.name == "posix" else None,
            )
        try:
            return process.wait()
        finally:  # nothing is left to do unless we were stopped
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _bound() -> Callable[[], None]:
    """For its beginning: Ctrl-C is ours to hear; whoever kills us ends it, too.

    All that can be looked up is looked up before there is a second process.
    """
    own = getattr(ctypes.CDLL(None), "prctl", None)  # Linux alone has it

    def bind() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if own is not None:
            own(1, int(signal.SIGTERM))

    return bind
