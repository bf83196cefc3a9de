"""On the real files; what MNIST's layout shares is in test_idx.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from troth.data.datasets._files import wrong
from troth.data.datasets.fashion_mnist import SOURCE, fashion_mnist
from troth.files import digest_of
from troth.types import Refusal

REAL_MNIST = "mnist"


@pytest.mark.data
def test_real_files(real):
    arrays = fashion_mnist(real)
    assert arrays.x.shape == (70_000, 1, 28, 28) and arrays.x.dtype == np.uint8
    assert len(arrays.labels) == 10 and arrays.labels[9] == "Ankle boot"
    assert arrays.y[:10].tolist() == [9, 0, 0, 3, 0, 2, 7, 2, 5, 5]
    assert np.bincount(arrays.y).tolist() == [7000] * 10
    assert arrays.x[:60_000].mean() == pytest.approx(72.94, abs=0.01)


@pytest.mark.data
def test_published_digests(real):
    """Of the files as they are offered, and of what is in them."""
    place = Path(real) / SOURCE.folder
    for remote in SOURCE.remotes:
        assert digest_of(place / remote.name, remote.digest) == remote.digest
        assert (place / remote.name).stat().st_size == remote.size
        assert wrong(SOURCE, place, remote.name) == ""


@pytest.mark.data
def test_mnist_under_its_name_is_refused(real, tmp_path):
    """The same names, shapes and types: only the digest tells."""
    other = Path(real) / REAL_MNIST
    if not other.is_dir():
        pytest.skip("no mnist under $TROTH_DATA")
    for file in SOURCE.files:
        (tmp_path / file).symlink_to(other / file)
    words = r"train-images.* is not the published file \(gunzip.md5:6bbc9ace898e44ae"
    with pytest.raises(Refusal, match=words):
        fashion_mnist(str(tmp_path))
