"""The writers; what MNIST's layout shares is in test_idx.py."""

import numpy as np
import pytest

from troth.data.datasets import mnist_by_writer as module
from troth.data.datasets.mnist import mnist
from troth.data.datasets.mnist_by_writer import SOURCE, mnist_by_writer

LABELS = SOURCE.files[4:]


def test_made_files(write_idx, tmp_path, monkeypatch):
    """Six files; writer 7 wrote the even digits of training.

    Only the first 10,000 rows of the second table are MNIST's.
    """
    for (image, label), table, count in zip(
        (SOURCE.files[:2], SOURCE.files[2:4]), LABELS, (60_000, 10_000), strict=True
    ):
        y = np.arange(count) % 10
        write_idx(tmp_path / image, np.zeros((count, 28, 28), np.uint8))
        write_idx(tmp_path / label, y.astype(np.uint8))
        rows = np.zeros((60_000, 8), ">i4")
        rows[:count, 0] = y
        rows[:, 2] = 7 + np.arange(60_000) % 2 + 100 * (count == 10_000)
        write_idx(tmp_path / table, rows, 12)
    monkeypatch.setattr(module, "SOURCE", SOURCE._replace(digests={}))
    arrays = mnist_by_writer(str(tmp_path), part="all")
    assert arrays.x.shape == (70_000, 1, 28, 28) and arrays.split is None
    assert arrays.owner[[0, 1, 59_999, 60_000]].tolist() == [7, 8, 8, 107]
    test = mnist_by_writer(str(tmp_path), part="test")
    assert test.owner.tolist() == [107, 108] * 5000
    assert mnist_by_writer(str(tmp_path)).owner.tolist() == [7, 8] * 30_000


@pytest.mark.data
def test_real_files(real):
    """539 writers in training and 297 others in test, as the publisher says."""
    every, theirs = mnist_by_writer(real, part="all"), mnist(real)
    assert np.array_equal(every.x, theirs.x) and np.array_equal(every.y, theirs.y)
    train, test = mnist_by_writer(real), mnist_by_writer(real, part="test")
    for column in ("x", "y", "owner"):
        halves = np.concatenate([getattr(train, column), getattr(test, column)])
        assert np.array_equal(halves, getattr(every, column))
    writers = [{*a.owner.tolist()} for a in (train, test)]
    assert [len(w) for w in writers] == [539, 297] and not writers[0] & writers[1]
    sizes = np.unique(train.owner, return_counts=True)[1]
    assert sizes.min() == 19 and sizes.max() == 131
    assert sizes.mean() == pytest.approx(111.3, abs=0.05)
    assert train.owner[:3].tolist() == [2154, 0, 2232] and test.owner[0] == 2578
