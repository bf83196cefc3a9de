from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from troth.data.datasets.mnist import mnist
from troth.data.datasets.mnist_by_writer import SOURCE, mnist_by_writer, read
from troth.data.partitions.natural import natural
from troth.types import Refusal

LABELS = SOURCE.files[4:]


def linked(real: str, root: Path, *but: str) -> Path:
    """The real files but some."""
    for file in SOURCE.files:
        if file not in but:
            (root / file).symlink_to(Path(real) / SOURCE.folder / file)
    return root


def packed(path: Path, values: np.ndarray, kind: int) -> None:
    head = bytes([0, 0, kind, values.ndim]) + struct.pack(
        f">{values.ndim}I", *values.shape
    )
    path.write_bytes(gzip.compress(head + values.tobytes(), 1))


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Six files of the right shapes; writer 7 wrote the even digits of training."""
    root = tmp_path_factory.mktemp("made")
    for (image, label), table, count in zip(
        (SOURCE.files[:2], SOURCE.files[2:4]), LABELS, (60_000, 10_000), strict=True
    ):
        y = np.arange(count) % 10
        packed(root / image, np.zeros((count, 28, 28), np.uint8), 8)
        packed(root / label, y.astype(np.uint8), 8)
        rows = np.zeros((60_000, 8), ">i4")
        rows[:count, 0] = y
        rows[:, 2] = 7 + np.arange(60_000) % 2 + 100 * (count == 10_000)
        packed(root / table, rows, 12)
    return root


def test_made_files(made):
    """Only the first 10,000 rows of the second table are MNIST's."""
    bare = SOURCE._replace(digests={})
    arrays = read(bare, str(made), "all")
    assert arrays.x.shape == (70_000, 1, 28, 28) and arrays.split is None
    assert arrays.owner[[0, 1, 59_999, 60_000]].tolist() == [7, 8, 8, 107]
    assert read(bare, str(made), "test").owner.tolist() == [107, 108] * 5000
    assert read(bare, str(made), "train").owner.tolist() == [7, 8] * 30_000
    with pytest.raises(Refusal, match="is not the published file"):
        mnist_by_writer(str(made))


@pytest.mark.data
def test_real_files(real):
    """539 writers in training and 297 others in test, as the publisher says."""
    every = mnist_by_writer(real, part="all")
    train, test = mnist_by_writer(real), mnist_by_writer(real, part="test")
    assert [len(a.y) for a in (every, train, test)] == [70_000, 60_000, 10_000]
    writers = [{*a.owner.tolist()} for a in (train, test)]
    assert [len(w) for w in writers] == [539, 297] and not writers[0] & writers[1]
    sizes = np.unique(train.owner, return_counts=True)[1]
    assert sizes.min() == 19 and sizes.max() == 131
    assert sizes.mean() == pytest.approx(111.3, abs=0.05)
    for arrays in (every, train, test):
        assert arrays.split is None and arrays.owner.dtype == np.int64
    assert train.owner[:3].tolist() == [2154, 0, 2232] and test.owner[0] == 2578


@pytest.mark.data
def test_digits_are_those_of_mnist(real):
    ours, theirs = mnist_by_writer(real, part="all"), mnist(real)
    assert np.array_equal(ours.x, theirs.x) and np.array_equal(ours.y, theirs.y)
    halves = [mnist_by_writer(real, part=part) for part in ("train", "test")]
    assert np.array_equal(np.concatenate([half.x for half in halves]), ours.x)
    assert np.array_equal(np.concatenate([half.owner for half in halves]), ours.owner)


@pytest.mark.data
def test_a_writer_is_a_client(real):
    arrays = mnist_by_writer(real)
    clients = natural(arrays)
    assert len(clients) == 539 and sum(map(len, clients)) == 60_000
    assert all(len({*arrays.owner[rows].tolist()}) == 1 for rows in clients)


@pytest.mark.data
@pytest.mark.usefixtures("offline")
def test_without_the_writers_it_says_what_is_lacking(real, tmp_path):
    linked(real, tmp_path, LABELS[1])
    (tmp_path / f"{LABELS[1]}.part").write_bytes(b"half")
    with pytest.raises(Refusal, match=f"{tmp_path} lacks only {LABELS[1]};"):
        mnist_by_writer(str(tmp_path))


@pytest.mark.data
def test_swapped_label_files_are_refused(real, tmp_path):
    """They have the same size; the labels tell."""
    linked(real, tmp_path, *LABELS)
    place = Path(real) / SOURCE.folder
    for one, other in (LABELS, LABELS[::-1]):
        (tmp_path / one).symlink_to(place / other)
    words = r"qmnist-train.* has other labels than MNIST for 5\d,\d\d\d of 60,000"
    with pytest.raises(Refusal, match=words):
        mnist_by_writer(str(tmp_path))


def table(real: str, change) -> bytes:
    """A label file, changed."""
    content = gzip.decompress((Path(real) / SOURCE.folder / LABELS[0]).read_bytes())
    values = np.frombuffer(content, ">i4", offset=12).reshape(60_000, 8).copy()
    change(values)
    head = bytes([0, 0, 12, 2]) + struct.pack(">2I", *values.shape)
    return gzip.compress(head + values.tobytes(), 1)


@pytest.mark.data
def test_one_label_that_differs_is_refused(real, tmp_path):
    def change(values):
        values[7, 0] = 9 - values[7, 0]

    linked(real, tmp_path, LABELS[0])
    (tmp_path / LABELS[0]).write_bytes(table(real, change))
    for source in (SOURCE, SOURCE._replace(digests={})):
        with pytest.raises(Refusal, match="than MNIST for 1 of 60,000 digits: delete"):
            read(source, str(tmp_path), "train")


@pytest.mark.data
def test_writers_that_differ_are_told_by_the_digest(real, tmp_path):
    def change(values):
        values[7, 2] += 1

    linked(real, tmp_path, LABELS[0])
    (tmp_path / LABELS[0]).write_bytes(table(real, change))
    with pytest.raises(Refusal, match=f"{LABELS[0]} is not the published file"):
        mnist_by_writer(str(tmp_path))


@pytest.mark.data
def test_a_truncated_or_other_label_file_is_refused(real, tmp_path):
    place = Path(real) / SOURCE.folder
    linked(real, tmp_path, LABELS[1])
    whole = (place / LABELS[1]).read_bytes()
    for content, words in (
        (whole[:-100], "is not a whole gzip file"),
        ((place / SOURCE.files[1]).read_bytes(), "begins with the bytes '00000801'"),
    ):
        (tmp_path / LABELS[1]).write_bytes(content)
        with pytest.raises(Refusal, match=f"{LABELS[1]} {words}.*qmnist$"):
            mnist_by_writer(str(tmp_path))
