from __future__ import annotations

import gzip
import os
import struct
from pathlib import Path

import numpy as np
import pytest

from troth.datasets import _files
from troth.datasets.fashion_mnist import fashion_mnist
from troth.types import TEST, TRAIN, Refusal

REAL = os.environ.get("TROTH_DATA")
FILES = [
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
]


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


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """No data but what a test makes: no variable, an empty cache, no Debian package."""
    real = _files.places
    monkeypatch.delenv("TROTH_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(_files, "places", lambda *a: real(*a)[:-1])


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


def damaged(made: Path, root: Path, file: str, content: bytes) -> Path:
    """The made files, but one of them holds something else."""
    for name in FILES:
        if name != file:
            (root / name).symlink_to(made / "fashion-mnist" / name)
    (root / file).write_bytes(content)
    return root


def test_reads_the_publishers_layout(made):
    arrays = fashion_mnist(str(made))
    assert arrays.x.shape == (70_000, 1, 28, 28) and arrays.x.dtype == np.uint8
    assert arrays.y.dtype == np.int64 and arrays.y[:3].tolist() == [0, 1, 2]
    assert arrays.x[[1, 250, 60_003], 0, 0, 0].tolist() == [1, 250, 3]
    assert arrays.classes == 10 and arrays.scale == 255
    assert arrays.split.dtype == np.int8
    assert (arrays.split[:60_000] == TRAIN).all() and (
        arrays.split[60_000:] == TEST
    ).all()


def test_looks_in_every_place_in_order(monkeypatch, tmp_path):
    monkeypatch.setenv("TROTH_DATA", "/t")
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    looked = [str(p) for p in _files.places("fashion-mnist", "/d")]
    nested = ["/d", "/t", "/c/troth"]
    assert looked == [p for r in nested for p in (f"{r}/fashion-mnist", r)]
    monkeypatch.undo()
    assert _files.places("x", None)[-1] == Path("/usr/share/dataset-x")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    cache = os.path.expanduser("~/.cache/troth")
    assert Path(cache) in _files.places("x", "/d")


@pytest.mark.parametrize("how", ["variable", "cache", "flat"])
def test_finds_files_wherever_they_may_lie(monkeypatch, tmp_path, how):
    root = {"variable": tmp_path / "v", "flat": tmp_path / "f"}.get(
        how, tmp_path / "cache" / "troth"
    )
    place = root if how == "flat" else root / "set"
    place.mkdir(parents=True)
    (place / "a.gz").touch()
    if how == "variable":
        monkeypatch.setenv("TROTH_DATA", str(root))
    given = str(root) if how == "flat" else None
    assert _files.find("set", "set", ["a.gz"], given, "u") == place


def test_refuses_when_absent_and_says_what_to_put_where(tmp_path):
    with pytest.raises(Refusal) as caught:
        fashion_mnist(str(tmp_path))
    said = str(caught.value)
    assert all(file in said for file in FILES)
    assert f"into {tmp_path / 'fashion-mnist'}" in said and "TROTH_DATA" in said
    assert f"looked in {tmp_path / 'fashion-mnist'}, {tmp_path}, " in said
    assert str(tmp_path / "cache" / "troth") in said
    assert "\n" not in said and "lacks" not in said


def test_refuses_when_one_is_missing_and_names_it(tmp_path):
    for file in FILES[:3]:
        (tmp_path / file).touch()
    with pytest.raises(Refusal, match=f"{tmp_path} lacks only {FILES[3]}"):
        fashion_mnist(str(tmp_path))


ZEROS = np.zeros(10_000)


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
        fashion_mnist(str(root))
    assert str(caught.value).startswith(str(root / FILES[3]))
    assert "get it again from https://github.com/zalando" in str(caught.value)


def test_refuses_flipped_bits(made, tmp_path):
    content = bytearray((made / "fashion-mnist" / FILES[3]).read_bytes())
    content[-6] ^= 1  # of the checksum
    root = damaged(made, tmp_path, FILES[3], bytes(content))
    with pytest.raises(Refusal, match="is not a whole gzip file"):
        fashion_mnist(str(root))


def test_reads_other_idx_types(tmp_path):
    values = np.array([[1, -2], [3, 400_000]], ">i4")
    head = bytes([0, 0, 12, 2]) + struct.pack(">2I", 2, 2)
    write(tmp_path / "a.gz", head + values.tobytes())
    read = _files.read_idx(tmp_path / "a.gz", (2, 2), "u", kind=12)
    assert read.dtype == np.dtype("=i4") and read.tolist() == values.tolist()


@pytest.mark.data
def test_real_files():
    if not REAL or not os.path.isdir(os.path.join(REAL, "fashion-mnist")):
        pytest.skip("no fashion-mnist under $TROTH_DATA")
    arrays = fashion_mnist(REAL)
    assert arrays.y[:10].tolist() == [9, 0, 0, 3, 0, 2, 7, 2, 5, 5]
    assert np.bincount(arrays.y).tolist() == [7000] * 10
    assert arrays.x[:60_000].mean() == pytest.approx(72.94, abs=0.01)
