"""Windows of pictures times weights, for many clients side by side.

Three operations that `vmap` lifts by putting clients one behind the other: a plain
product of matrices, a convolution of pictures that lie channels-last, and its gradient
in the weights. On CUDA they are kernels (`troth.networks.kernels`); elsewhere windows are laid
out and multiplied (im2col), which is what kernels are tested against. A fourth adds a
product to what is there, for traces.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, library
from torch.nn.functional import pad

from troth.networks import kernels


def laid_out(
    x: Tensor, kernel: Any, above: int, left: int
) -> tuple[Tensor, tuple[int, int, int]]:
    """Every window of [b, c, h, w] as a row: [b·h'·w', p·q·c], and (b, h', w')."""
    padded = pad(x.permute(0, 2, 3, 1), (0, 0, left, left, above, above))
    views = padded.unfold(1, kernel[0], 1).unfold(2, kernel[1], 1)  # b h w c p q
    b, h, w = views.shape[:3]
    return views.permute(0, 1, 2, 4, 5, 3).reshape(b * h * w, -1), (b, h, w)


def _multiply(a: Tensor, b: Tensor, exact: bool = False) -> Tensor:
    """[n, i, k] × [n, k, j]."""
    return torch.bmm(a, b)


_LIBRARY: Any = library.Library("troth", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define("product(Tensor a, Tensor b, bool exact=False) -> Tensor")
_LIBRARY.define("add_product(Tensor(a!) out, Tensor a, Tensor b, Tensor rate) -> ()")
_LIBRARY.define("convolve(Tensor x, Tensor w, int above, int left) -> Tensor")
_LIBRARY.define(
    "weigh(Tensor x, Tensor g, int p, int q, int above, int left) -> Tensor"
)


def _columns(x: Tensor, p: int, q: int, above: int, left: int) -> tuple[Tensor, Any]:
    """Windows of [n, b, h, w, c], laid out: [n, b·h'·w', p·q·c], and (b, h', w')."""
    n = x.shape[0]
    flat = x.flatten(0, 1).permute(0, 3, 1, 2)
    columns, (b, high, wide) = laid_out(flat, (p, q), above, left)
    b = b // n
    return columns.reshape(n, b * high * wide, -1), (b, high, wide)


def convolve_plainly(x: Tensor, w: Tensor, above: int, left: int) -> Tensor:
    """`kernels.windows.convolve`, by windows laid out: what it must agree with."""
    p, q, _, o = w.shape[1:]
    columns, shape = _columns(x, p, q, above, left)
    return _multiply(columns, w.flatten(1, 3)).reshape(len(x), *shape, o)


def weigh_plainly(
    x: Tensor, g: Tensor, p: int, q: int, above: int, left: int
) -> Tensor:
    """`kernels.windows.weigh`, by windows laid out."""
    columns, _ = _columns(x, p, q, above, left)
    by_window = _multiply(columns.mT, g.flatten(1, 3))
    return by_window.reshape(len(x), p, q, x.shape[4], g.shape[4])


def _add_product(out: Tensor, a: Tensor, b: Tensor, rate: Tensor) -> None:
    out.addcmul_(_multiply(a, b), rate.reshape(-1, 1, 1))


def _takes(a: Tensor, b: Tensor) -> bool:
    """Whether there is a kernel for such a product."""
    if not kernels.ready(a):
        return False
    from troth.networks.kernels import products

    return products.fits(a, b)


def _multiply_fast(a: Tensor, b: Tensor, exact: bool = False) -> Tensor:
    if not _takes(a, b):
        return _multiply(a, b)
    from troth.networks.kernels import products

    return products.multiply(a, b, exact)


def _add_product_fast(out: Tensor, a: Tensor, b: Tensor, rate: Tensor) -> None:
    if not _takes(a, b):
        return _add_product(out, a, b, rate)
    from troth.networks.kernels import products

    return products.add_product(out, a, b, rate)


def _convolve_fast(x: Tensor, w: Tensor, above: int, left: int) -> Tensor:
    from troth.networks.kernels import windows

    return windows.convolve(x, w, above, left)


def _weigh_fast(x: Tensor, g: Tensor, p: int, q: int, above: int, left: int) -> Tensor:
    from troth.networks.kernels import windows

    return windows.weigh(x, g, p, q, above, left)


_operations: Any = (
    ("product", _multiply, _multiply_fast),
    ("add_product", _add_product, _add_product_fast),
    ("convolve", convolve_plainly, _convolve_fast),
    ("weigh", weigh_plainly, _weigh_fast),
)
for _name, _plain, _fast in _operations:
    _LIBRARY.impl(_name, _plain, "CompositeExplicitAutograd")
    _LIBRARY.impl(_name, _fast, "CUDA")


PRODUCT = torch.ops.troth.product.default
ADD_PRODUCT = torch.ops.troth.add_product.default
"""As they stand in a trace."""


def _rows_of_one(a: Tensor, dim: int | None, n: int) -> Tensor:
    return a.expand(n, *a.shape) if dim is None else a.movedim(dim, 0)


def _over_clients(name: str) -> Any:
    """An operation of two tensors, over clients: theirs side by side in one."""

    def lifted(
        info: Any, dims: Any, a: Tensor, b: Tensor, *rest: int
    ) -> tuple[Tensor, int]:
        n = info.batch_size
        a, b = _rows_of_one(a, dims[0], n), _rows_of_one(b, dims[1], n)
        operation = getattr(torch.ops.troth, name)
        out = operation(a.flatten(0, 1), b.flatten(0, 1), *rest)
        return out.unflatten(0, (n, -1)), 0

    return lifted


for _name in ("product", "convolve", "weigh"):
    library.register_vmap(f"troth::{_name}", _over_clients(_name), lib=_LIBRARY)


def product(a: Tensor, b: Tensor) -> Tensor:
    """[i, k] × [k, j] of one client."""
    out: Tensor = torch.ops.troth.product(a[None], b[None])
    return out[0]


def convolve(x: Tensor, w: Tensor, above: int, left: int) -> Tensor:
    """[b, h, w, c] with weights [p, q, c, o] → [b, h', w', o], of one client."""
    out: Tensor = torch.ops.troth.convolve(x[None], w[None], above, left)
    return out[0]


def weigh(x: Tensor, g: Tensor, p: int, q: int, above: int, left: int) -> Tensor:
    """The gradient of `convolve` in the weights, [p, q, c, o], of one client."""
    out: Tensor = torch.ops.troth.weigh(x[None], g[None], p, q, above, left)
    return out[0]
