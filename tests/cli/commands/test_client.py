"""`troth client` refuses before it starts anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

Refused = Callable[..., str]


@pytest.fixture
def words(deployment: Path, tmp_path: Path) -> list[object]:
    """A site, all but its name and data."""
    return ["client", deployment, "--server", "x:1", "--state", tmp_path / "a"]


def test_without_flower_it_says_what_to_install(
    words: list[object], refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    said = refused(*words, "--name", "a", "--data", "experiment")
    assert "pip install 'troth[flower]'" in said


def test_refusals(words: list[object], refused: Refused, tmp_path: Path) -> None:
    pytest.importorskip("flwr", reason="needs the extra troth[flower]")
    shape = np.zeros((20, 1, 5, 8), np.float32)
    np.savez(tmp_path / "labels.npz", x=np.zeros((20, 1, 8, 8)), y=np.arange(20))
    np.savez(tmp_path / "shape.npz", x=shape, y=np.arange(20) % 10)
    (tmp_path / "x").write_text("nothing of the kind")
    keys, tls = ["--keys", tmp_path / "x"], ["--tls", tmp_path / "x"]
    for name, data, flags, why in (
        ("a", "experiment", [], "give both, or --insecure"),
        ("a", "experiment", keys, "give both, or --insecure"),
        ("a", "experiment", [*keys, "--tls", tmp_path / "no"], "there is no file"),
        ("a", "experiment", [*keys, *tls], "x is no certificate"),
        ("a", tmp_path / "none.npz", None, "there is no file"),
        ("a", tmp_path / "none.csv", None, "is a table, and all sites must read thei"),
        ("a", tmp_path / "labels.npz", None, "y holds 10, 11, 12, 13, which this run "),
        ("a", tmp_path / "shape.npz", None, "do not fit this model, which takes [1, 8"),
        ("z", "experiment", None, "no site is called 'z'; deployment.sites are: a, b"),
    ):
        more = ["--insecure"] if flags is None else flags
        assert why in refused(*words, "--name", name, "--data", data, *more)
        assert not (tmp_path / "a").exists()
