"""Ports, secrets and processes of this machine."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from troth.types import Refusal


def check_port(host: str, port: int) -> None:
    """Refuse a port that is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise Refusal(
                f"port {port} of {host} cannot be had ({error.strerror}); give another "
                "--port, or end what holds it"
            ) from None


def listens(port: int) -> bool:
    """Whether something listens at a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def secret(folder: Path) -> Path:
    """A file with a fresh secret that only this user reads."""
    file = folder / "secret"
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as out:
        out.write(os.urandom(32))
    return file


@contextlib.contextmanager
def child(
    command: list[str], log: Path, home: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of Flower's that ends with ours, even if ours is killed.

    Flower's own settings lie in the run's folder, and it reports to nobody.
    """
    here = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    told = {"FLWR_HOME": str(home.absolute()), "FLWR_TELEMETRY_ENABLED": "0"}

    def bound() -> None:
        with contextlib.suppress(OSError, AttributeError):  # other systems than Linux
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)

    with log.open("ab") as out:
        made = subprocess.Popen(
            command,
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **told, "PATH": here},
            preexec_fn=bound,
        )
    try:
        yield made
    finally:
        made.terminate()
        try:
            made.wait(10)
        except subprocess.TimeoutExpired:
            made.kill()
            made.wait()
