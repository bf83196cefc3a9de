"""`troth server` refuses before it starts anything."""

import socket

import pytest


def test_without_flower_it_says_what_to_install(
    deployment, tmp_path, refused, monkeypatch
):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    said = refused("server", deployment, "--out", tmp_path / "out", "--insecure")
    assert "pip install 'troth[flower]'" in said


def test_refusals(deployment, tmp_path, refused):
    pytest.importorskip("flwr", reason="needs the extra troth[flower]")
    words = ["server", deployment, "--out", tmp_path / "out"]
    assert "give both, or --insecure" in refused(*words)
    flags = ["--tls", tmp_path, "--keys", tmp_path]
    assert "there is no" in refused(*words, *flags)
    for name in ("ca.pem", "server.pem", "server.key"):
        (tmp_path / name).write_text("")
    said = refused(*words, *flags)
    assert "a.pub; make the key of each site by ssh-keygen" in said
    (tmp_path / "a.pub").write_text("ssh-rsa no")
    (tmp_path / "b.pub").write_text("ssh-rsa no")
    assert "a.pub is no public key of a site" in refused(*words, *flags)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        flags = ["--host", "127.0.0.1", "--port", port, "--insecure"]
        assert f"port {port} of 127.0.0.1 cannot be used" in refused(*words, *flags)
    assert not (tmp_path / "out").exists()
    (tmp_path / "summary.json").write_text("{}")
    said = refused("server", deployment, "--out", tmp_path, "--insecure")
    assert "holds a finished run; give another --out" in said
