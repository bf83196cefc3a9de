"""A server, with a SuperLink that ends on the way."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from troth.config import reader
from troth.types import Refusal


def children() -> list[int]:
    """Of all threads of this process."""
    lists = Path("/proc/self/task").glob("*/children")
    return [int(word) for file in lists for word in file.read_text().split()]


@pytest.mark.filterwarnings("ignore:GitWildMatch:DeprecationWarning")  # Flower's
def test_a_superlink_that_ends_is_no_round_without_replies(
    tmp_path: Path, example: Any, three: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from troth.deployment.flower import serve, superlink

    monkeypatch.setattr(superlink, "_PATIENCE", 0.2)
    (tmp_path / "e.toml").write_text(reader.dumps(three))
    before, said = {*children()}, list[str]()

    def say(text: str) -> None:
        said.append(text)
        if "waiting for 3 sites" in text:
            [link] = {*children()} - before
            os.kill(link, signal.SIGKILL)

    flags = {"host": "127.0.0.1", "port": example.free_port(), "insecure": True}
    with pytest.raises(Refusal, match="SuperLink does not answer .* goes on from the"):
        serve.serve(tmp_path / "e.toml", tmp_path / "out", say=say, **flags)
    assert said[0].startswith("listening at 127.0.0.1") and len(said) == 2
    assert not (tmp_path / "out" / "rounds.jsonl").read_bytes()


def test_a_superlink_that_does_not_start(
    tmp_path: Path, example: Any, three: Any, certified: Any
) -> None:
    from troth.deployment.flower import serve

    (tmp_path / "e.toml").write_text(reader.dumps(three))
    certified(tmp_path, ["a", "b", "c"])
    (tmp_path / "tls" / "server.key").write_text("none")
    flags: Any = {"port": example.free_port(), "tls": tmp_path / "tls"}
    flags |= {"known": tmp_path, "say": lambda text: None}
    with pytest.raises(Refusal, match="SuperLink does not start; .*superlink.log says"):
        serve.serve(tmp_path / "e.toml", tmp_path / "out", **flags)
