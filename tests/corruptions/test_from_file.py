from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from troth import lookup, seeding
from troth.corruptions.from_file import from_file
from troth.types import Refusal

KEY = seeding.keys(0, "corruption", 0, torch.tensor(3))
X = torch.arange(5 * 6, dtype=torch.float32).reshape(5, 2, 3)
Y = torch.arange(5) % 3


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "poison.npz")


def save(path: str, m: int = 9, **arrays: Any) -> None:
    x = 100 + np.arange(m * 6, dtype=np.float32).reshape(m, 2, 3)
    np.savez(path, **({"x": x, "y": np.arange(m) % 3} | arrays))


def take(path: str, key: Tensor = KEY, **options: Any) -> tuple[Tensor, Tensor]:
    return from_file(X, Y, 3, key, path=path, **options)


def which(x: Tensor) -> list[int]:
    """The numbers in the file of examples."""
    return ((x[:, 0, 0] - 100) / 6).long().tolist()


def test_fill_draws_as_many_without_replacement(path: str) -> None:
    save(path)
    x, y = take(path)
    rows = which(x)
    assert len(rows) == len({*rows}) == 5
    assert y.tolist() == [row % 3 for row in rows]
    assert x.dtype == X.dtype and y.dtype == Y.dtype
    assert torch.equal(x[:, 1, 2], x[:, 0, 0] + 5)  # examples stay whole


def test_fill_begins_again_where_the_file_is_shorter(path: str) -> None:
    save(path, 2)
    rows = which(take(path)[0])
    assert sorted(rows[:2]) == [0, 1] and rows == (rows[:2] * 3)[:5]


def test_every_example_is_drawn_alike(path: str) -> None:
    """Counts over 2,000 clients, 5 of 9 each; z > 6.5 fails with probability 1e-9."""
    save(path)
    keys = seeding.keys(0, "corruption", 0, torch.arange(2000))
    counts = np.bincount(sum((which(take(path, key)[0]) for key in keys), []))
    share = 5 / 9
    z = (counts - 2000 * share) / np.sqrt(2000 * share * (1 - share))
    assert len(counts) == 9 and np.abs(z).max() < 6.5


def test_all_is_the_file_in_its_order(path: str) -> None:
    save(path)
    x, y = take(path, take="all")
    assert which(x) == list(range(9)) and y.tolist() == [k % 3 for k in range(9)]
    x.zero_()  # what is given away is no part of what is kept
    assert which(take(path, take="all")[0]) == list(range(9))


def test_the_file_may_change(path: str) -> None:
    save(path)
    take(path)
    save(path, y=np.full(9, 2))
    os.utime(path, ns=(1, 1))
    assert take(path)[1].tolist() == [2] * 5


def test_bytes_and_grey_images(path: str) -> None:
    x = torch.zeros(2, 1, 5, 4, dtype=torch.uint8)
    y = torch.zeros(2, dtype=torch.long)
    for shape in ((7, 5, 4), (7, 1, 5, 4), (7, 5, 4, 1)):
        np.savez(path, x=np.full(shape, 200, np.uint8), y=np.zeros(7, np.int8))
        new, labels = from_file(x, y, 5, KEY, path=path)
        assert new.shape == x.shape and bool((new == 200).all())
        assert new.dtype == torch.uint8 and labels.dtype == torch.long
    flat = torch.zeros(2, 3, 4, dtype=torch.uint8)  # bytes that are no images
    np.savez(path, x=np.full((7, 3, 4), 200, np.uint8), y=np.zeros(7, np.int8))
    assert from_file(flat, y, 5, KEY, path=path)[0].shape == flat.shape


def test_several_labels_and_targets(path: str) -> None:
    several = np.eye(3, dtype=np.int64)[np.arange(9) % 3]
    save(path, y=several)
    labels = from_file(X, torch.zeros(5, 3, dtype=torch.long), 3, KEY, path=path)[1]
    assert labels.shape == (5, 3) and bool((labels.sum(1) == 1).all())
    save(path, y=np.full(9, -2.5))
    targets = from_file(X, torch.zeros(5), 0, KEY, path=path)[1]
    assert targets.tolist() == [-2.5] * 5 and targets.dtype == torch.float32


BAD = [
    ({"y": np.full(9, 3)}, "labels from 3 to 3; they must lie in 0 … 2"),
    ({"y": np.full(9, -1)}, "labels from -1 to -1; they must lie in 0 … 2"),
    ({"y": np.zeros(9)}, r"y is float64 of shape \[9\]; it must be whole numbers"),
    ({"y": np.zeros(8, int)}, r"y is int64 of shape \[8\]; .* of shape \[9\]"),
    ({"y": np.zeros((9, 3), int)}, r"shape \[9, 3\]; .* of shape \[9\]"),
    ({"y": np.array(list("abcabcabc"))}, "y is <U1 of shape"),
    ({"x": np.zeros((9, 3, 2))}, r"shape \[3, 2\], and one of the data set \[2, 3\]"),
    ({"x": np.zeros((9, 2, 3), np.uint8)}, "x is uint8, and .* are float32; bytes go"),
    ({"x": np.full((9, 2, 3), np.nan)}, "x is NaN or infinite in 9 of 9"),
    ({"x": np.full((9, 2, 3), np.inf)}, "x is NaN or infinite in 9 of 9"),
    ({"x": np.zeros((0, 2, 3)), "y": np.zeros(0, int)}, "at least one example"),
    ({"x": np.zeros((9, 2, 3), complex)}, "must be an array of real numbers"),
    ({"x": np.array([{}] * 9)}, "holds Python objects"),
]


@pytest.mark.parametrize(("arrays", "words"), BAD)
def test_refuses_arrays(path: str, arrays: dict[str, Any], words: str) -> None:
    save(path, **arrays)
    with pytest.raises(Refusal, match=words) as caught:
        take(path)
    assert path in str(caught.value) and "\n" not in str(caught.value)


def test_refuses_targets(path: str) -> None:
    for y, words in (
        (np.full(9, np.nan), "y is NaN"),
        (np.full(9, 1j), "y is complex"),
    ):
        save(path, y=y)
        with pytest.raises(Refusal, match=words):
            from_file(X, torch.zeros(5), 0, KEY, path=path)


def test_refuses_files(path: str, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"there is no file .*: set corruption\.path to"):
        take(path)
    with pytest.raises(Refusal, match="there is no file"):
        take(str(tmp_path))
    with pytest.raises(Refusal, match="there is no file"):
        take("a\0b")
    Path(path).write_bytes(b"no arrays at all")
    with pytest.raises(Refusal, match=r"is not a whole \.npz file"):
        take(path)
    np.savez(path, x=X.numpy())
    with pytest.raises(Refusal, match=r"lacks the array y"):
        take(path)


def test_options() -> None:
    given = {"path": "a.npz"}
    full = lookup.check("corruption", "from_file", given)
    assert full == {"path": "a.npz", "take": "fill"}
    with pytest.raises(Refusal, match="needs the option 'path'"):
        lookup.check("corruption", "from_file", {})
    with pytest.raises(Refusal, match="is not one of 'fill', 'all'"):
        lookup.check("corruption", "from_file", given | {"take": "some"})
