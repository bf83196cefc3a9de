"""A network's numbers as one flat vector: parameters, then a tail of statistics.

The tail holds what batch normalisation keeps running: all means, then all variances in
the same order, so that the last half of it are variances.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from troth.networks.batchnorm import norms
from troth.types import Refusal


class Layout(NamedTuple):
    """Where each trainable parameter and each statistic lies in the flat vector."""

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]
    sizes: tuple[int, ...]
    d: int
    tail: int = 0  # so many of the d, the last ones, are statistics


def _trainable(module: nn.Module) -> dict[str, Tensor]:
    return {n: p for n, p in module.named_parameters() if p.requires_grad}


def _statistics(module: nn.Module) -> dict[str, Tensor]:
    """Running means by name, then running variances."""
    found: dict[str, Tensor] = {}
    for kind in ("running_mean", "running_var"):
        for name, norm in norms(module):
            found[f"{name}.{kind}".lstrip(".")] = getattr(norm, kind)
    return found


def tensors(module: nn.Module) -> dict[str, Tensor]:
    """All that the flat vector holds, by name, in its order: the module's own."""
    return _trainable(module) | _statistics(module)


def layout(module: nn.Module) -> Layout:
    """The layout of a module: `named_parameters`, then the tail.

    Raises:
        Refusal: it has no trainable parameter.
    """
    if not _trainable(module):
        raise Refusal(
            f"{type(module).__name__} has 0 trainable parameters; a model needs at "
            "least one with requires_grad = True"
        )
    found = tensors(module)
    sizes = tuple(t.numel() for t in found.values())
    shapes = tuple(t.shape for t in found.values())
    tail = sum(t.numel() for t in _statistics(module).values())
    return Layout(tuple(found), shapes, sizes, sum(sizes), tail)


def flatten(module: nn.Module) -> Tensor:
    """A copy of the trainable parameters and the tail as one vector [d]."""
    layout(module)
    return torch.cat([t.detach().reshape(-1) for t in tensors(module).values()])


def unflatten(place: Layout, v: Tensor) -> dict[str, Tensor]:
    """The tensors in a vector [d], by name: views, by one split (one gradient)."""
    if v.shape != (place.d,):
        raise Refusal(
            f"a vector of shape {list(v.shape)} does not fit this model, which has "
            f"{place.d} parameters; give it the model it was trained with"
        )
    pieces = torch.split(v, list(place.sizes))
    parts = zip(place.names, place.shapes, pieces, strict=True)
    return {name: part.reshape(shape) for name, shape, part in parts}


def call(
    module: nn.Module,
    given: dict[str, Tensor],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    tied: dict[str, str] | None = None,
) -> Any:
    """The module on these arguments, with these tensors in place of its own.

    A tensor that several modules share is given once, under its first name. (torch's
    own way to tie them loses a module that is itself in several places.)

    Args:
        module: left as it was.
        given: tensors by name.
        args: what it is called with.
        kwargs: the same, by name.
        tied: its `ties`, if they are known already.
    """
    known = ties(module) if tied is None else tied
    more = {name: given[first] for name, first in known.items() if first in given}
    return functional_call(module, given | more, args, kwargs, tie_weights=False)


def ties(module: nn.Module) -> dict[str, str]:
    """Every further name of a parameter that several modules share → its first."""
    first: dict[int, str] = {}
    found = {}
    for place, part in module.named_modules():
        for own, tensor in part._parameters.items():
            name = f"{place}.{own}".lstrip(".")
            if tensor is not None and first.setdefault(id(tensor), name) != name:
                found[name] = first[id(tensor)]
    return found


def assign(module: nn.Module, v: Tensor) -> None:
    """Copy a vector [d] into the module's trainable parameters and statistics."""
    found = tensors(module)
    with torch.no_grad():
        for name, value in unflatten(layout(module), v).items():
            found[name].copy_(value)
