"""Convolutions of many clients at once, as one batched matrix product.

vmap turns the convolutions of many clients into one convolution with a group per
client, and cuDNN computes the groups one after another. Here, the windows of all
clients are copied to matrices, which are multiplied by the weights in one batched
product (im2col). The gradients of weights and inputs are computed in the same way. So
an H200 can train the CNNs of a hundred clients at once. If there are kernels
(`troth.networks.kernels`) and enough channels, windows are not copied.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, library
from torch.nn.functional import fold, pad

from troth.compat import is_lifted, is_wrapped, layers_of
from troth.networks import kernels
from troth.networks.batchnorm import Replacing


class _How(NamedTuple):
    """Arguments of a convolution of [b, c, h, w]; padding is the same at both ends."""

    padding: tuple[int, int] = (0, 0)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    @property
    def plain(self) -> bool:
        """Whether stride, dilation and groups are all 1."""
        return self == _How(self.padding)


def laid_out(x: Tensor, kernel: Any, how: _How) -> tuple[Tensor, tuple[int, int, int]]:
    """Copy every window of [b, channels, h, w] to a row of [groups, b·h'·w', p·q·c].

    c is the number of channels of a group, p×q the kernel, and h'×w' the size of the
    result. Return the rows, and (b, h', w').
    """
    (above, left), stride, dilation, groups = how
    views = pad(x.permute(0, 2, 3, 1), (0, 0, left, left, above, above))
    for axis, (size, step, gap) in enumerate(
        zip(kernel, stride, dilation, strict=True)
    ):
        views = views.unfold(axis + 1, gap * (size - 1) + 1, step)[..., ::gap]
    b, h, w = views.shape[:3]  # b h w c p q
    views = views.reshape(b, h, w, groups, -1, *kernel).permute(3, 0, 1, 2, 5, 6, 4)
    return views.reshape(groups, b * h * w, -1), (b, h, w)


def _multiply(a: Tensor, b: Tensor, exact: bool = False) -> Tensor:
    """Multiply [n, i, k] × [n, k, j]; b is rounded to the dtype of a."""
    return torch.bmm(a, b.to(a.dtype))


_LIBRARY: Any = library.Library("troth", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define("product(Tensor a, Tensor b, bool exact=False) -> Tensor")
_LIBRARY.define(
    "add_product(Tensor(a!) out, Tensor a, Tensor b, Tensor rate, Tensor? base=None)"
    " -> ()"
)
_LIBRARY.define("convolve(Tensor x, Tensor w, int above, int left) -> Tensor")
_LIBRARY.define(
    "weigh(Tensor x, Tensor g, int p, int q, int above, int left) -> Tensor"
)


def _columns(x: Tensor, p: int, q: int, above: int, left: int) -> tuple[Tensor, Any]:
    """Copy the windows of n clients, [n, b, h, w, c], to rows [n, b·h'·w', p·q·c].

    Return the rows, and (b, h', w').
    """
    n = x.shape[0]
    flat = x.flatten(0, 1).permute(0, 3, 1, 2)
    columns, (b, high, wide) = laid_out(flat, (p, q), _How((above, left)))
    b = b // n
    return columns.reshape(n, b * high * wide, -1), (b, high, wide)


def convolve_plainly(x: Tensor, w: Tensor, above: int, left: int) -> Tensor:
    """Compute `kernels.windows.convolve` from copied windows, as its specification."""
    p, q, _, o = w.shape[1:]
    columns, shape = _columns(x, p, q, above, left)
    return _multiply(columns, w.flatten(1, 3)).reshape(len(x), *shape, o)


def weigh_plainly(
    x: Tensor, g: Tensor, p: int, q: int, above: int, left: int
) -> Tensor:
    """Compute `kernels.windows.weigh` from copied windows, as its specification."""
    columns, _ = _columns(x, p, q, above, left)
    by_window = _multiply(columns.mT, g.flatten(1, 3))
    return by_window.reshape(len(x), p, q, x.shape[4], g.shape[4])


def _add_product(
    out: Tensor, a: Tensor, b: Tensor, rate: Tensor, base: Tensor | None = None
) -> None:
    product = _multiply(a, b).to(out.dtype)
    before = out if base is None else base
    torch.addcmul(before, product, rate.reshape(-1, 1, 1), out=out)


def _products(a: Tensor, b: Tensor) -> Any:
    """Return the module with a kernel for this product, or None if there is none."""
    if not kernels.ready(a):
        return None
    from troth.networks.kernels import products

    return products if products.fits(a, b) else None


def _multiply_fast(a: Tensor, b: Tensor, exact: bool = False) -> Tensor:
    fast = _products(a, b)
    found: Tensor = fast.multiply(a, b, exact) if fast else _multiply(a, b)
    return found


def _add_product_fast(
    out: Tensor, a: Tensor, b: Tensor, rate: Tensor, base: Tensor | None = None
) -> None:
    fast = _products(a, b)
    (fast.add_product if fast else _add_product)(out, a, b, rate, base)


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
"""These operations as a trace contains them."""


def _over_clients(name: str) -> Any:
    """Return the vmap rule of an operation of two tensors.

    It concatenates the tensors of all clients along the first axis.
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


class Together(Replacing):
    """Compute convolutions in one and two dimensions as matrix products."""

    def convolved(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor | None:
        """Multiply windows by weights, if the weights differ between clients.

        torch computes depthwise convolutions: those of all clients together are a
        single depthwise convolution, for which torch has a kernel.
        """
        depthwise = groups > 1 and weight.shape[1] == 1
        if x.dim() != 4 or depthwise or _same_for_all(x, weight):
            return None
        x, how = _parsed(x, weight, stride, padding, dilation, groups)
        if how.plain and kernels.ready(x) and _many_channels(x, weight):
            direct: Any = _Direct.apply
            return _shifted(direct(x, weight, *how.padding), bias)
        convolve: Any = _Convolve.apply
        return _shifted(convolve(x, weight, how)[0], bias)

    def convolved_1d(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor | None:
        """Replace `conv1d` like `conv2d`, with images of height 1."""
        if x.dim() != 3:
            return None
        step, gap = (1, _pair(stride)[1]), (1, _pair(dilation)[1])
        around = padding if isinstance(padding, str) else (0, _pair(padding)[1])
        flat = x.unsqueeze(2), weight.unsqueeze(2), bias
        out = self.convolved(*flat, step, around, gap, groups)
        return None if out is None else out.squeeze(2)


class Apart(Replacing):
    """Convolutions of one client, or of a model whose weights need no gradient.

    On CUDA, images of a single client are in the memory format channels_last, in which
    cuDNN computes; it would convert every other format in each call. On a CPU, the
    gradient in images with one channel is computed by a convolution, because torch's
    function takes five times as long as the forward pass.
    """

    def convolved(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor | None:
        """Replace `conv2d` by one with another memory format or another gradient."""
        given = stride, padding, dilation, groups
        if x.is_cuda:
            several = is_lifted(x) or is_lifted(weight)
            return None if several else _ordered(x, weight, bias, *given)
        if x.dim() != 4 or x.shape[1] != 1 or not _same_for_all(x, weight):
            return None
        x, how = _parsed(x, weight, *given)
        inside = zip(how.padding, weight.shape[2:], strict=True)
        if not how.plain or any(p >= k for p, k in inside):
            return None
        convolve: Any = _Turned.apply
        return _shifted(convolve(x, weight, *how.padding), bias)


def _many_channels(x: Tensor, w: Tensor) -> bool:
    """Return whether the kernels suit: enough channels, and indices within 32 bits."""
    pixels = x.shape[0] * x.shape[2] * x.shape[3]
    full = min(w.shape[:2]) >= 16 and x.dtype == w.dtype
    return full and x.dtype in kernels.NARROW and pixels * max(w.shape[:2]) < _MOST


_MOST = 2**30  # below the limit of 32 bits, because padding makes results larger


def _shifted(out: Tensor, bias: Tensor | None) -> Tensor:
    return out if bias is None else out + bias.reshape(-1, 1, 1)


def _ordered(x: Tensor, w: Tensor, *how: Any) -> Tensor | None:
    """Convolve images in the memory format channels_last; None without images."""
    if x.dim() != 4:
        return None
    order = torch.channels_last
    return torch.conv2d(
        x.contiguous(memory_format=order), w.contiguous(memory_format=order), *how
    )


class _Turned(torch.autograd.Function):
    """Convolution of x [b, c, h, w] with weights [o, c, p, q]; gradient only in x.

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
    """Return whether many clients' inputs have the same weights, without gradients.

    This is a single convolution of all inputs, for which cuDNN is fastest.
    """
    still = not is_lifted(w) and not any(one.requires_grad for one in layers_of(w))
    return still and is_wrapped(x)


def _parsed(
    x: Tensor, w: Tensor, stride: Any, padding: Any, dilation: Any, groups: int
) -> tuple[Tensor, _How]:
    """Return x and the arguments of its convolution as numbers.

    If padding "same" needs different numbers of zeros at both ends, x is padded.
    """
    step, gap = _pair(stride), _pair(dilation)
    if not isinstance(padding, str):
        return x, _How(_pair(padding), step, gap, groups)
    if padding == "valid":
        return x, _How((0, 0), step, gap, groups)
    high, wide = (d * (k - 1) for d, k in zip(gap, w.shape[2:], strict=True))
    if high % 2 or wide % 2:  # like torch, pad more at the end
        x = pad(x, (0, wide % 2, 0, high % 2))
    return x, _How((high // 2, wide // 2), step, gap, groups)


def _pair(value: Any) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    return (value[0], value[-1])


class _Once(torch.autograd.Function):
    """The identity; its backward pass raises an error."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Store nothing."""

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        """Raise RuntimeError, because second derivatives would be wrong."""
        raise RuntimeError("lifted convolutions have no second derivatives")


class _Convolve(torch.autograd.Function):
    """Convolution of x [b, c, h, w] with weights [o, c, p, q]; also returns windows."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, w: Tensor, how: _How) -> tuple[Tensor, Tensor]:
        columns, shape = laid_out(x, w.shape[2:], how)
        flat = _grouped(w, how).permute(0, 3, 4, 2, 1)
        out = _products_of(columns, flat.reshape(how.groups, -1, flat.shape[4]))
        return _as_images(out, shape), columns

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, w, how = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(w, output[1])
        ctx.how, ctx.size = how, x.shape[2:]

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: Tensor) -> tuple[Any, ...]:
        w, columns = ctx.saved_tensors
        how: _How = ctx.how
        flat = g.permute(0, 2, 3, 1).reshape(-1, how.groups, w.shape[0] // how.groups)
        flat = flat.transpose(0, 1)
        by_window = _products_of(flat.transpose(1, 2), columns)
        once: Any = _Once.apply
        shaped = by_window.reshape(w.shape[0], *w.shape[2:], w.shape[1])
        for_w = once(shaped.permute(0, 3, 1, 2))
        if not ctx.needs_input_grad[0]:
            return None, for_w, None
        spread = _turned if how.stride == (1, 1) else _folded
        return once(spread(g, w, flat, how, ctx.size)), for_w, None


def _grouped(w: Tensor, how: _How) -> Tensor:
    """View weights [groups·o, c, p, q] as [groups, o, c, p, q]."""
    return w.reshape(how.groups, -1, *w.shape[1:])


def _products_of(a: Tensor, b: Tensor) -> Tensor:
    """Multiply [groups, i, k] × [groups, k, j] of one client."""
    if len(a) == 1:
        return product(a[0], b[0])[None]
    out: Tensor = torch.ops.troth.product(a, b)
    return out


def _as_images(rows: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """View [groups, b·h·w, c] as [b, groups·c, h, w]."""
    return rows.transpose(0, 1).reshape(*shape, -1).permute(0, 3, 1, 2)


def _turned(g: Tensor, w: Tensor, flat: Tensor, how: _How, size: Any) -> Tensor:
    """Return the gradient in x as a convolution of g with the flipped weights."""
    p, q = w.shape[2:]
    (above, left), (gap_p, gap_q) = how.padding, how.dilation
    rest = gap_p * (p - 1) - above, gap_q * (q - 1) - left
    turned, shape = laid_out(g, (p, q), how._replace(padding=rest))
    back = _grouped(w.flip(2, 3), how).permute(0, 3, 4, 1, 2)
    rows = _products_of(turned, back.reshape(how.groups, -1, w.shape[1]))
    return _as_images(rows, shape)


def _folded(g: Tensor, w: Tensor, flat: Tensor, how: _How, size: Any) -> Tensor:
    """Return the gradient in x as the sum of the gradients of overlapping windows."""
    back = _grouped(w, how).flatten(2)  # [groups, o, c·p·q]
    rows = _products_of(flat, back)
    images = rows.transpose(0, 1).reshape(len(g), g.shape[2:].numel(), -1)
    form = size, tuple(w.shape[2:]), how.dilation, how.padding, how.stride
    return fold(images.transpose(1, 2), *form)


class _Direct(torch.autograd.Function):
    """The same convolution by kernels, which do not copy windows."""

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
