"""MNIST with the writer of every digit, from QMNIST's label files.

References: yadav2019cold, lecun1998gradient.
"""

from typing import Literal

import numpy as np

from troth.data.datasets._files import Remote, Source
from troth.data.datasets._idx import COUNTS, idx_images, read_idx
from troth.data.datasets.mnist import SOURCE as MNIST
from troth.types import Arrays

_AT = "https://raw.githubusercontent.com/facebookresearch/qmnist/master"
_LABELS = ("qmnist-train-labels-idx2-int.gz", "qmnist-test-labels-idx2-int.gz")
_WRITER = 2  # index of the column with the writer
SOURCE = Source(
    name="mnist_by_writer",
    folder="mnist",
    files=(*MNIST.files, *_LABELS),
    page="https://github.com/facebookresearch/qmnist",
    licence="CC BY-SA 3.0 (MNIST), BSD 3-clause (QMNIST)",
    remotes=(
        *MNIST.remotes,
        Remote(f"{_AT}/{_LABELS[0]}", "md5:0058f8dd561b90ffdd0f734c6a30e5e4", 463024),
        Remote(f"{_AT}/{_LABELS[1]}", "md5:5b5b05890a5e13444e108efe57b788aa", 526800),
    ),
    digests={
        **MNIST.digests,
        _LABELS[0]: "gunzip.md5:1d43300e7f41ddcbf7fd006cbe865af9",
        _LABELS[1]: "gunzip.md5:5e00709fb0090091f3afc51d204ad83c",
    },
)


def mnist_by_writer(
    data_dir: str | None = None,
    *,
    part: Literal["train", "test", "all"] = "train",
) -> Arrays:
    """MNIST with the writers as owners: the partition `natural` makes each a client.

    The function reads MNIST's four files and QMNIST's two label files, all from
    `mnist/` (see `mnist`). `owner` is NIST's number of the writer. MNIST's split is not
    used, because its training and test data are by different writers, who are clients
    here. The digits of a writer are split by `partition.split`.

    Args:
        data_dir: Folder to search first for the files.
        part: Part of MNIST: "train", "test" or "all" (both). "train" has 60,000 digits
            by 539 writers, and "test" has 10,000 digits by 297 other writers.
    """
    arrays, place = idx_images(SOURCE, data_dir)
    tables = [read_idx(SOURCE, place, file) for file in _LABELS]
    pairs = zip(tables, COUNTS, strict=True)  # MNIST's rows come first
    owner = np.concatenate([table[:count, _WRITER] for table, count in pairs])
    owner = owner.astype(np.int64)
    train = COUNTS[0]
    rows = {"train": slice(train), "test": slice(train, None)}.get(part, slice(None))
    return arrays._replace(
        x=arrays.x[rows], y=arrays.y[rows], owner=owner[rows], split=None
    )
