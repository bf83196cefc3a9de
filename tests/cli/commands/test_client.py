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


def test_nothing_starts_without_tls_unless_it_is_said(
    flower: None, words: list[object], refused: Refused, tmp_path: Path
) -> None:
    words += ["--name", "a", "--data", "experiment"]
    assert "give both, or --insecure" in refused(*words)
    assert "give both, or --insecure" in refused(*words, "--keys", tmp_path)
    assert not (tmp_path / "a").exists()


def test_no_data_and_no_such_site(
    flower: None, words: list[object], refused: Refused, tmp_path: Path
) -> None:
    words += ["--insecure"]
    said = refused(*words, "--name", "a", "--data", tmp_path / "none.npz")
    assert "there is no file" in said
    said = refused(*words, "--name", "a", "--data", tmp_path / "none.csv")
    assert "is a table, and all sites must read theirs alike" in said
    said = refused(*words, "--name", "z", "--data", "experiment")
    assert "no site is called 'z'; deployment.sites are: a, b" in said


def test_labels_outside_the_classes_and_another_shape(
    flower: None, words: list[object], refused: Refused, tmp_path: Path
) -> None:
    words += ["--insecure", "--name", "a", "--data", tmp_path / "mine.npz"]
    x = np.zeros((20, 1, 8, 8), np.float32)
    np.savez(tmp_path / "mine.npz", x=x, y=np.arange(20))
    assert "y holds 10, 11, 12, 13, which this run does not know" in refused(*words)
    np.savez(tmp_path / "mine.npz", x=x[:, :, :5], y=np.arange(20) % 10)
    assert "[1, 5, 8] do not fit this model, which takes [1, 8, 8]" in refused(*words)


def test_keys_and_certificates_that_are_none(
    flower: None, words: list[object], refused: Refused, tmp_path: Path
) -> None:
    (tmp_path / "x").write_text("nothing of the kind")
    words += ["--name", "a", "--data", "experiment", "--keys", tmp_path / "x"]
    assert "there is no file" in refused(*words, "--tls", tmp_path / "ca.pem")
    assert "x is no certificate" in refused(*words, "--tls", tmp_path / "x")
