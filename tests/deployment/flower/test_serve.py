"""A server: its port, its secret and the SuperLink that it starts."""

import os
import signal
import socket
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
        with pytest.raises(Refusal, match=f"port {port} of 127.0.0.1 cannot be used"):
            serve.check_port("127.0.0.1", port)
    serve.check_port("127.0.0.1", port)


def test_a_secret_is_fresh_and_for_this_user_alone(tmp_path):
    first = serve.secret(tmp_path).read_bytes()
    file = serve.secret(tmp_path)
    assert len(first) == 32 and file.read_bytes() != first
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_child_ends_with_the_block(tmp_path):
    with serve.child(["sleep", "60"], tmp_path / "log", tmp_path) as made:
        assert made.poll() is None
    assert made.returncode == -signal.SIGTERM


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
    with pytest.raises(Refusal, match="SuperLink does not answer .* continues from"):
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
