"""Synthetic characters of 28×28 pixels, for `scale.py` and `personalizers.py`."""

from __future__ import annotations

import numpy as np

from troth.data.datasets.made_digits import made_digits
from troth.types import Arrays


def characters(
    seed: int, *, clients: int = 10_000, per_client: int = 20, alphabets: int = 6
) -> Arrays:
    """The made digits three times as large; every owner writes one of the alphabets.

    Six have 62 classes, as FEMNIST has; otherwise there are ten an alphabet.
    """
    small = made_digits(seed, clients=clients, per_client=per_client)
    assert small.owner is not None
    x = np.zeros((len(small.x), 1, 28, 28), np.uint8)
    x[:, :, 2:26, 2:26] = small.x.repeat(3, axis=2).repeat(3, axis=3)
    y = small.y + 10 * (small.owner % alphabets)
    return small._replace(x=x, y=y, classes=62 if alphabets == 6 else 10 * alphabets)
