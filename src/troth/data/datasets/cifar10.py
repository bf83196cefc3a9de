"""CIFAR-10: small color photographs, from the publisher's binary files.

References: krizhevsky2009learning.
"""

import math

import numpy as np

from troth.data.datasets._files import Remote, Source, again, locate, text, verify
from troth.types import TEST, TRAIN, Arrays, Refusal

_BATCHES = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")
_META = "batches.meta.txt"
# A record is a label and the pixels: red, green, blue, each row by row.
_COUNT, _SHAPE, _CLASSES = 10_000, (3, 32, 32), 10
SOURCE = Source(
    name="cifar10",
    folder="cifar-10-batches-bin",
    files=(*_BATCHES, _META),
    page="https://www.cs.toronto.edu/~kriz/cifar.html",
    licence="none stated; cite the technical report",
    remotes=(
        Remote(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "md5:c32a1d4ab5d03f1284b67883e8d87530",
            170_052_171,
            makes=(*_BATCHES, _META),
        ),
    ),
    digests={
        "data_batch_1.bin": "md5:5dd7e06a14cb22eb9f671a540d1b7c25",
        "data_batch_2.bin": "md5:5ea93a67294ea407fff1d09f752e9692",
        "data_batch_3.bin": "md5:942cd6a4bcdd0dd3c604fbe906cb4421",
        "data_batch_4.bin": "md5:ae636b3ba5c66a11e91e8cb52e771fcb",
        "data_batch_5.bin": "md5:53f37980c15c3d472c316c40844f3f0d",
        "test_batch.bin": "md5:803d5f7f4d78ea53de84dbe85f74fb6d",
    },
)


def cifar10(data_dir: str | None = None) -> Arrays:
    """CIFAR-10: 50,000 + 10,000 color photographs of 32×32, 10 classes.

    The function reads the publisher's binary files from `cifar-10-batches-bin/` in
    `data_dir`, `$TROTH_DATA` or the cache. If they are in none of these, it downloads
    them (170 MB). The 50,000 training examples come first, in the order of the files.

    Args:
        data_dir: Folder to search first for the files.
    """
    place = locate(SOURCE, data_dir)
    verify(SOURCE, place)
    batches = [np.fromfile(place / file, np.uint8) for file in _BATCHES]
    records = np.concatenate(batches).reshape(-1, 1 + math.prod(_SHAPE))
    x = np.ascontiguousarray(records[:, 1:]).reshape(-1, *_SHAPE)
    split = np.full(len(x), TRAIN, np.int8)
    split[-_COUNT:] = TEST
    y = records[:, 0].astype(np.int64)
    labels = tuple(text(place / _META, again(SOURCE)).split())
    if len(labels) != _CLASSES:  # no digest of this file is published
        raise Refusal(
            f"{place / _META} names {len(labels)} classes where there are {_CLASSES}: "
            f"{again(SOURCE)}"
        )
    return Arrays(x, y, _CLASSES, scale=255.0, split=split, labels=labels)
