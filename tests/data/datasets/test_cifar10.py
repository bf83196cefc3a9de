import numpy as np
import pytest

from troth.data.datasets import cifar10 as module
from troth.data.datasets.cifar10 import SOURCE, cifar10
from troth.types import TEST, TRAIN

BATCHES = SOURCE.files[:6]
BARE = SOURCE._replace(digests={})
NAMES = "\n".join("abcdefghij") + "\n\n"


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Six files of 100 records; the first pixels of an image tell where it is."""
    monkeypatch.setattr(module, "_COUNT", 100)
    for k, file in enumerate(BATCHES):
        records = np.zeros((100, 3073), np.uint8)
        records[:, 0] = (np.arange(100) + k) % 10
        records[:, 1] = np.arange(100)
        records[:, 1 + 1024] = k
        records[:, -1] = 7
        records.tofile(tmp_path / file)
    (tmp_path / SOURCE.files[6]).write_text(NAMES)
    return tmp_path


def test_reads_the_publishers_layout(made, monkeypatch):
    """A label, then red, green and blue, each row by row."""
    monkeypatch.setattr(module, "SOURCE", BARE)
    arrays = cifar10(str(made))
    assert arrays.x.shape == (600, 3, 32, 32) and arrays.x.dtype == np.uint8
    assert arrays.y.dtype == np.int64
    assert arrays.y[[0, 100, 599]].tolist() == [0, 1, 4]
    assert arrays.labels == tuple("abcdefghij")
    assert arrays.x[103, 0, 0, 0] == 3 and arrays.x[103, 1, 0, 0] == 1
    assert (arrays.x[:, 2, 31, 31] == 7).all() and arrays.x[550, 1, 0, 0] == 5
    assert arrays.classes == 10 and arrays.scale == 255 and arrays.owner is None
    assert arrays.split.tolist() == [TRAIN] * 500 + [TEST] * 100
    assert arrays.split.dtype == np.int8


def test_refuses_other_files(made, refuses, monkeypatch):
    refuses("data_batch_1.bin is not the published file .*md5:", cifar10, str(made))
    monkeypatch.setattr(module, "SOURCE", BARE)
    meta = made / SOURCE.files[6]
    meta.write_text("cat\ndog\n")
    words = "batches.meta.txt names 2 classes where there are 10: delete it and get it"
    refuses(words, cifar10, str(made))
    meta.write_bytes(b"\xff" * 99)
    refuses("batches.meta.txt is not a text file", cifar10, str(made))


@pytest.mark.data
def test_real_files(real):
    arrays = cifar10(real)
    assert arrays.x.shape == (60_000, 3, 32, 32)
    assert np.bincount(arrays.y[:50_000]).tolist() == [5000] * 10
    assert np.bincount(arrays.y[50_000:]).tolist() == [1000] * 10
    assert arrays.labels[:4] == ("airplane", "automobile", "bird", "cat")
    means = arrays.x[:50_000].mean(axis=(0, 2, 3)) / 255
    assert means == pytest.approx([0.4914, 0.4822, 0.4465], abs=1e-4)
