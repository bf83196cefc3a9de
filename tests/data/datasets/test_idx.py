"""The layout of MNIST on files made here, and every published file of that layout."""

import gzip
import struct

import numpy as np
import pytest

from troth.data.datasets import fashion_mnist, mnist
from troth.data.datasets._idx import FILES, idx_images, read_idx
from troth.types import TEST, TRAIN

BARE = fashion_mnist.SOURCE._replace(digests={})


@pytest.fixture(scope="module")
def made(write_idx, tmp_path_factory):
    """Four files of the right shapes; the first pixel of an image tells its number."""
    root = tmp_path_factory.mktemp("made")
    for part, count in (("train", 60_000), ("t10k", 10_000)):
        x = np.zeros((count, 28, 28), np.uint8)
        x[:, 0, 0] = np.arange(count) % 251
        write_idx(root / f"{part}-images-idx3-ubyte.gz", x)
        labels = (np.arange(count) % 10).astype(np.uint8)
        write_idx(root / f"{part}-labels-idx1-ubyte.gz", labels)
    return root


def test_reads_the_publishers_layout_and_other_types(made, tmp_path):
    arrays, place = idx_images(BARE, str(made))
    assert place == made
    assert arrays.x.shape == (70_000, 1, 28, 28) and arrays.x.dtype == np.uint8
    assert arrays.y.dtype == np.int64 and arrays.y[:3].tolist() == [0, 1, 2]
    assert arrays.x[[1, 250, 60_003], 0, 0, 0].tolist() == [1, 250, 3]
    assert arrays.classes == 10 and arrays.scale == 255
    assert arrays.split.dtype == np.int8 and (arrays.split[:60_000] == TRAIN).all()
    assert (arrays.split[60_000:] == TEST).all()
    values = np.array([[1, -2], [3, 400_000]], ">i4")
    head = bytes([0, 0, 12, 2]) + struct.pack(">2I", 2, 2)
    (tmp_path / "a.gz").write_bytes(gzip.compress(head + values.tobytes()))
    found = read_idx(BARE, tmp_path, "a.gz")
    assert found.dtype == np.dtype("=i4") and found.tolist() == values.tolist()


def test_what_is_not_the_published_set_is_refused(made, refuses):
    """Right in every shape, and still not what its name says."""
    for module in (mnist, fashion_mnist):
        load = getattr(module, module.SOURCE.name)
        said = refuses(f"{FILES[0]} is not the publ", load, str(made))
        assert said.startswith(f"{made / FILES[0]} is not the published file")
        assert "gunzip.md5:" in said
        assert said.endswith(f"get it again from {module.SOURCE.page}")
