"""Nested tuples of tensors ⇄ flat lists and flat rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor


def leaves(tree: Any) -> list[Tensor]:
    """All tensors of a tree, in order."""
    if isinstance(tree, Tensor):
        return [tree]
    return [leaf for branch in tree for leaf in leaves(branch)]


def like(tree: Any, flat: Sequence[Any]) -> Any:
    """The tree with its tensors replaced, in order."""
    return _fill(tree, iter(flat))


def _fill(tree: Any, flat: Iterator[Any]) -> Any:
    if isinstance(tree, Tensor):
        return next(flat)
    branches = [_fill(branch, flat) for branch in tree]
    return type(tree)(*branches) if hasattr(tree, "_fields") else tuple(branches)


def where(condition: Tensor, new: Any, old: Any) -> Any:
    """The tensors of `new` where the condition holds, of `old` elsewhere."""
    pairs = zip(leaves(new), leaves(old), strict=True)
    return like(old, [torch.where(condition, a, b) for a, b in pairs])


def first(tree: Any) -> Any:
    """A chunk of one without its client axis; tensors that have no axis stay."""
    return like(tree, [leaf[0] if leaf.dim() else leaf for leaf in leaves(tree)])


def kept(tree: Any) -> Any:
    """Copies of what lies in memory that a captured graph will use again."""
    flat = [t.clone() if hasattr(t, "is_reused") else t for t in leaves(tree)]
    return like(tree, flat)


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
        shaped = [
            part.reshape(len(rows), *shape)
            for part, shape in zip(parts, self.shapes, strict=True)
        ]
        return like(self.example, shaped)
