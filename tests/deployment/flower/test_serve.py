"""A server: its port, its secret and the SuperLink that it starts."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from troth.config import reader
from troth.deployment.flower import serve, transport
from troth.types import Refusal

SLOW = pytest.mark.slow("starts Flower's SuperLink as a process")


def test_a_port_that_is_taken():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        assert not serve.listens(port)
        taken.listen()
        assert serve.listens(port)
        with pytest.raises(Refusal, match=f"port {port} of 127.0.0.1 cannot be had"):
            serve.check_port("127.0.0.1", port)
    serve.check_port("127.0.0.1", port)


def test_a_secret_is_fresh_and_for_this_user_alone(tmp_path):
    first = serve.secret(tmp_path).read_bytes()
    file = serve.secret(tmp_path)
    assert len(first) == 32 and file.read_bytes() != first
    assert file.stat().st_mode & 0o777 == 0o600


def ended(pid):
    """Whether a process is no more, or only a remnant."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def test_a_child_ends_with_the_block(tmp_path):
    with serve.child(["sleep", "60"], tmp_path / "log", tmp_path) as made:
        assert made.poll() is None
    assert made.returncode == -signal.SIGTERM


@pytest.mark.slow("starts a process that imports Flower")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux binds them so")
def test_a_child_ends_with_a_parent_that_is_killed(tmp_path):
    program = f"""
from pathlib import Path
from troth.deployment.flower import serve
here = Path({str(tmp_path)!r})
with serve.child(["sleep", "60"], here / "log", here) as made:
    print(made.pid, flush=True)
    made.wait()
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        assert not ended(pid)
        parent.kill()
    end = time.monotonic() + 10
    while not ended(pid) and time.monotonic() < end:
        time.sleep(0.05)
    assert ended(pid)


def children():
    """Of all threads of this process."""
    lists = Path("/proc/self/task").glob("*/children")
    return [int(word) for file in lists for word in file.read_text().split()]


@SLOW
@pytest.mark.filterwarnings("ignore:GitWildMatch:DeprecationWarning")  # Flower's
def test_a_superlink_that_ends_is_no_round_without_replies(
    tmp_path, example, three, monkeypatch
):
    monkeypatch.setattr(transport, "_PATIENCE", 0.2)
    (tmp_path / "e.toml").write_text(reader.dumps(three))
    before, said = {*children()}, list[str]()

    def say(text):
        said.append(text)
        if "waiting for 3 sites" in text:
            [link] = {*children()} - before
            os.kill(link, signal.SIGKILL)

    flags = {"host": "127.0.0.1", "port": example.free_port(), "insecure": True}
    with pytest.raises(Refusal, match="SuperLink does not answer .* goes on from the"):
        serve.serve(tmp_path / "e.toml", tmp_path / "out", say=say, **flags)
    assert said[0].startswith("listening at 127.0.0.1") and len(said) == 2
    assert not (tmp_path / "out" / "rounds.jsonl").read_bytes()


@SLOW
def test_a_superlink_that_does_not_start(tmp_path, example, three, certified):
    (tmp_path / "e.toml").write_text(reader.dumps(three))
    certified(tmp_path, ["a", "b", "c"])
    (tmp_path / "tls" / "server.key").write_text("none")
    flags = {"port": example.free_port(), "tls": tmp_path / "tls"}
    flags |= {"known": tmp_path, "say": lambda text: None}
    with pytest.raises(Refusal, match="SuperLink does not start; .*superlink.log says"):
        serve.serve(tmp_path / "e.toml", tmp_path / "out", **flags)
