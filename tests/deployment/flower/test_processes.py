"""Ports, secrets and processes of this machine."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from troth.deployment.flower import processes
from troth.types import Refusal


def test_a_port_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        assert not processes.listens(port)
        taken.listen()
        assert processes.listens(port)
        with pytest.raises(Refusal, match=f"port {port} of 127.0.0.1 cannot be had"):
            processes.check_port("127.0.0.1", port)
    processes.check_port("127.0.0.1", port)


def test_a_secret_is_fresh_and_for_this_user_alone(tmp_path: Path) -> None:
    first = processes.secret(tmp_path).read_bytes()
    file = processes.secret(tmp_path)
    assert len(first) == 32 and file.read_bytes() != first
    assert file.stat().st_mode & 0o777 == 0o600


def ended(pid: int) -> bool:
    """Whether a process is no more, or only a remnant."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def test_a_child_ends_with_the_block(tmp_path: Path) -> None:
    with processes.child(["sleep", "60"], tmp_path / "log", tmp_path) as made:
        assert made.poll() is None
    assert made.returncode == -signal.SIGTERM


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux binds them so")
def test_a_child_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
from troth.deployment.flower import processes
here = Path({str(tmp_path)!r})
with processes.child(["sleep", "60"], here / "log", here) as made:
    print(made.pid, flush=True)
    made.wait()
"""
    command: Any = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        assert not ended(pid)
        parent.kill()
    end = time.monotonic() + 10
    while not ended(pid) and time.monotonic() < end:
        time.sleep(0.05)
    assert ended(pid)
