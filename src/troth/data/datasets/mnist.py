"""MNIST: handwritten digits.

References: lecun1998gradient.
"""

from troth.data.datasets._idx import idx_images, idx_source
from troth.types import Arrays

SOURCE = idx_source(
    "mnist",
    "mnist",
    "http://yann.lecun.com/exdb/mnist/",
    "CC BY-SA 3.0",
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    ("f68b3c2dcbeaaa9fbdd348bbdeb94873", 9912422, "6bbc9ace898e44ae57da46a324031adb"),
    ("d53e105ee54ea40749a09fcbcd1e9432", 28881, "a25bea736e30d166cdddb491f175f624"),
    ("9fb629c4189551a2d022fa330f9573f3", 1648877, "2646ac647ad5339dbf082846283269ea"),
    ("ec29112dd5afa0611ce80d1b7f02629c", 4542, "27ae3e4e09519cfbb04c329615203637"),
)


def mnist(data_dir: str | None = None) -> Arrays:
    """MNIST: 60,000 + 10,000 handwritten digits, gray, 28×28, 10 classes.

    The function reads the four gzipped IDX files from `mnist/` in `data_dir`,
    `$TROTH_DATA` or the cache. If they are in none of these, it downloads them.
    Training examples come first, in the order of the files. The data set
    `mnist_by_writer` also has the writers.

    Args:
        data_dir: Folder to search first for the files.
    """
    return idx_images(SOURCE, data_dir)[0]
