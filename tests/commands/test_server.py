"""`troth server` and `troth client` refuse before they start anything."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from troth import config
from troth.cli import app


def troth(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def refused(result: Result) -> str:
    assert result.exit_code == 2, result.output
    [line] = result.stderr.splitlines()
    return line


@pytest.fixture
def file(tmp_path: Path) -> Path:
    tree: dict[str, Any] = {
        "partition": {"clients": 2},
        "engine": {"device": "cpu"},
        "deployment": {
            "sites": ["a", "b"],
            "shape": [1, 8, 8],
            "classes": 10,
            "scale": 16.0,
        },
    }
    path = tmp_path / "e.toml"
    path.write_text(config.dumps(tree))
    return path


@pytest.fixture
def flower() -> None:
    pytest.importorskip("flwr", reason="needs the extra troth[flower]")


def test_without_flower_it_says_what_to_install(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    said = refused(troth("server", file, "--out", tmp_path / "out", "--insecure"))
    assert "pip install 'troth[flower]'" in said


def test_nothing_starts_without_tls_unless_it_is_said(
    flower: None, file: Path, tmp_path: Path
) -> None:
    said = refused(troth("server", file, "--out", tmp_path / "out"))
    assert "give both, or --insecure" in said
    words = ["client", file, "--server", "x:1", "--name", "a", "--data", "experiment"]
    said = refused(troth(*words, "--state", tmp_path / "a"))
    assert "give both, or --insecure" in said
    assert not (tmp_path / "out").exists() and not (tmp_path / "a").exists()


def test_every_site_needs_a_key(flower: None, file: Path, tmp_path: Path) -> None:
    flags = ["--tls", tmp_path, "--keys", tmp_path, "--out", tmp_path / "out"]
    assert "there is no" in refused(troth("server", file, *flags))
    for name in ("ca.pem", "server.pem", "server.key"):
        (tmp_path / name).write_text("")
    said = refused(troth("server", file, *flags))
    assert "a.pub; make the key of each site by ssh-keygen" in said
    (tmp_path / "a.pub").write_text("ssh-rsa no")
    (tmp_path / "b.pub").write_text("ssh-rsa no")
    assert "a.pub is no public key of a site" in refused(troth("server", file, *flags))


def test_a_port_that_is_taken(flower: None, file: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        flags = ["--host", "127.0.0.1", "--port", port, "--insecure"]
        said = refused(troth("server", file, "--out", tmp_path / "out", *flags))
    assert f"port {port} of 127.0.0.1 cannot be had" in said


def test_no_data_and_no_such_site(flower: None, file: Path, tmp_path: Path) -> None:
    words = ["client", file, "--server", "x:1", "--insecure", "--state", tmp_path / "a"]
    said = refused(troth(*words, "--name", "a", "--data", tmp_path / "none.npz"))
    assert "there is no file" in said
    said = refused(troth(*words, "--name", "z", "--data", "experiment"))
    assert "no site is called 'z'; deployment.sites are: a, b" in said
