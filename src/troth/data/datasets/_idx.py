"""IDX files, the layout of MNIST and of everything laid out like it."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from troth.data.datasets._files import again, locate, verify
from troth.data.datasets._source import Source
from troth.types import TEST, TRAIN, Arrays, Refusal

_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_CLASSES = 10
COUNTS = (60_000, 10_000)
"""Training and test examples."""
FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


def read_idx(
    path: Path, shape: tuple[int, ...], source: Source, kind: int = 8
) -> np.ndarray:
    """The array in a gzipped IDX file, which must have just this shape and type.

    IDX: two zero bytes, a byte for the type, a byte for the number of axes, their
    lengths as big-endian 32-bit numbers, then the values, also big-endian.

    Args:
        path: the file.
        shape: what its header must say.
        source: whose file it is, for the refusal.
        kind: the IDX type; 8 is unsigned bytes, 12 is 32-bit integers.

    Raises:
        Refusal: damaged, cut short, not IDX, or of another shape.
    """
    remedy = again(source)
    dtype, head = np.dtype(_TYPES[kind]), 4 + 4 * len(shape)
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


def idx_images(source: Source, data_dir: str | None) -> tuple[Arrays, Path]:
    """MNIST, or a data set laid out like it: 60,000 + 10,000 images of 28×28 bytes.

    Args:
        source: whose `FILES` are read.
        data_dir: a root to look in first.

    Returns:
        the arrays, training examples first, and the folder that they were read from.

    Raises:
        Refusal: a file is missing, damaged or not the published one, or a label is not
            0 … 9.
    """
    place = locate(source, data_dir)
    x, y = [], []
    for count, image, label in zip(COUNTS, FILES[::2], FILES[1::2], strict=True):
        x.append(read_idx(place / image, (count, 28, 28), source))
        y.append(read_idx(place / label, (count,), source))
        if (largest := int(y[-1].max())) >= _CLASSES:
            raise Refusal(
                f"{place / label} holds the label {largest} where labels are 0 to 9: "
                f"{again(source)}"
            )
    verify(source, place, FILES)
    split = np.repeat(np.array([TRAIN, TEST], np.int8), COUNTS)
    images, labels = np.concatenate(x)[:, None], np.concatenate(y).astype(np.int64)
    return Arrays(images, labels, _CLASSES, scale=255.0, split=split), place
