"""Batch normalization and dropout that vmap can vectorize over clients.

torch's batch normalization overwrites its running statistics in every call, and its
dropout draws from a global random generator. Neither works for many clients at once.
Here, the mask of padding and the random key are set before the network is called, and
new statistics are stored separately. `Replacing` replaces the dropout functions that a
network calls, for example in attention.

References: ioffe2015batch, srivastava2014dropout.
"""

import math
import types
from collections.abc import Callable
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from troth import seeding
from troth.compat import BatchNormBase, DropoutBase, is_lifted

_NORMS: dict[type, tuple[int, ...]] = {  # layer → possible numbers of axes of its input
    nn.BatchNorm1d: (2, 3),
    nn.BatchNorm2d: (4,),
    nn.BatchNorm3d: (5,),
}
_DROPS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
_FUNCTIONS = 1 << 20  # index of dropout functions; indices of layers are smaller


class BatchNorm(BatchNormBase):
    """Batch normalization that leaves padding out.

    In training, it normalizes by the statistics of the batch's examples without
    padding, and stores the new running statistics in `moved`. In prediction, or with
    `frozen_statistics`, it normalizes by the running statistics (Algorithms 1 and 2 of
    Ioffe and Szegedy 2015). Its tensors and their names are those of the layer that it
    replaces.
    """

    def __init__(self, old: BatchNormBase) -> None:
        nn.Module.__init__(self)
        self.axes = _NORMS[type(old)]
        self.num_features, self.eps = old.num_features, old.eps
        self.momentum, self.affine = old.momentum, old.affine
        self.track_running_stats, self.training = True, old.training
        self.frozen_statistics = getattr(old, "frozen_statistics", False)
        for name in ("weight", "bias"):
            self.register_parameter(name, getattr(old, name))
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            self.register_buffer(name, getattr(old, name))
        self.present: Tensor | None = None  # [b] weights of examples; 0 means padding
        self.moved: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Normalize [b, c, ...] over all axes except c."""
        assert self.running_mean is not None and self.running_var is not None
        if x.dim() not in self.axes:
            raise ValueError(f"batch normalization of {self.axes} axes got {x.dim()}")
        mean, var = self.running_mean, self.running_var
        if not self.training or self.frozen_statistics:
            return self._plainly(x, mean, var)
        mean, var = self.moved or (mean.detach(), var.detach())
        present, alone = self.present, x.numel() == x.shape[1]
        if present is not None or alone:  # torch raises an error for a single value
            there = torch.ones(1, device=x.device) if present is None else present
            return self._some(x, there > 0, mean, var)
        self.moved = mean, var = mean.clone(), var.clone()
        wide, rate = x, self.momentum or 0.0
        if is_lifted(x) or not x.is_cuda:
            # Under vmap, its gradient needs equal dtypes, and on CUDA equal formats.
            wide = x.to(mean.dtype).contiguous()
        out = F.batch_norm(
            wide, mean, var, self.weight, self.bias, True, rate, self.eps
        )
        return out.to(x.dtype)

    def _plainly(self, x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        """Normalize by given statistics (vmap does not support torch's on CUDA)."""
        scale = torch.rsqrt(var + self.eps)
        scale = scale if self.weight is None else scale * self.weight
        shift = -mean * scale + (0.0 if self.bias is None else self.bias)
        column = [1, -1, *[1] * (x.dim() - 2)]
        out = x.to(mean.dtype) * scale.reshape(column) + shift.reshape(column)
        return out.to(x.dtype)

    def _some(self, x: Tensor, present: Tensor, old: Tensor, old_var: Tensor) -> Tensor:
        """Normalize by the examples that are not padding.

        Without any such example, the running statistics are not changed. A single value
        has no variance, so it does not change the running variance (torch raises an
        error).
        """
        axes = [0, *range(2, x.dim())]
        column = [1, -1, *[1] * (x.dim() - 2)]
        wide = x.to(old.dtype)
        there = present.to(wide.dtype).reshape(-1, *[1] * (x.dim() - 1))
        each = x[0, 0].numel()
        count = (present.sum() * each).clamp(min=1).to(wide.dtype)
        mean = (wide * there).sum(axes) / count
        centered = wide - mean.reshape(column)
        var = (centered.square() * there).sum(axes) / count
        rate = (self.momentum or 0.0) * present.any().to(wide.dtype)
        unbiased = var.detach() * count / (count - 1).clamp(min=1)
        self.moved = (
            old + rate * (mean.detach() - old),
            old_var + rate * (count > 1).to(wide.dtype) * (unbiased - old_var),
        )
        out = centered * torch.rsqrt(var + self.eps).reshape(column)
        if self.weight is not None:
            out = out * self.weight.reshape(column)
        if self.bias is not None:
            out = out + self.bias.reshape(column)
        return out.to(x.dtype)


def dropped(x: Tensor, p: float, key: Tensor, whole: int = 1) -> Tensor:
    """Set each number to 0 with probability p, and divide the others by 1 − p.

    `whole` consecutive numbers are dropped together.
    """
    shape = list(x.shape) if whole == 1 else [*x.shape[:2], *[1] * (x.dim() - 2)]
    u = seeding.uniform(key, x.numel() // whole).reshape(shape)
    kept = (u >= p).to(x.dtype)
    return x * kept * (1 / (1 - p) if p < 1 else 0.0)


class Dropout(nn.Module):
    """Dropout whose random numbers depend on the client's key.

    As a replacement of Dropout1d, Dropout2d or Dropout3d, it drops whole channels.
    """

    def __init__(self, old: DropoutBase, index: int) -> None:
        super().__init__()
        self.p, self.index, self.training = old.p, index, old.training
        self.channels = not isinstance(old, nn.Dropout)
        self.key: Tensor | None = None  # []
        self.calls = 0  # number of calls of this layer in this step

    def forward(self, x: Tensor) -> Tensor:
        """Set each number or channel to 0 with probability p, or divide it by 1 − p."""
        if not self.training or self.p == 0 or self.key is None:
            return x
        whole = x.shape[2:].numel() if self.channels and x.dim() > 2 else 1
        key = seeding.fold(seeding.fold(self.key, 2 * self.index + 1), self.calls)
        self.calls += 1
        return dropped(x, self.p, key, whole)


class Replacing(TorchFunctionMode):
    """Context that replaces the dropout and convolution functions that a network calls.

    Args:
        key: Key [] of this client and step, for dropout in training. With None, as in
            prediction, dropout is not replaced.
    """

    def __init__(self, key: Tensor | None = None) -> None:
        super().__init__()
        self.key, self.calls = key, 0
        self.replaced: dict[Any, Callable[..., Any]] = {
            torch.conv1d: self.convolved_1d,
            torch.conv2d: self.convolved,
        }
        if key is not None:
            self.replaced |= {
                F.dropout: self._dropout,
                torch.dropout: self._dropout,
                F.scaled_dot_product_attention: self._attention,
                F.multi_head_attention_forward: self._heads,
            }

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Replace a call if there is a replacement for these arguments."""
        kwargs = kwargs or {}
        ours = self.replaced.get(func)
        if ours is None:
            return func(*args, **kwargs)
        if "input" in kwargs:
            args = (kwargs.pop("input"), *args)
        out = ours(*args, **kwargs)
        return func(*args, **kwargs) if out is None else out

    def convolved(self, *args: Any, **kwargs: Any) -> Tensor | None:
        """Replace `conv2d`; the result None means that torch computes it."""
        return None

    def convolved_1d(self, *args: Any, **kwargs: Any) -> Tensor | None:
        """Replace `conv1d`; the result None means that torch computes it."""
        return None

    def _dropped(self, x: Tensor, p: float) -> Tensor:
        assert self.key is not None
        key = seeding.fold(seeding.fold(self.key, 2 * _FUNCTIONS + 1), self.calls)
        self.calls += 1
        return dropped(x, p, key)

    def _dropout(
        self,
        x: Tensor,
        p: float = 0.5,
        training: bool = True,
        inplace: bool = False,
        **more: Any,
    ) -> Tensor | None:
        """Replace `F.dropout` and `torch.dropout`."""
        if not more.get("train", training) or not 0 < p <= 1:
            return None
        out = self._dropped(x, p)
        return x.copy_(out) if inplace else out

    def _attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor | None:
        """Replace `F.scaled_dot_product_attention` if it has dropout."""
        if not dropout_p:
            return None
        if enable_gqa:
            many = query.shape[-3] // key.shape[-3]
            key, value = (t.repeat_interleave(many, -3) for t in (key, value))
        factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        scores = query @ key.mT * factor
        if is_causal:
            shown = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device)
            scores = scores.masked_fill(~shown.tril(), -math.inf)
        if attn_mask is not None:
            bare = attn_mask.dtype == torch.bool
            masked = scores.masked_fill(~attn_mask, -math.inf) if bare else None
            scores = scores + attn_mask if masked is None else masked
            blind = (scores == -math.inf).all(-1, keepdim=True)
            weights = scores.masked_fill(blind, 0).softmax(-1).masked_fill(blind, 0)
        else:
            weights = scores.softmax(-1)
        return self._dropped(weights, dropout_p) @ value

    def _heads(self, *args: Any, **kwargs: Any) -> Any:
        """Replace dropout and attention within `F.multi_head_attention_forward`.

        torch does not pass calls within this function to the context. So its code is
        run with other global functions.
        """
        whole: Any = F.multi_head_attention_forward

        def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
            return x if not training or not p else self._dropped(x, p)

        def attention(*given: Any, **more: Any) -> Tensor:
            out = self._attention(*given, **more)
            plain = F.scaled_dot_product_attention
            return plain(*given, **more) if out is None else out

        ours = {
            "has_torch_function": lambda tensors: False,
            "dropout": dropout,
            "scaled_dot_product_attention": attention,
        }
        named = vars(F) | ours, whole.__name__, whole.__defaults__
        own = types.FunctionType(whole.__code__, *named)
        return cast(Any, own)(*args, **kwargs)


def adapt(net: nn.Module) -> nn.Module:
    """Replace the layers for batch normalization and dropout of a network in place.

    Layers without an exact replacement are not changed; `validate` reports them.
    """
    made: dict[nn.Module, nn.Module] = {}

    def replaced(old: nn.Module) -> nn.Module:
        if old not in made:
            norm = type(old) in _NORMS and isinstance(old, BatchNormBase)
            if norm and old.running_mean is not None and old.momentum is not None:
                made[old] = BatchNorm(old)  # type: ignore[arg-type]
            elif isinstance(old, DropoutBase) and type(old) in _DROPS:
                made[old] = Dropout(old, len(made))
            else:
                made[old] = old
        return made[old]

    for module in list(net.modules()):
        for name, child in module._modules.items():
            if child is not None:
                setattr(module, name, replaced(child))
    return replaced(net)


def norms(net: nn.Module) -> list[tuple[str, BatchNormBase]]:
    """Return the names and layers whose running statistics are in the flat vector."""
    return [
        (name, module)
        for name, module in net.named_modules()
        if isinstance(module, BatchNormBase)
        and module.running_mean is not None
        and not getattr(module, "frozen_statistics", False)
    ]
