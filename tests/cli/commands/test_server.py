"""`troth server` refuses before it starts anything."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

Refused = Callable[..., str]


def test_without_flower_it_says_what_to_install(
    deployment: Path, tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    said = refused("server", deployment, "--out", tmp_path / "out", "--insecure")
    assert "pip install 'troth[flower]'" in said


def test_nothing_starts_without_tls_unless_it_is_said(
    flower: None, deployment: Path, tmp_path: Path, refused: Refused
) -> None:
    said = refused("server", deployment, "--out", tmp_path / "out")
    assert "give both, or --insecure" in said
    assert not (tmp_path / "out").exists()


def test_every_site_needs_a_key(
    flower: None, deployment: Path, tmp_path: Path, refused: Refused
) -> None:
    flags = ["--tls", tmp_path, "--keys", tmp_path, "--out", tmp_path / "out"]
    assert "there is no" in refused("server", deployment, *flags)
    for name in ("ca.pem", "server.pem", "server.key"):
        (tmp_path / name).write_text("")
    said = refused("server", deployment, *flags)
    assert "a.pub; make the key of each site by ssh-keygen" in said
    (tmp_path / "a.pub").write_text("ssh-rsa no")
    (tmp_path / "b.pub").write_text("ssh-rsa no")
    assert "a.pub is no public key of a site" in refused("server", deployment, *flags)


def test_a_port_that_is_taken(
    flower: None, deployment: Path, tmp_path: Path, refused: Refused
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        flags = ["--host", "127.0.0.1", "--port", port, "--insecure"]
        said = refused("server", deployment, "--out", tmp_path / "out", *flags)
    assert f"port {port} of 127.0.0.1 cannot be had" in said


def test_a_run_that_is_finished(
    flower: None, deployment: Path, tmp_path: Path, refused: Refused
) -> None:
    (tmp_path / "summary.json").write_text("{}")
    said = refused("server", deployment, "--out", tmp_path, "--insecure")
    assert "holds a finished run; give another --out" in said
