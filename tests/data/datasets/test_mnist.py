"""On the real files; what MNIST's layout shares is in test_idx.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from troth.data.datasets._files import wrong
from troth.data.datasets.mnist import SOURCE, mnist
from troth.types import Refusal


@pytest.mark.data
def test_real_files(real):
    arrays = mnist(real)
    assert arrays.x.shape == (70_000, 1, 28, 28) and arrays.x.dtype == np.uint8
    assert arrays.y[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    train, test = np.split(arrays.y, [60_000])
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(train).tolist() == counts
    counts = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert np.bincount(test).tolist() == counts
    assert arrays.x[:60_000].mean() == pytest.approx(33.318, abs=0.001)
    assert arrays.scale == 255 and arrays.classes == 10 and arrays.owner is None


@pytest.mark.data
def test_published_digests(real):
    place = Path(real) / SOURCE.folder
    assert [wrong(SOURCE, place, file) for file in SOURCE.files] == [""] * 4


@pytest.mark.data
def test_a_truncated_file_is_refused(real, tmp_path):
    place = Path(real) / SOURCE.folder
    for file in SOURCE.files:
        (tmp_path / file).write_bytes((place / file).read_bytes())
    whole = (place / SOURCE.files[2]).read_bytes()
    (tmp_path / SOURCE.files[2]).write_bytes(whole[:-1000])
    with pytest.raises(Refusal, match="t10k-images.*is not a whole gzip file"):
        mnist(str(tmp_path))


@pytest.mark.data
@pytest.mark.parametrize("what", ["images-idx3", "labels-idx1"])
def test_training_and_test_files_that_are_swapped_are_refused(real, tmp_path, what):
    place = Path(real) / SOURCE.folder
    swapped = {f"train-{what}-ubyte.gz": f"t10k-{what}-ubyte.gz"}
    swapped |= {other: one for one, other in swapped.items()}
    for file in SOURCE.files:
        (tmp_path / file).symlink_to(place / swapped.get(file, file))
    with pytest.raises(Refusal, match=f"train-{what}.* holds 10000.* must be 60000"):
        mnist(str(tmp_path))


@pytest.mark.data
@pytest.mark.usefixtures("offline")
def test_renamed_files_are_not_there(real, tmp_path):
    """Without .gz, as other programs leave them."""
    for file in SOURCE.files:
        (tmp_path / file.removesuffix(".gz")).touch()
    with pytest.raises(Refusal, match="'mnist' is not on this machine and was not dow"):
        mnist(str(tmp_path))
