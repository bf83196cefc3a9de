"""Malicious sites at a live server."""

import contextlib
import json
import time
from pathlib import Path

import httpx
import pytest
import torch

from troth import files
from troth.config import reader
from troth.deployment.flower import serve

HOSTILE = [f"h{k}" for k in range(8)]
ROUNDS = 26


def memory(pid):
    """Resident megabytes of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [found] = [line for line in lines if line.startswith("VmRSS")]
    return int(found.split()[1]) / 1024


def children(pid):
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


@pytest.fixture
def ten(tree):
    """Two honest sites and eight malicious ones."""
    tree["partition"]["clients"] = 10
    tree["train"] |= {"rounds": ROUNDS, "steps": 1, "batch": 2}
    tree["evaluate"] = {"every": 100}
    tree["deployment"] |= {"sites": ["a", "c", *HOSTILE], "deadline": 8.0, "least": 2}
    return tree


def besieged(path, example, mob, changes):
    """A server among a mob: how it ended, and memory (its and Flower's) by rounds."""
    port = mob.address.rpartition(":")[2]
    flags = ["--out", "out", "--host", "127.0.0.1", "--port", port, "--insecure"]
    server = example.start(path, "server", "e.toml", *flags)
    used = list[tuple[float, float]]()
    try:
        waited(lambda: serve.listens(int(port)), server)
        with mob.here():
            mob.noise(60)
            while server.poll() is None and mob.sent < 8 * ROUNDS:
                mob.look(lambda k: changes[k % len(changes)])
                if mob.sent >= 8 * (len(used) + 1):
                    [link] = children(server.pid)
                    used.append((memory(server.pid), memory(link)))
                time.sleep(0.01)
            with contextlib.suppress(httpx.TransportError):  # it ends by itself
                while server.poll() is None:
                    mob.look(lambda k: changes[0])
        server.wait(30)
    finally:
        server.kill()
        server.wait()
    return server, used


def waited(so, process, seconds=60):
    end = time.monotonic() + seconds
    while not so():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.slow("a server as a real process, and two hundred replies")
def test_two_hundred_malformed_replies_at_a_live_server(
    tmp_path, ten, example, deployed, hostile
):
    """They change no model and hold no memory; the two honest sites train on."""
    (tmp_path / "e.toml").write_text(reader.dumps(ten))
    mob = hostile.Mob(f"127.0.0.1:{example.free_port()}", tmp_path, [*"ac", *HOSTILE])
    server, used = besieged(tmp_path, example, mob, [*hostile.CHANGES, hostile.HUGE])
    out = tmp_path / "out"
    assert server.returncode == 0, (tmp_path / "server.log").read_text()
    lines = (out / files.ROUNDS).read_text().splitlines()
    rounds = [json.loads(line) for line in lines]
    assert len(rounds) == ROUNDS and mob.sent >= 200
    assert all(set(r["distance"]) == {"a", "c"} for r in rounds)
    refused = sum(len(r["refused"]) for r in rounds)
    assert mob.sent - 3 <= refused <= mob.sent  # the others never came whole
    early, late = used[3], used[-1]
    print(f"megabytes of server and SuperLink: {early} before, {late} after")
    assert late[0] - early[0] < 30 and late[1] - early[1] < 100, used
    quiet = deployed(tmp_path / "quiet", ten)
    for k in range(8):
        quiet.grid.here.discard(102 + k)
    wanted = quiet.run(2).broadcast.w
    assert torch.equal(files.load(out / files.CHECKPOINT)[0]["w"], wanted)
