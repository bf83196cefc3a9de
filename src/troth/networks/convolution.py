"""Convolutions of many clients at once, as one batched matrix product.

Lifted over clients by vmap, a convolution becomes one with a group per client, and
cuDNN runs the groups one after another. Here, the windows of all clients are laid out
as matrices and multiplied together (im2col): in the forward pass, and in the gradients
of weights and inputs. On an H200, a hundred clients with a CNN each then step together.
If there are kernels (`troth.networks.kernels`) and enough channels, windows are read in
place instead.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, library
from torch.nn.functional import pad
from torch.overrides import TorchFunctionMode

from troth.networks import kernels


def laid_out(
    x: Tensor, kernel: Any, above: int, left: int
) -> tuple[Tensor, tuple[int, int, int]]:
    """Lay out every window of [b, c, h, w]: [b·h'·w', p·q·c], and (b, h', w')."""
    padded = pad(x.permute(0, 2, 3, 1), (0, 0, left, left, above, above))
    views = padded.unfold(1, kernel[0], 1).unfold(2, kernel[1], 1)  # b h w c p q
    b, h, w = views.shape[:3]
    return views.permute(0, 1, 2, 4, 5, 3).reshape(b * h * w, -1), (b, h, w)


def _multiply(a: Tensor, b: Tensor, exact: bool = False) -> Tensor:
    """Multiply [n, i, k] × [n, k, j]."""
    return torch.bmm(a, b)


_LIBRARY: Any = library.Library("troth", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define("product(Tensor a, Tensor b, bool exact=False) -> Tensor")
_LIBRARY.define("add_product(Tensor(a!) out, Tensor a, Tensor b, Tensor rate) -> ()")
_LIBRARY.define("convolve(Tensor x, Tensor w, int above, int left) -> Tensor")
_LIBRARY.define(
    "weigh(Tensor x, Tensor g, int p, int q, int above, int left) -> Tensor"
)


def _columns(x: Tensor, p: int, q: int, above: int, left: int) -> tuple[Tensor, Any]:
    """Lay out the windows of [n, b, h, w, c]: [n, b·h'·w', p·q·c], and (b, h', w')."""
    n = x.shape[0]
    flat = x.flatten(0, 1).permute(0, 3, 1, 2)
    columns, (b, high, wide) = laid_out(flat, (p, q), above, left)
    b = b // n
    return columns.reshape(n, b * high * wide, -1), (b, high, wide)


def convolve_plainly(x: Tensor, w: Tensor, above: int, left: int) -> Tensor:
    """Specify `kernels.windows.convolve`: compute it from laid-out windows."""
    p, q, _, o = w.shape[1:]
    columns, shape = _columns(x, p, q, above, left)
    return _multiply(columns, w.flatten(1, 3)).reshape(len(x), *shape, o)


def weigh_plainly(
    x: Tensor, g: Tensor, p: int, q: int, above: int, left: int
) -> Tensor:
    """Specify `kernels.windows.weigh`: compute it from laid-out windows."""
    columns, _ = _columns(x, p, q, above, left)
    by_window = _multiply(columns.mT, g.flatten(1, 3))
    return by_window.reshape(len(x), p, q, x.shape[4], g.shape[4])


def _add_product(out: Tensor, a: Tensor, b: Tensor, rate: Tensor) -> None:
    out.addcmul_(_multiply(a, b), rate.reshape(-1, 1, 1))


def _products(a: Tensor, b: Tensor) -> Any:
    """Return the module of kernels for this product, or None if there is none."""
    if not kernels.ready(a):
        return None
    from troth.networks.kernels import products

    return products if products.fits(a, b) else None


def _multiply_fast(a: Tensor, b: Tensor, exact: bool = False) -> Tensor:
    fast = _products(a, b)
    found: Tensor = fast.multiply(a, b, exact) if fast else _multiply(a, b)
    return found


def _add_product_fast(out: Tensor, a: Tensor, b: Tensor, rate: Tensor) -> None:
    fast = _products(a, b)
    (fast.add_product if fast else _add_product)(out, a, b, rate)


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
"""The operations as they occur in a trace."""


def _over_clients(name: str) -> Any:
    """Return the vmap rule of an operation of two tensors.

    The tensors of all clients are joined along the first axis into one.
    """

    def lifted(info: Any, dims: Any, *given: Any) -> tuple[Tensor, int]:
        n, (a, b, *rest) = info.batch_size, given
        a, b = (
            t.expand(n, *t.shape) if dim is None else t.movedim(dim, 0)
            for t, dim in zip((a, b), dims, strict=False)
        )
        operation = getattr(torch.ops.troth, name)
        out = operation(a.flatten(0, 1), b.flatten(0, 1), *rest)
        return out.unflatten(0, (n, -1)), 0

    return lifted


for _name in ("product", "convolve", "weigh"):
    library.register_vmap(f"troth::{_name}", _over_clients(_name), lib=_LIBRARY)


def product(a: Tensor, b: Tensor) -> Tensor:
    """Multiply [i, k] × [k, j] of one client."""
    out: Tensor = torch.ops.troth.product(a[None], b[None])
    return out[0]


def convolve(x: Tensor, w: Tensor, above: int, left: int) -> Tensor:
    """Convolve one client's [b, h, w, c] with [p, q, c, o] → [b, h', w', o]."""
    out: Tensor = torch.ops.troth.convolve(x[None], w[None], above, left)
    return out[0]


def weigh(x: Tensor, g: Tensor, p: int, q: int, above: int, left: int) -> Tensor:
    """Return one client's gradient of `convolve` in the weights, [p, q, c, o]."""
    out: Tensor = torch.ops.troth.weigh(x[None], g[None], p, q, above, left)
    return out[0]


_inside = torch._C._functorch


class _Convolving(TorchFunctionMode):
    """Replace 2-d convolutions within the block where another way is faster."""

    convolved: Any  # conv2d's arguments → its result; None: torch is to compute it

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Replace calls of `conv2d` that have a faster way; leave all else alone."""
        kwargs = kwargs or {}
        out = self.convolved(*args) if func is torch.conv2d and not kwargs else None
        return func(*args, **kwargs) if out is None else out


class Together(_Convolving):
    """Compute plain 2-d convolutions (stride 1, one group) as matrix products."""

    def convolved(
        self, x: Tensor, w: Tensor, bias: Tensor | None = None, *how: Any
    ) -> Tensor | None:
        """Multiply windows by weights, if clients have their own weights."""
        padding = _padding(x, *how)
        if padding is None or _same_for_all(x, w):
            return None
        if kernels.ready(x) and _many_channels(x, w):
            direct: Any = _Direct.apply
            return _shifted(direct(x, w, *padding), bias)
        convolve: Any = _Convolve.apply
        return _shifted(convolve(x, w, *padding)[0], bias)


class Apart(_Convolving):
    """Convolutions of one client, or of a model without gradients in its weights.

    On CUDA, images of a single client go channels-last, the memory order in which cuDNN
    computes; it converts any other order on every input and result. On a CPU, the
    gradient in images with one channel is computed by a plain convolution, because
    torch's own takes five times as long as the forward pass.
    """

    def convolved(
        self, x: Tensor, w: Tensor, bias: Tensor | None = None, *how: Any
    ) -> Tensor | None:
        """Convolve in another memory order, or with another gradient."""
        if x.is_cuda:
            return None if lifted(x) or lifted(w) else _ordered(x, w, bias, *how)
        padding = _padding(x, *how)
        if padding is None or x.shape[1] != 1 or not _same_for_all(x, w):
            return None
        if any(p >= k for p, k in zip(padding, w.shape[2:], strict=True)):
            return None
        convolve: Any = _Turned.apply
        return _shifted(convolve(x, w, *padding), bias)


def _many_channels(x: Tensor, w: Tensor) -> bool:
    """Return whether channels fill the kernels' tiles and 32 bits can index."""
    pixels = x.shape[0] * x.shape[2] * x.shape[3]
    full = min(w.shape[:2]) >= 16 and x.dtype == w.dtype
    return full and x.dtype in kernels.NARROW and pixels * max(w.shape[:2]) < _MOST


_MOST = 2**30  # half of what 32 bits index, because padding makes results larger


def _shifted(out: Tensor, bias: Tensor | None) -> Tensor:
    return out if bias is None else out + bias.reshape(-1, 1, 1)


def _ordered(x: Tensor, w: Tensor, *how: Any) -> Tensor | None:
    """Convolve batches of images channels-last."""
    if x.dim() != 4:
        return None
    order = torch.channels_last
    return torch.conv2d(
        x.contiguous(memory_format=order), w.contiguous(memory_format=order), *how
    )


def lifted(x: Tensor) -> bool:
    """Return whether vmap lifts a tensor over clients, at any level of nesting."""
    return any(_inside.is_batchedtensor(one) for one in _wrapped(x))


def _wrapped(x: Tensor) -> Iterator[Tensor]:
    """Yield a tensor and all tensors that it wraps."""
    yield x
    while _inside.is_functorch_wrapped_tensor(x):
        x = _inside.get_unwrapped(x)
        yield x


class _Turned(torch.autograd.Function):
    """x [b, c, h, w], weight [o, c, p, q] → [b, o, h', w'], with a gradient in x alone.

    The backward pass is a convolution of the incoming gradient with the flipped
    weights.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, w: Tensor, above: int, left: int) -> Tensor:
        return torch.conv2d(x, w, None, (1, 1), (above, left))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[1])
        ctx.padding = inputs[2:]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        (w,) = ctx.saved_tensors
        above, left = ctx.padding
        rest = w.shape[2] - 1 - above, w.shape[3] - 1 - left
        turned = w.flip(2, 3).transpose(0, 1)
        return torch.conv2d(g, turned, None, (1, 1), rest), None, None, None


def _same_for_all(x: Tensor, w: Tensor) -> bool:
    """Return whether many clients' inputs go through one model without gradients in it.

    This is a single plain convolution of all inputs, for which cuDNN is fastest.
    """
    still = not lifted(w) and not any(one.requires_grad for one in _wrapped(w))
    return still and _inside.is_functorch_wrapped_tensor(x)


def _padding(
    x: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> tuple[int, int] | None:
    """Return the padding of a call with stride, dilation and groups 1, else None."""
    steps = (*_pair(stride), *_pair(dilation), groups)
    if x.dim() != 4 or isinstance(padding, str) or any(s != 1 for s in steps):
        return None
    return _pair(padding)


def _pair(value: Any) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    return (value[0], value[-1])


class _Once(torch.autograd.Function):
    """The identity, whose output cannot be differentiated a second time."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Store nothing."""

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        """Refuse to be differentiated, as second derivatives would be wrong."""
        raise RuntimeError("lifted convolutions have no second derivatives")


class _Convolve(torch.autograd.Function):
    """x [b, c, h, w], weight [o, c, p, q] → [b, o, h', w'] and the windows of x."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, w: Tensor, above: int, left: int) -> tuple[Tensor, Tensor]:
        columns, shape = laid_out(x, w.shape[2:], above, left)
        flat = w.permute(2, 3, 1, 0).reshape(-1, w.shape[0])
        out = product(columns, flat).reshape(*shape, -1).permute(0, 3, 1, 2)
        return out, columns

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, w, above, left = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(w, output[1])
        ctx.padding = above, left

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: Tensor) -> tuple[Any, ...]:
        w, columns = ctx.saved_tensors
        o, c, p, q = w.shape
        flat = g.permute(0, 2, 3, 1).reshape(-1, o)
        by_window = product(flat.transpose(0, 1), columns)
        once: Any = _Once.apply
        for_w = once(by_window.reshape(o, p, q, c).permute(0, 3, 1, 2))
        if not ctx.needs_input_grad[0]:
            return None, for_w, None, None
        above, left = ctx.padding  # convolve g with the flipped weights
        turned, shape = laid_out(g, (p, q), p - 1 - above, q - 1 - left)
        back = w.flip(2, 3).permute(2, 3, 0, 1).reshape(-1, c)
        for_x = once(product(turned, back).reshape(*shape, c).permute(0, 3, 1, 2))
        return for_x, for_w, None, None


class _Direct(torch.autograd.Function):
    """The same convolution by kernels, which neither lay out nor store windows."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, w: Tensor, above: int, left: int) -> Tensor:
        by_tap = w.permute(2, 3, 1, 0)
        return convolve(x.permute(0, 2, 3, 1), by_tap, above, left).permute(0, 3, 1, 2)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.padding = inputs[2:]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        x, w = ctx.saved_tensors
        p, q = w.shape[2:]
        above, left = ctx.padding
        seen, slope = x.permute(0, 2, 3, 1), g.permute(0, 2, 3, 1)
        by_tap = weigh(seen, slope, p, q, above, left)
        once: Any = _Once.apply
        for_w = once(by_tap.permute(3, 2, 0, 1))
        if not ctx.needs_input_grad[0]:
            return None, for_w, None, None
        back = w.flip(2, 3).permute(2, 3, 0, 1)  # the flipped weights
        for_x = convolve(slope, back, p - 1 - above, q - 1 - left)
        return once(for_x.permute(0, 3, 1, 2)), for_w, None, None
