from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from troth.data.datasets.cifar10 import SOURCE, cifar10, read
from troth.types import TEST, TRAIN, Refusal

BATCHES = SOURCE.files[:6]
BARE = SOURCE._replace(digests={})


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Six files of the right size; the first pixels of an image tell where it is."""
    root = tmp_path_factory.mktemp("made")
    for k, file in enumerate(BATCHES):
        records = np.zeros((10_000, 3073), np.uint8)
        records[:, 0] = (np.arange(10_000) + k) % 10
        records[:, 1] = np.arange(10_000) % 256
        records[:, 1 + 1024] = k
        records[:, -1] = 7
        records.tofile(root / file)
    (root / SOURCE.files[6]).write_text("\n".join("abcdefghij") + "\n\n")
    return root


def but(made: Path, root: Path, file: str) -> Path:
    """The made files but one."""
    for name in SOURCE.files:
        if name != file:
            (root / name).symlink_to(made / name)
    return root / file


def test_reads_the_publishers_layout(made):
    """A label, then red, green and blue, each row by row."""
    arrays = read(BARE, made)
    assert arrays.x.shape == (60_000, 3, 32, 32) and arrays.x.dtype == np.uint8
    assert arrays.y.dtype == np.int64
    assert arrays.y[[0, 10_000, 59_999]].tolist() == [0, 1, 4]
    assert arrays.labels == tuple("abcdefghij")
    assert arrays.x[10_003, 0, 0, 0] == 3 and arrays.x[10_003, 1, 0, 0] == 1
    assert (arrays.x[:, 2, 31, 31] == 7).all() and arrays.x[55_000, 1, 0, 0] == 5
    assert arrays.classes == 10 and arrays.scale == 255 and arrays.owner is None
    assert (arrays.split[:50_000] == TRAIN).all()
    assert (arrays.split[50_000:] == TEST).all() and arrays.split.dtype == np.int8


@pytest.mark.parametrize(
    ("size", "words"),
    [(30_729_999, "30,729,999"), (0, "0 bytes"), (30_733_073, "30,733,073")],
    ids=["cut", "empty", "one record more"],
)
def test_refuses_other_sizes(made, tmp_path, size, words):
    but(made, tmp_path, "data_batch_3.bin").write_bytes(bytes(size))
    with pytest.raises(Refusal, match=f"data_batch_3.bin has {words}.* 30,730,000:"):
        read(BARE, tmp_path)


def test_refuses_labels_out_of_range(made, tmp_path):
    records = np.fromfile(made / "test_batch.bin", np.uint8)
    records[3073 * 5] = 10
    records.tofile(but(made, tmp_path, "test_batch.bin"))
    with pytest.raises(Refusal, match="test_batch.bin holds the label 10 where labels"):
        read(BARE, tmp_path)


def test_refuses_other_names(made, tmp_path):
    but(made, tmp_path, "batches.meta.txt").write_text("cat\ndog\n")
    with pytest.raises(Refusal, match="batches.meta.txt names 2 classes where there"):
        read(BARE, tmp_path)


def test_what_is_not_the_published_set_is_refused(made):
    with pytest.raises(Refusal, match="data_batch_1.bin is not the published file"):
        cifar10(str(made))


@pytest.mark.usefixtures("offline")
def test_half_downloaded_and_renamed_files_are_not_there(made, tmp_path):
    target = but(made, tmp_path, "data_batch_2.bin")
    for name in ("data_batch_2.bin.part", "data_batch_2"):  # a rest; the Python layout
        target.with_name(name).symlink_to(made / "data_batch_2.bin")
    with pytest.raises(Refusal, match=f"{tmp_path} lacks only data_batch_2.bin;"):
        cifar10(str(tmp_path))


@pytest.mark.data
def test_real_files(real):
    arrays = cifar10(real)
    assert arrays.x.shape == (60_000, 3, 32, 32)
    assert np.bincount(arrays.y[:50_000]).tolist() == [5000] * 10
    assert np.bincount(arrays.y[50_000:]).tolist() == [1000] * 10
    assert arrays.labels[:4] == ("airplane", "automobile", "bird", "cat")
    assert arrays.y[:8].tolist() == [6, 9, 9, 4, 1, 1, 2, 7]
    assert arrays.y[50_000:50_006].tolist() == [3, 8, 8, 0, 6, 6]
    means = arrays.x[:50_000].mean(axis=(0, 2, 3)) / 255
    assert means == pytest.approx([0.4914, 0.4822, 0.4465], abs=1e-4)


@pytest.mark.data
def test_published_digests(real):
    """All six md5s of the publisher, taken here by other means."""
    for file in BATCHES:
        content = (Path(real) / SOURCE.folder / file).read_bytes()
        assert SOURCE.digests[file] == f"md5:{hashlib.md5(content).hexdigest()}"


@pytest.mark.data
@pytest.mark.parametrize("other", ["test_batch.bin", "data_batch_2.bin"])
def test_swapped_files_are_refused(real, tmp_path, other):
    """They have the same size and layout: only their digests differ."""
    place, one = Path(real) / SOURCE.folder, "data_batch_1.bin"
    swapped = {one: other, other: one}
    for file in SOURCE.files:
        (tmp_path / file).symlink_to(place / swapped.get(file, file))
    with pytest.raises(Refusal, match=rf"{one} is not .* \(it holds {other}; md5:.*"):
        cifar10(str(tmp_path))
