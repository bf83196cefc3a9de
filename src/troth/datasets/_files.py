"""Where data files are looked for, and how IDX files are read."""

from __future__ import annotations

import gzip
import math
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from troth.types import TEST, TRAIN, Arrays, Refusal

_IDX_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_DIGITS = 10  # classes of MNIST and of everything laid out like it


def places(folder: str, data_dir: str | None) -> list[Path]:
    """Every folder in which the files of a data set may lie, first choice first.

    Under each root they may lie in a folder of their own or in the root itself. The
    roots are `data_dir`, `$TROTH_DATA` and the user's cache; Debian's package
    `dataset-<folder>` comes last.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    roots = [data_dir, os.environ.get("TROTH_DATA"), os.path.join(cache, "troth")]
    found = [Path(os.path.expanduser(root)) for root in roots if root]
    nested = [place for root in found for place in (root / folder, root)]
    return [*nested, Path("/usr/share") / f"dataset-{folder}"]


def find(
    name: str, folder: str, files: Sequence[str], data_dir: str | None, source: str
) -> Path:
    """The first place that holds all the files of a data set.

    Args:
        name: the data set, for the refusal.
        folder: its own folder under a root.
        files: what must be there.
        data_dir: a root to look in first.
        source: where a user gets the files.

    Raises:
        Refusal: no place holds them all; says what to put where, and where it looked.
    """
    lacking = ""
    for place in (looked := places(folder, data_dir)):
        missing = [file for file in files if not os.path.isfile(place / file)]
        if not missing:
            return place
        if len(missing) < len(files) and not lacking:
            lacking = f"; {place} lacks only {', '.join(missing)}"
    raise Refusal(
        f"data '{name}' is not on this machine: put {', '.join(files)} (from {source}) "
        f"into {looked[0]}, or set TROTH_DATA to the folder that holds them"
        f"{lacking}; looked in {', '.join(map(str, looked))}"
    )


def read_idx(
    path: Path, shape: tuple[int, ...], source: str, kind: int = 8
) -> np.ndarray:
    """The array in a gzipped IDX file, which must have just this shape and type.

    IDX: two zero bytes, a byte for the type, a byte for the number of axes, their
    lengths as big-endian 32-bit numbers, then the values, also big-endian.

    Args:
        path: the file.
        shape: what its header must say.
        source: where a user gets the file, for the refusal.
        kind: the IDX type; 8 is unsigned bytes, 12 is 32-bit integers.

    Raises:
        Refusal: damaged, cut short, not IDX, or of another shape.
    """
    remedy = f"delete it and get it again from {source}"
    dtype, head = np.dtype(_IDX_TYPES[kind]), 4 + 4 * len(shape)
    size = math.prod(shape) * dtype.itemsize
    try:
        with gzip.open(path, "rb") as file:
            content = file.read(head + size + 1)  # one more, to see it end
    except (OSError, EOFError, zlib.error) as error:
        raise Refusal(f"{path} is not a whole gzip file ({error}): {remedy}") from None
    magic = bytes([0, 0, kind, len(shape)])
    if content[:4] != magic:
        raise Refusal(
            f"{path} begins with the bytes {content[:4].hex()!r} where this IDX file "
            f"begins with {magic.hex()!r}: {remedy}"
        )
    lengths = content[4:head].ljust(head - 4, b"\0")
    said = tuple(np.frombuffer(lengths, ">u4").tolist())
    if said != shape:
        raise Refusal(
            f"{path} says that it holds {_times(said)} values where there must be "
            f"{_times(shape)}: {remedy}"
        )
    if len(content) != head + size:
        more = "more" if len(content) > head + size else "fewer"
        raise Refusal(
            f"{path} holds {more} than the {size} bytes of values that its header "
            f"promises: {remedy}"
        )
    values = np.frombuffer(content, dtype, offset=head).reshape(shape)
    return values.astype(dtype.newbyteorder("="), copy=False)


def _times(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape))


def idx_images(name: str, folder: str, data_dir: str | None, source: str) -> Arrays:
    """MNIST, or a data set laid out like it: 60,000 + 10,000 images of 28×28 bytes.

    Args:
        name: the data set, for refusals.
        folder: its own folder under a root.
        data_dir: a root to look in first.
        source: where a user gets the four files.

    Raises:
        Refusal: a file is missing or damaged, or a label is not 0 … 9.
    """
    files = [
        f"{part}-{what}-ubyte.gz"
        for part in ("train", "t10k")
        for what in ("images-idx3", "labels-idx1")
    ]
    place = find(name, folder, files, data_dir, source)
    x, y = [], []
    counts = (60_000, 10_000)
    for count, image, label in zip(counts, files[::2], files[1::2], strict=True):
        x.append(read_idx(place / image, (count, 28, 28), source))
        y.append(read_idx(place / label, (count,), source))
        if (largest := int(y[-1].max())) >= _DIGITS:
            raise Refusal(
                f"{place / label} holds the label {largest} where labels are 0 to 9: "
                f"delete it and get it again from {source}"
            )
    split = np.repeat(np.array([TRAIN, TEST], np.int8), counts)
    images, labels = np.concatenate(x)[:, None], np.concatenate(y).astype(np.int64)
    return Arrays(images, labels, _DIGITS, scale=255.0, split=split)
