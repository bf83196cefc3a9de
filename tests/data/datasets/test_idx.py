"""The layout of MNIST, on files made here; the real ones are in their own tests."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from troth.data.datasets import fashion_mnist, mnist
from troth.data.datasets._idx import FILES, idx_images, read_idx
from troth.types import TEST, TRAIN, Arrays, Refusal

pytestmark = pytest.mark.usefixtures("offline")
SOURCE = fashion_mnist.SOURCE._replace(digests={})
ZEROS = np.zeros(10_000)


def idx(values: np.ndarray) -> bytes:
    """An IDX file, not yet compressed."""
    head = bytes([0, 0, 8, values.ndim]) + struct.pack(
        f">{values.ndim}I", *values.shape
    )
    return head + values.astype(np.uint8).tobytes()


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(content)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Four files of the right shapes; the first pixel of an image tells its number."""
    root = tmp_path_factory.mktemp("made")
    for part, count in (("train", 60_000), ("t10k", 10_000)):
        x = np.zeros((count, 28, 28), np.uint8)
        x[:, 0, 0] = np.arange(count) % 251
        write(root / "fashion-mnist" / f"{part}-images-idx3-ubyte.gz", idx(x))
        labels = np.arange(count) % 10
        write(root / "fashion-mnist" / f"{part}-labels-idx1-ubyte.gz", idx(labels))
    return root


def read(root: Path) -> Arrays:
    return idx_images(SOURCE, str(root))[0]


def damaged(made: Path, root: Path, file: str, content: bytes) -> Path:
    """The made files, but one of them holds something else."""
    for name in FILES:
        if name != file:
            (root / name).symlink_to(made / "fashion-mnist" / name)
    (root / file).write_bytes(content)
    return root


def test_reads_the_publishers_layout(made):
    arrays, place = idx_images(SOURCE, str(made))
    assert place == made / "fashion-mnist"
    assert arrays.x.shape == (70_000, 1, 28, 28) and arrays.x.dtype == np.uint8
    assert arrays.y.dtype == np.int64 and arrays.y[:3].tolist() == [0, 1, 2]
    assert arrays.x[[1, 250, 60_003], 0, 0, 0].tolist() == [1, 250, 3]
    assert arrays.classes == 10 and arrays.scale == 255
    assert arrays.split.dtype == np.int8
    assert (arrays.split[:60_000] == TRAIN).all()
    assert (arrays.split[60_000:] == TEST).all()


@pytest.mark.parametrize("load", [fashion_mnist.fashion_mnist, mnist.mnist])
def test_what_is_not_the_published_set_is_refused(made, load):
    """Right in every shape, and still not what its name says."""
    with pytest.raises(Refusal, match=f"{FILES[0]} is not the published file") as error:
        load(str(made / "fashion-mnist"))
    assert "gunzip.md5:" in str(error.value)


def test_refuses_when_absent_and_says_what_to_put_where(tmp_path):
    with pytest.raises(Refusal) as caught:
        fashion_mnist.fashion_mnist(str(tmp_path))
    said = str(caught.value)
    assert all(file in said for file in FILES)
    assert f"into {tmp_path / 'fashion-mnist'}" in said and "TROTH_DATA" in said
    assert f"looked in {tmp_path / 'fashion-mnist'}, {tmp_path}, " in said
    assert str(tmp_path / "cache" / "troth") in said and "TROTH_OFFLINE" in said
    assert "\n" not in said and "lacks" not in said


def test_refuses_when_one_is_missing_and_names_it(tmp_path):
    for file in FILES[:3]:
        (tmp_path / file).touch()
    with pytest.raises(Refusal, match=f"{tmp_path} lacks only {FILES[3]}"):
        read(tmp_path)


def test_half_downloaded_files_are_not_there(made, tmp_path):
    damaged(made, tmp_path, f"{FILES[3]}.part", b"half")
    (tmp_path / FILES[3]).unlink()
    with pytest.raises(Refusal, match=f"{tmp_path} lacks only {FILES[3]}"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "begins with the bytes ''"),
        (b"<html>not found</html>", "is not a whole gzip file"),
        (gzip.compress(idx(ZEROS))[:-9], "is not a whole gzip file .*ended before"),
        (gzip.compress(b"\0\0\x08\x03 etc"), "begins with the bytes '00000803' where"),
        (gzip.compress(b"\0\0\x08\x01"), "holds 0 values where there must be 10000"),
        (gzip.compress(idx(ZEROS[1:])), "holds 9999 values where there must be 10000"),
        (gzip.compress(idx(ZEROS)[:-1]), "holds fewer than the 10000 bytes"),
        (gzip.compress(idx(ZEROS) + b"0"), "holds more than the 10000 bytes"),
        (gzip.compress(idx(ZEROS + 11)), "holds the label 11 where labels are 0 to 9"),
    ],
    ids=["empty", "html", "cut", "images", "header", "count", "short", "long", "label"],
)
def test_refuses_a_damaged_file_by_name(made, tmp_path, content, words):
    root = damaged(made, tmp_path, FILES[3], content)
    with pytest.raises(Refusal, match=words) as caught:
        read(root)
    assert str(caught.value).startswith(str(root / FILES[3]))
    assert "get it again from https://github.com/zalando" in str(caught.value)


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (0, 2, "holds 10000×28×28 values where there must be 60000×28×28"),
        (1, 3, "holds 10000 values where there must be 60000"),
        (0, 1, "begins with the bytes '00000801' where this IDX file begins with"),
    ],
    ids=["images of train and test", "labels of train and test", "images and labels"],
)
def test_refuses_swapped_files(made, tmp_path, one, other, words):
    for i, name in enumerate(FILES):
        held = {one: other, other: one}.get(i, i)
        (tmp_path / name).symlink_to(made / "fashion-mnist" / FILES[held])
    with pytest.raises(Refusal, match=f"{tmp_path / FILES[one]} .*{words}"):
        read(tmp_path)


def test_refuses_flipped_bits(made, tmp_path):
    content = bytearray((made / "fashion-mnist" / FILES[3]).read_bytes())
    content[-6] ^= 1  # of the checksum
    root = damaged(made, tmp_path, FILES[3], bytes(content))
    with pytest.raises(Refusal, match="is not a whole gzip file"):
        read(root)


def test_reads_other_idx_types(tmp_path):
    values = np.array([[1, -2], [3, 400_000]], ">i4")
    head = bytes([0, 0, 12, 2]) + struct.pack(">2I", 2, 2)
    write(tmp_path / "a.gz", head + values.tobytes())
    found = read_idx(tmp_path / "a.gz", (2, 2), SOURCE, kind=12)
    assert found.dtype == np.dtype("=i4") and found.tolist() == values.tolist()
