"""Read IDX files, the format of MNIST and of similar data sets."""

import gzip
from pathlib import Path

import numpy as np

from troth.data.datasets._files import Remote, Source, locate, verify
from troth.types import TEST, TRAIN, Arrays

_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
COUNTS = (60_000, 10_000)
"""Numbers of training and test examples."""
FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)

Digests = tuple[str, int, str]  # md5 of a gzip file, its size, md5 of its content


def idx_source(
    name: str, folder: str, page: str, licence: str, root: str, *digests: Digests
) -> Source:
    """Return the source of a data set with the four files of MNIST.

    Args:
        name: name of the data set.
        folder: name of its folder.
        page: web page with information.
        licence: license.
        root: address of the folder with the files.
        *digests: digests and size of each file.
    """
    pairs = list(zip(FILES, digests, strict=True))
    return Source(
        name=name,
        folder=folder,
        files=FILES,
        page=page,
        licence=licence,
        remotes=tuple(
            Remote(f"{root}/{file}", f"md5:{packed}", size)
            for file, (packed, size, _) in pairs
        ),
        digests={file: f"gunzip.md5:{content}" for file, (_, _, content) in pairs},
    )


def read_idx(source: Source, place: Path, file: str) -> np.ndarray:
    """Check the digest of a gzipped IDX file, and return its array.

    The file has two zero bytes, one byte for the type, one byte for the number of axes,
    the lengths of the axes as big-endian 32-bit numbers, and the values in big-endian.
    """
    verify(source, place, [file])
    with gzip.open(place / file, "rb") as packed:
        content = packed.read()
    dtype, head = np.dtype(_TYPES[content[2]]), 4 + 4 * content[3]
    shape = np.frombuffer(content[4:head], ">u4")
    values = np.frombuffer(content, dtype, offset=head).reshape(shape)
    return values.astype(dtype.newbyteorder("="), copy=False)


def idx_images(source: Source, data_dir: str | None) -> tuple[Arrays, Path]:
    """Return the images of MNIST or of a similar data set, and the folder of its files.

    These are 60,000 + 10,000 images of 28×28 bytes, training examples first.
    """
    place = locate(source, data_dir)
    arrays = [read_idx(source, place, file) for file in FILES]
    x, y = np.concatenate(arrays[::2])[:, None], np.concatenate(arrays[1::2])
    split = np.repeat(np.array([TRAIN, TEST], np.int8), COUNTS)
    return Arrays(x, y.astype(np.int64), 10, scale=255.0, split=split), place
