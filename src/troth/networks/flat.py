"""Flat vectors: a network's parameters, masks of them, and clients' states as rows.

The vector of a network consists of its parameters and the tail. The tail has the
running means of all batch normalizations, then all running variances in the same order.
`Masks` turns names of parameters into masks of the vector, so that methods need no
names. `Packing` stores nested tuples of tensors as one row, in half the time of
`torch.utils._pytree`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from troth.compat import NormBase
from troth.networks.batchnorm import norms
from troth.networks.layers import Normalize
from troth.networks.weights import matched
from troth.types import Refusal


class Layout(NamedTuple):
    """Position of each trainable parameter and running statistic in the flat vector."""

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]
    sizes: tuple[int, ...]
    d: int
    tail: int = 0  # number of running statistics, at the end of the vector


def _trainable(module: nn.Module) -> dict[str, Tensor]:
    return {n: p for n, p in module.named_parameters() if p.requires_grad}


def _statistics(module: nn.Module) -> dict[str, Tensor]:
    """Return running means by name, then running variances by name."""
    return {
        f"{name}.{kind}".lstrip("."): getattr(norm, kind)
        for kind in ("running_mean", "running_var")
        for name, norm in norms(module)
    }


def tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return all tensors in the flat vector, by name and in its order."""
    return _trainable(module) | _statistics(module)


def layout(module: nn.Module) -> Layout:
    """Return the layout of a module; raise Refusal if nothing is trainable."""
    if not _trainable(module):
        raise Refusal(
            f"{type(module).__name__} has 0 trainable parameters; a model needs at "
            "least one with requires_grad = True"
        )
    held = tensors(module)
    sizes = tuple(t.numel() for t in held.values())
    shapes = tuple(t.shape for t in held.values())
    tail = sum(t.numel() for t in _statistics(module).values())
    return Layout(tuple(held), shapes, sizes, sum(sizes), tail)


def flatten(module: nn.Module) -> Tensor:
    """Return a copy of the trainable parameters and the tail as one vector [d]."""
    layout(module)
    return torch.cat([t.detach().reshape(-1) for t in tensors(module).values()])


def unflatten(place: Layout, v: Tensor) -> dict[str, Tensor]:
    """Return the tensors of a vector [d] by name; raise Refusal for another length.

    The tensors are views from a single `split`, so that autograd computes one gradient
    for all of them.
    """
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
    """Call the module with the tensors `given` instead of its own.

    If several modules share a tensor, it is given under its first name. (torch's
    `tie_weights` fails if a module is registered in several places.) `tied` is the
    result of `ties`, to save time.
    """
    known = ties(module) if tied is None else tied
    more = {name: given[first] for name, first in known.items() if first in given}
    return functional_call(module, given | more, args, kwargs, tie_weights=False)


def ties(module: nn.Module) -> dict[str, str]:
    """Map each further name of a parameter with several names to its first name."""
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


_NORMS = (NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


class Masks:
    """Masks of the flat vector, selected by names of layers and parameters.

    A mask is [d] of bool, on the device of the parameters. Names are those of the
    model, without the normalization in front of it. Frozen tensors are not in the
    vector and have no name. If several layers share a tensor, it belongs to all of
    them. A layer is a module that directly contains trainable tensors.
    """

    def __init__(self, network: nn.Module) -> None:
        self._layout = layout(network)
        self._device = next(network.parameters()).device
        start, model = bare(network)
        every = {name: [name] for name in self._layout.names}
        for name, first in ties(network).items():
            every.get(first, []).append(name)
        self._names = [[n.removeprefix(start) for n in own] for own in every.values()]
        self.names = [name for own in self._names for name in own]
        held = {_layer(name) for name in self.names}
        self._layers = {n: m for n, m in model.named_modules() if n in held}
        self.layers = list(self._layers)  # in the model's order; "" is the model itself

    def matching(self, option: str, patterns: list[str]) -> Tensor:
        """Return the mask of the tensors that the patterns select (see `matched`).

        Without patterns, the mask is false everywhere. `option` is for error messages.
        """
        return self._mask(matched(option, patterns, self.names))

    def last(self, option: str, number: int) -> Tensor:
        """Return the mask of the `number` last layers; false everywhere with 0."""
        if not 0 <= number <= len(self.layers):
            raise Refusal(
                f"{option} = {number} must be at least 0 and at most "
                f"{len(self.layers)}, the layers of this model: {self._listed}"
            )
        return self._in(self.layers[len(self.layers) - number :])

    def norms(self) -> Tensor:
        """Return the mask of normalization layers; raise Refusal if there are none."""
        found = [n for n, m in self._layers.items() if isinstance(m, _NORMS)]
        if not found:
            raise Refusal(
                "this model has no normalization layer that is trained; take a model "
                "with one, such as resnet18, vgg13_bn or celeba_cnn, or personalizer "
                f"fedper with some of its layers: {self._listed}"
            )
        return self._in(found)

    def sizes(self) -> Tensor:
        """Return the size of the tensor that contains each entry, [d] float32."""
        return self._spread(self._layout.sizes).float()

    @property
    def _listed(self) -> str:
        return ", ".join(name or "the model itself" for name in self.layers)

    def _in(self, layers: list[str]) -> Tensor:
        return self._mask({name for name in self.names if _layer(name) in layers})

    def _mask(self, wanted: set[str]) -> Tensor:
        return self._spread([not wanted.isdisjoint(own) for own in self._names])

    def _spread(self, values: Sequence[float]) -> Tensor:
        """Repeat one value per tensor for all entries of the tensor, [d]."""
        sizes = torch.tensor(self._layout.sizes, device=self._device)
        return torch.tensor(values, device=self._device).repeat_interleave(sizes)


def bare(network: nn.Module) -> tuple[str, nn.Module]:
    """Return the prefix of the model's names, and the model without normalization."""
    behind = isinstance(network, nn.Sequential) and len(network) == 2
    first = next(network.children(), None)
    if behind and isinstance(first, Normalize):
        return "1.", network.get_submodule("1")
    return "", network


def _layer(name: str) -> str:
    return name.rpartition(".")[0]


def leaves(tree: Any) -> list[Tensor]:
    """List all tensors of a tree (nested tuples of tensors), in order."""
    if isinstance(tree, Tensor):
        return [tree]
    return [leaf for branch in tree for leaf in leaves(branch)]


def like(tree: Any, flat: Iterable[Any]) -> Any:
    """Return a tree of the same structure, with other tensors in the same order."""
    ahead = iter(flat)  # recursive calls share one iterator
    if isinstance(tree, Tensor):
        return next(ahead)
    branches = [like(branch, ahead) for branch in tree]
    return type(tree)(*branches) if hasattr(tree, "_fields") else tuple(branches)


def mapped(function: Callable[[Tensor], Any], tree: Any) -> Any:
    """Apply a function to every tensor of a tree."""
    return like(tree, [function(leaf) for leaf in leaves(tree)])


def where(condition: Tensor, new: Any, old: Any) -> Any:
    """Apply `torch.where` to the tensors of two trees."""
    pairs = zip(leaves(new), leaves(old), strict=True)
    return like(old, [torch.where(condition, a, b) for a, b in pairs])


def first(tree: Any) -> Any:
    """Remove the first axis (clients) of all tensors but scalars, taking entry 0."""
    return mapped(lambda leaf: leaf[0] if leaf.dim() else leaf, tree)


def kept(tree: Any) -> Any:
    """Copy the tensors whose memory a captured CUDA graph reuses."""
    return mapped(lambda t: t.clone() if hasattr(t, "is_reused") else t, tree)


class Packing:
    """Conversion between a tree of tensors [n, …] and a matrix [n, width].

    The tree of n clients has tensors whose first axis is the client.
    """

    def __init__(self, example: Any) -> None:
        self.example = example
        self.shapes = [leaf.shape for leaf in leaves(example)]
        self.sizes = [leaf.numel() for leaf in leaves(example)]
        self.width = sum(self.sizes)

    def pack(self, tree: Any, n: int) -> Tensor:
        """Convert the tree of n clients to a matrix [n, width]."""
        pairs = zip(leaves(tree), self.sizes, strict=True)
        flat = [leaf.reshape(n, size) for leaf, size in pairs]
        if len(flat) == 1:
            return flat[0]
        return torch.cat(flat, dim=1) if flat else torch.zeros(n, 0)

    def unpack(self, rows: Tensor) -> Any:
        """Convert a matrix [n, width] to the tree of n clients."""
        parts = torch.split(rows, self.sizes, dim=1) if self.sizes else ()
        pairs = zip(parts, self.shapes, strict=True)
        shaped = [part.reshape(len(rows), *shape) for part, shape in pairs]
        return like(self.example, shaped)
