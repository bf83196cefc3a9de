"""Fashion-MNIST: articles of clothing in the layout of MNIST.

@misc{xiao2017fashion,
  title={Fashion-{MNIST}: a Novel Image Dataset for Benchmarking Machine Learning
         Algorithms},
  author={Xiao, Han and Rasul, Kashif and Vollgraf, Roland},
  eprint={1708.07747}, archivePrefix={arXiv}, year={2017}}
"""

from __future__ import annotations

from troth.datasets._files import idx_images
from troth.types import Arrays

SOURCE = "https://github.com/zalandoresearch/fashion-mnist"


def fashion_mnist(data_dir: str | None = None) -> Arrays:
    """Fashion-MNIST: 60,000 + 10,000 grey images of 28×28, 10 classes of clothing.

    Reads the publisher's four gzipped IDX files from `fashion-mnist/` under `data_dir`,
    `$TROTH_DATA` or the cache, or from Debian's `dataset-fashion-mnist`; it downloads
    nothing. Training examples come first, each part in the order of its file.

    Args:
        data_dir: a folder to look in first.

    Raises:
        Refusal: a file is missing, damaged, or not what its name says.
    """
    return idx_images("fashion_mnist", "fashion-mnist", data_dir, SOURCE)
