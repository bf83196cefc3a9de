"""Random crops of a padded image.

References: he2016deep.
"""

from typing import Literal

import torch
from torch import Tensor

from troth import seeding
from troth.data.augments._images import expect_images
from troth.types import Refusal


def crop(
    x: Tensor,
    key: Tensor,
    *,
    padding: int = 4,
    fill: Literal["zero", "edge", "mirror"] = "zero",
) -> Tensor:
    """Cut a window of the image's size out of the image padded on all sides.

    The position of the window is uniform over the (2·padding + 1)² possible ones. He et
    al. (2016, Section 4.2) pad by 4 pixels for CIFAR-10.

    Args:
        x: [b, c, h, w] images.
        key: [b] random keys, one per example.
        padding: Pixels of padding on each side; 0 leaves images unchanged.
        fill: Values outside the image: 0, the nearest pixel, or the mirrored image.
    """
    expect_images("crop", x)
    b, _, h, w = x.shape
    if not 0 <= padding < (min(h, w) if fill == "mirror" else 2**15):
        raise Refusal(
            f"crop's padding = {padding} must be at least 0, and with fill = 'mirror' "
            f"smaller than the image, here {h}×{w}"
        )
    span = torch.tensor(2 * padding + 1)
    shift = seeding.below(seeding.bits(key, 2), span) - padding  # [b, 2]
    rows = shift[:, :1] + torch.arange(h, device=x.device)  # [b, h]
    columns = shift[:, 1:] + torch.arange(w, device=x.device)
    rows, columns = rows[:, None, :, None], columns[:, None, None, :]
    down, along = _within(rows, h, fill), _within(columns, w, fill)
    out = torch.take_along_dim(torch.take_along_dim(x, down, dim=2), along, dim=3)
    inside = (rows == down) & (columns == along)
    return out * inside.to(x.dtype) if fill == "zero" else out


def _within(index: Tensor, size: int, fill: str) -> Tensor:
    """Return, for each index, the index of the pixel whose value is used.

    Inside the image, it is the same index.
    """
    if fill == "mirror" and size > 1:
        index = index.abs()
        return torch.where(index >= size, 2 * (size - 1) - index, index)
    return index.clamp(0, size - 1)
