"""A site, and its way to the server."""

from types import SimpleNamespace

import httpx
import pytest
from flwr.proto.fleet_pb2 import ActivateNodeRequest

from troth.config import reader
from troth.deployment.flower import keys, serve, take_part, transport
from troth.types import Refusal

SLOW = pytest.mark.slow("starts Flower's SuperLink as a process")


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(take_part, "_FIRST", 0.01)
    monkeypatch.setattr(take_part, "_LAST", 0.08)


@pytest.fixture(scope="module")
def place(tmp_path_factory, certified):
    """Where certificates, and the keys of a and b, are."""
    made = tmp_path_factory.mktemp("federation")
    certified(made, ["a", "b"])
    return made


@pytest.fixture(scope="module")
def link(place, example):
    """A SuperLink with certificates that lets a in."""
    port, tls = example.free_port(), place / "tls"
    with serve.listening(place / "home", "127.0.0.1", port, tls) as made:
        made.admit({"a": keys.public(place / "a.pub")})
        yield made


def way(path, address, name, ca):
    own = keys.private(path / name if name else None)
    return transport.Way(address, own, ca, path / "node")


def test_it_says_who_it_is_and_what_it_tries(tmp_path, example, three):
    """A server that is not there is tried ever less often."""
    (tmp_path / "e.toml").write_text(reader.dumps(three))
    said, address = list[str](), f"127.0.0.1:{example.free_port()}"
    flags = {"name": "b", "data": "experiment", "state": tmp_path / "b"}
    flags |= {"say": said.append, "insecure": True, "tries": 6}
    with pytest.raises(Refusal, match=f"cannot reach the server at {address}; is it"):
        take_part.take_part(tmp_path / "e.toml", address, **flags)
    first, *more = said
    assert first.startswith("b: 431 training examples; looking for a server at 127")
    assert len(more) == 4  # then every pause is the same, and not said each time
    assert all(f"at {address}: it does not answer" in line for line in more)
    assert more[0].endswith("trying again in 0 s") and "every" in more[-1]


@SLOW
def test_who_has_no_key_that_the_server_knows(place, link):
    other = (place / "tls" / "server.pem").read_bytes()
    for name, ca, words in (
        ("b", link.ca, "it does not know this site's key"),
        ("a", other, "its certificate is not signed by the certificate of --tls"),
    ):
        said, mine = list[str](), way(place, link.address, name, ca)
        with pytest.raises(Refusal, match="cannot reach the server"):
            take_part.attend(mine, {}, said.append, 2)
        assert said and all(words in line for line in said)


@SLOW
def test_a_site_that_was_killed_is_let_in_again_at_once(place, link, monkeypatch):
    """Flower would think for a minute that it is still there."""
    nothing = SimpleNamespace(start=lambda: None, stop=lambda: None)
    monkeypatch.setattr(transport, "HeartbeatSender", lambda alive: nothing)
    mine = way(place, link.address, "a", link.ca)
    named = {"public_key": keys.sent(mine.key.public_key())}
    with transport.connected(mine) as post:
        again = ActivateNodeRequest(**named, heartbeat_interval=15)
        with pytest.raises(httpx.HTTPStatusError):  # as if it were two
            post.fleet.ActivateNode(again)
        assert int((place / "node").read_text()) == post.node.node_id
        with transport.connected(mine) as second:  # the first never said goodbye
            assert second.node.node_id == post.node.node_id


@pytest.mark.parametrize(
    "address", ["localhost", "https://x.org:8000", "x.org:", ":8000", "x:y"]
)
def test_an_address_without_a_port_is_refused_at_once(tmp_path, three, address):
    """It was tried again and again."""
    (tmp_path / "e.toml").write_text(reader.dumps(three))
    flags = {"name": "b", "data": "experiment", "state": tmp_path / "b", "say": print}
    with pytest.raises(Refusal, match="must be HOST:PORT, such as hub.example:8000"):
        take_part.take_part(tmp_path / "e.toml", address, insecure=True, **flags)
