"""Operations of many clients that kernels compute in one pass over memory.

They are put into traces on a GPU (`engine.trace` and `engine.images`). Networks call
torch's own functions.
"""

from typing import Any

import torch
from torch import Tensor, library
from torch.nn.functional import max_pool2d

from troth.networks import kernels

_NOWHERE = 255  # place of a window without a gradient
_LIBRARY: Any = library.Library("troth", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIBRARY.define(
    "pool(Tensor x, Tensor? bias, bool relu, int p, int q) -> (Tensor, Tensor)"
)
_LIBRARY.define("minus(Tensor rows, Tensor w) -> Tensor")
_LIBRARY.define("unpool(Tensor g, Tensor places, int p, int q, int h, int w) -> Tensor")


def pool(
    x: Tensor, bias: Tensor | None, relu: bool, p: int, q: int
) -> tuple[Tensor, Tensor]:
    """Return the largest number of each p × q window, and its place in the window.

    Args:
        x: [m, c, h, w] images of all clients, the same number from each.
        bias: [n, c] number that is added to each client's channels, or `None`.
        relu: Whether negative numbers become 0.
        p: Height of a window, and distance between windows.
        q: Width of a window, and distance between windows.

    Returns:
        The pooled images [m, c, h', w'], channels-last, and the places [m, h', w', c]
        in uint8. If the ReLU gives 0, the place is 255.
    """
    if bias is not None:
        each = bias.repeat_interleave(len(x) // len(bias), dim=0)
        x = x + each[..., None, None]
    wide = x.shape[3]
    out, flat = max_pool2d(x, (p, q), return_indices=True)
    place = flat // wide % p * q + flat % wide % q
    if relu:
        place = torch.where(out <= 0, _NOWHERE, place)
        out = out.relu()
    out = out.contiguous(memory_format=torch.channels_last)
    return out, place.permute(0, 2, 3, 1).to(torch.uint8)


def unpool(g: Tensor, places: Tensor, p: int, q: int, h: int, w: int) -> Tensor:
    """Return the gradient of `pool` in x, [m, c, h, w] channels-last.

    Args:
        g: [m, c, h', w'] gradient in the pooled images.
        places: [m, h', w', c] places that `pool` returned.
        p: Height of a window.
        q: Width of a window.
        h: Height of the images.
        w: Width of the images.
    """
    m, c, high, wide = g.shape
    window = torch.arange(p * q, device=g.device).reshape(p, 1, q)
    place = places.permute(0, 3, 1, 2).long()[:, :, :, None, :, None]
    inside = torch.where(place == window, g[:, :, :, None, :, None], 0)
    out = g.new_zeros(m, h, w, c).permute(0, 3, 1, 2)
    shape = m, c, high * p, wide * q
    out[:, :, : shape[2], : shape[3]] = inside.reshape(shape)
    return out


def minus(rows: Tensor, w: Tensor) -> Tensor:
    """Subtract w [d] from each row of [n, d]."""
    return rows - w


def _minus_fast(rows: Tensor, w: Tensor) -> Tensor:
    if kernels.ready(rows):
        from troth.networks.kernels import rows as by_rows

        if by_rows.spans(rows, w):
            return by_rows.minus(rows, w)
    return minus(rows, w)


def _pool_fast(x: Tensor, bias: Tensor | None, relu: bool, p: int, q: int) -> Any:
    if kernels.ready(x):
        from troth.networks.kernels import pooling

        if pooling.fits(x, x.numel(), p, q):
            return pooling.pool(x, bias, relu, p, q)
    return pool(x, bias, relu, p, q)


def _unpool_fast(g: Tensor, places: Tensor, p: int, q: int, h: int, w: int) -> Tensor:
    if kernels.ready(g):
        from troth.networks.kernels import pooling

        if pooling.fits(g, len(g) * g.shape[1] * h * w, p, q):
            return pooling.unpool(g, places, p, q, h, w)
    return unpool(g, places, p, q, h, w)


for _name, _plain, _fast in (
    ("pool", pool, _pool_fast),
    ("unpool", unpool, _unpool_fast),
    ("minus", minus, _minus_fast),
):
    _LIBRARY.impl(_name, _plain, "CompositeExplicitAutograd")
    _LIBRARY.impl(_name, _fast, "CUDA")

POOL = torch.ops.troth.pool.default
UNPOOL = torch.ops.troth.unpool.default
MINUS = torch.ops.troth.minus.default
"""The operations as they occur in a trace."""
