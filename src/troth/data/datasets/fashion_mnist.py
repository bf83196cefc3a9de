"""Fashion-MNIST: articles of clothing in the format of MNIST.

References: xiao2017fashion.
"""

from troth.data.datasets._idx import idx_images, idx_source
from troth.types import Arrays

_LABELS = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
SOURCE = idx_source(
    "fashion_mnist",
    "fashion-mnist",
    "https://github.com/zalandoresearch/fashion-mnist",
    "MIT",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26421880, "f4a8712d7a061bf5bd6d2ca38dc4d50a"),
    ("25c81989df183df01b3e8a0aad5dffbe", 29515, "9018921c3c673c538a1fc5bad174d6f9"),
    ("bef4ecab320f06d8554ea6380940ec79", 4422102, "8181f5470baa50b63fa0f6fddb340f0a"),
    ("bb300cfdad3c16e7a12a480ee83cd310", 5148, "15d484375f8d13e6eb1aabb0c3f46965"),
)


def fashion_mnist(data_dir: str | None = None) -> Arrays:
    """Fashion-MNIST: 60,000 + 10,000 gray images of 28×28, 10 classes of clothing.

    The function reads the publisher's four gzipped IDX files from `fashion-mnist/` in
    `data_dir`, `$TROTH_DATA` or the cache, or from Debian's package
    `dataset-fashion-mnist`. If they are in none of these, it downloads them. Training
    examples come first, in the order of the files.

    Args:
        data_dir: Folder to search first for the files.
    """
    return idx_images(SOURCE, data_dir)[0]._replace(labels=_LABELS)
