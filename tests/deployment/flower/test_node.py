"""A site's way to the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from troth.types import Refusal

httpx = pytest.importorskip("httpx", reason="needs the extra troth[flower]")


@pytest.fixture
def flower(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("flwr", reason="needs the extra troth[flower]")
    from troth.deployment.flower import node

    monkeypatch.setattr(node, "_FIRST", 0.01)
    monkeypatch.setattr(node, "_LAST", 0.08)
    return node


@pytest.fixture
def link(tmp_path: Path, example: Any, certified: Any) -> Iterator[tuple[str, Any]]:
    """A SuperLink with certificates that lets a in: its address, and its client."""
    from flwr.proto.control_pb2 import RegisterNodeRequest
    from flwr.supercore.control.control_http_client import ControlHttpClient

    from troth.deployment.flower import keys, superlink

    certified(tmp_path, ["a", "b"])
    port, tls = example.free_port(), tmp_path / "tls"
    with superlink.listening(tmp_path / "home", "127.0.0.1", port, tls) as made:
        with made.reach(ControlHttpClient, "flwr CLI") as control:
            own = keys.public(tmp_path / "a.pub")
            control.RegisterNode(RegisterNodeRequest(public_key=own, name="a"))
        yield made.address, made


def way(flower: Any, path: Path, address: str, name: str, ca: bytes | None) -> Any:
    from troth.deployment.flower import keys

    own = keys.private(path / name if name else None)
    return flower.Way(address, own, ca, path / "node")


def test_a_server_that_is_not_there_is_tried_ever_less_often(
    tmp_path: Path, flower: Any, example: Any
) -> None:
    said: list[str] = []
    address = f"127.0.0.1:{example.free_port()}"
    with pytest.raises(Refusal, match=f"no way to the server at {address}; is it"):
        flower.attend(way(flower, tmp_path, address, "", None), {}, said.append, 6)
    assert len(said) == 4  # then every pause is the same, and not said each time
    assert all(f"at {address}: it does not answer" in line for line in said)
    assert said[0].endswith("trying again in 0 s") and "every" in said[-1]


def test_who_has_no_key_that_the_server_knows(
    tmp_path: Path, flower: Any, link: tuple[str, Any]
) -> None:
    address, made = link
    said: list[str] = []
    stranger = way(flower, tmp_path, address, "b", made.ca)
    with pytest.raises(Refusal, match="there is no way to the server"):
        flower.attend(stranger, {}, said.append, 2)
    assert all("it does not know this site's key" in line for line in said)
    said.clear()
    other = (tmp_path / "tls" / "server.pem").read_bytes()
    wrong = way(flower, tmp_path, address, "a", other)
    with pytest.raises(Refusal, match="there is no way to the server"):
        flower.attend(wrong, {}, said.append, 1)
    assert "its certificate is not one that --tls vouches for" in said[0]


def test_a_site_that_was_killed_is_let_in_again_at_once(
    tmp_path: Path, flower: Any, link: tuple[str, Any]
) -> None:
    """Flower would think for a minute that it is still there."""
    from flwr.proto.fleet_pb2 import ActivateNodeRequest
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes

    address, made = link
    mine = way(flower, tmp_path, address, "a", made.ca)
    named = {"public_key": public_key_to_bytes(mine.key.public_key())}
    with flower._connected(mine) as (fleet, node):
        again = ActivateNodeRequest(**named, heartbeat_interval=15)
        with pytest.raises(httpx.HTTPStatusError):  # as if it were two
            fleet.ActivateNode(again)
        assert int((tmp_path / "node").read_text()) == node.node_id
        with flower._connected(mine) as (_, second):  # the first never said goodbye
            assert second.node_id == node.node_id
