"""Nested tuples of tensors ⇄ flat lists and flat rows.

Every step of every client goes through here: this takes half as long as
`torch.utils._pytree`, which knows more kinds of trees.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


def leaves(tree: Any) -> list[Tensor]:
    """All tensors of a tree, in order."""
    if isinstance(tree, Tensor):
        return [tree]
    return [leaf for branch in tree for leaf in leaves(branch)]


def like(tree: Any, flat: Iterable[Any]) -> Any:
    """The tree with its tensors replaced, in order."""
    ahead = iter(flat)  # of an iterator, itself
    if isinstance(tree, Tensor):
        return next(ahead)
    branches = [like(branch, ahead) for branch in tree]
    return type(tree)(*branches) if hasattr(tree, "_fields") else tuple(branches)


def mapped(function: Callable[[Tensor], Any], tree: Any) -> Any:
    """The tree with a function applied to each of its tensors."""
    return like(tree, [function(leaf) for leaf in leaves(tree)])


def where(condition: Tensor, new: Any, old: Any) -> Any:
    """The tensors of `new` where the condition holds, of `old` elsewhere."""
    pairs = zip(leaves(new), leaves(old), strict=True)
    return like(old, [torch.where(condition, a, b) for a, b in pairs])


def first(tree: Any) -> Any:
    """A chunk of one without its client axis; tensors that have no axis stay."""
    return mapped(lambda leaf: leaf[0] if leaf.dim() else leaf, tree)


def kept(tree: Any) -> Any:
    """Copies of what lies in memory that a captured graph will use again."""
    return mapped(lambda t: t.clone() if hasattr(t, "is_reused") else t, tree)


class Packing:
    """Trees of one shape as rows: [n, width] ⇄ a tree whose tensors have n rows."""

    def __init__(self, example: Any) -> None:
        self.example = example
        self.shapes = [leaf.shape for leaf in leaves(example)]
        self.sizes = [leaf.numel() for leaf in leaves(example)]
        self.width = sum(self.sizes)

    def pack(self, tree: Any, n: int) -> Tensor:
        """A tree of n clients as [n, width]."""
        pairs = zip(leaves(tree), self.sizes, strict=True)
        flat = [leaf.reshape(n, size) for leaf, size in pairs]
        if len(flat) == 1:
            return flat[0]
        return torch.cat(flat, dim=1) if flat else torch.zeros(n, 0)

    def unpack(self, rows: Tensor) -> Any:
        """[n, width] as a tree whose tensors have n rows (views)."""
        parts = torch.split(rows, self.sizes, dim=1) if self.sizes else ()
        pairs = zip(parts, self.shapes, strict=True)
        shaped = [part.reshape(len(rows), *shape) for part, shape in pairs]
        return like(self.example, shaped)
