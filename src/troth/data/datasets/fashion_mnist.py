"""Fashion-MNIST: articles of clothing in the layout of MNIST.

References: xiao2017fashion.
"""

from troth.data.datasets._files import Remote, Source
from troth.data.datasets._idx import FILES, idx_images
from troth.types import Arrays

_AT = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_LABELS = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
SOURCE = Source(
    name="fashion_mnist",
    folder="fashion-mnist",
    files=FILES,
    page="https://github.com/zalandoresearch/fashion-mnist",
    licence="MIT",
    remotes=(
        Remote(f"{_AT}/{FILES[0]}", "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26421880),
        Remote(f"{_AT}/{FILES[1]}", "md5:25c81989df183df01b3e8a0aad5dffbe", 29515),
        Remote(f"{_AT}/{FILES[2]}", "md5:bef4ecab320f06d8554ea6380940ec79", 4422102),
        Remote(f"{_AT}/{FILES[3]}", "md5:bb300cfdad3c16e7a12a480ee83cd310", 5148),
    ),
    digests={
        FILES[0]: "gunzip.md5:f4a8712d7a061bf5bd6d2ca38dc4d50a",
        FILES[1]: "gunzip.md5:9018921c3c673c538a1fc5bad174d6f9",
        FILES[2]: "gunzip.md5:8181f5470baa50b63fa0f6fddb340f0a",
        FILES[3]: "gunzip.md5:15d484375f8d13e6eb1aabb0c3f46965",
    },
)


def fashion_mnist(data_dir: str | None = None) -> Arrays:
    """Fashion-MNIST: 60,000 + 10,000 grey images of 28×28, 10 classes of clothing.

    Reads the publisher's four gzipped IDX files from `fashion-mnist/` under `data_dir`,
    `$TROTH_DATA` or the cache, or from Debian's `dataset-fashion-mnist`; else downloads
    them. Training examples come first, each part in the order of its file.

    Args:
        data_dir: a folder to look in first.

    Raises:
        Refusal: a file is missing, damaged, or not what its name says.
    """
    return idx_images(SOURCE, data_dir)[0]._replace(labels=_LABELS)
