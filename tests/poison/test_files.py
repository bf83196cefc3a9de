"""Poisoned examples on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from troth.data.corruptions.from_file import from_file
from troth.poison import Head, data_attack, save, summary
from troth.types import Refusal

HEAD = Head(np.array([[1.0, 2, 0], [0, 1, 3]]), np.array([0.5, 0.0]))


def test_saved_and_read(tmp_path: Path) -> None:
    found = data_attack(HEAD, 20, 0)
    place = tmp_path / "bad.npz"
    told = save(place, found.x, found.y, found.p, others=180)
    assert told.number == 20 and told.share == pytest.approx(0.1)
    assert told.largest_norm == pytest.approx(np.linalg.norm(found.x, axis=1).max())
    with np.load(place) as file:  # no pickles
        assert {*file} == {"x", "y", "p", "scale", *told._fields}
        assert np.array_equal(file["x"], found.x) and np.array_equal(file["p"], found.p)
        assert file["y"].tolist() == file["p"].argmax(axis=1).tolist()
        assert file["number"] == 20 and file["share"] == pytest.approx(0.1)
        assert file["scale"] == 1
    assert [p.name for p in tmp_path.iterdir()] == ["bad.npz"]


def test_the_corruption_reads_it(tmp_path: Path) -> None:
    found = data_attack(HEAD, 6, 0)
    save(tmp_path / "bad.npz", found.x, p=found.p)
    own = torch.zeros(4, 3, dtype=torch.float64), torch.zeros(4, dtype=torch.int64)
    x, y = from_file(
        *own, 2, torch.tensor(7), path=str(tmp_path / "bad.npz"), take="all"
    )
    assert x.numpy() == pytest.approx(found.x)
    assert y.numpy() == pytest.approx(found.p)


def test_answers_and_hard_labels_have_no_p(tmp_path: Path) -> None:
    save(tmp_path / "a", np.ones((3, 2)), np.array([0.5, 1.5, 2.0]))
    with np.load(tmp_path / "a") as file:
        assert "p" not in file and file["y"].dtype == np.float64
    save(tmp_path / "a", np.ones((3, 1, 2, 2), np.uint8), np.array([0, 1, 1]))
    with np.load(tmp_path / "a") as file:
        assert file["scale"] == 255 and file["share"] == 1
        assert file["largest_norm"] == 2
    save(tmp_path / "a", np.ones((3, 2)), np.array([0, 1, 1]), scale=16)
    with np.load(tmp_path / "a") as file:
        assert file["scale"] == 16


def test_share_and_norm() -> None:
    told = summary(np.array([[3.0, 4.0], [0.0, 1.0]]), 8)
    assert told == (2, 0.2, 5.0)
    with pytest.raises(Refusal, match="others = -1"):
        summary(np.ones((1, 1)), -1)


def test_what_was_there_stays_when_it_fails(tmp_path: Path) -> None:
    place = tmp_path / "bad.npz"
    save(place, np.ones((3, 2)), np.array([0, 1, 1]))
    before = place.read_bytes()
    with pytest.raises(Refusal):
        save(place, np.full((3, 2), np.nan), np.array([0, 1, 1]))
    assert place.read_bytes() == before
    with pytest.raises(Refusal, match="cannot be written .* folder that exists"):
        save(tmp_path / "no" / "bad.npz", np.ones((3, 2)), np.array([0, 1, 1]))
    with pytest.raises(Refusal, match="'/' names no file"):
        save("/", np.ones((3, 2)), np.array([0, 1, 1]))
    with pytest.raises(Refusal, match="cannot be written"):
        save(tmp_path, np.ones((3, 2)), np.array([0, 1, 1]))
    assert [p.name for p in tmp_path.iterdir()] == ["bad.npz"]


@pytest.mark.parametrize(
    ("x", "y", "p", "words"),
    [
        (np.ones((2, 2)), None, None, "neither labels y nor soft labels p"),
        (np.ones((2, 2)), np.zeros(3), None, r"shape \(2, 2\) and there are \[3\]"),
        (np.ones((0, 2)), np.zeros(0), None, "at least one example"),
        (np.ones(2), np.zeros(2), None, "as x"),
        (np.ones((2, 2)), None, np.ones((2, 2)), "row 0 adds up to 2"),
        (np.ones((2, 2)), None, np.array([[2.0, -1]] * 2), "negative"),
        (np.ones((2, 2)), None, np.ones(2), "two axes"),
        (np.ones((2, 2)), np.zeros(2), np.eye(2), "1 labels are not the most likely"),
        (np.ones((2, 2)), None, np.eye(3), "there are .* labels"),
        (np.full((2, 2), np.inf), np.zeros(2), None, "x is float64, or holds NaN"),
        (np.ones((2, 2)), np.array(["a", "b"]), None, "y is <U1"),
    ],
)
def test_refusals(
    tmp_path: Path,
    x: np.ndarray,
    y: np.ndarray | None,
    p: np.ndarray | None,
    words: str,
) -> None:
    with pytest.raises(Refusal, match=words):
        save(tmp_path / "bad.npz", x, y, p)
    assert not [*tmp_path.iterdir()]
