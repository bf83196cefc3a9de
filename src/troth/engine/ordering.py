"""A trace whose sums are taken in the same order, however many clients there are.

Else what a client becomes depends, in its last digits, on who steps beside it; and
where a unit is close to 0, or two are nearly equal, in more than those.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from troth.networks import kernels, windows

_ATEN = torch.ops.aten
_UNPOOL = _ATEN.max_pool2d_with_indices_backward.default


def by_kernels(graph: Any) -> None:
    """Let sums be taken in an order that does not depend on how many clients there are.

    Products of matrices are those of `troth.networks.windows`, and sums are products with ones.
    And let pooling find its places where they lie.

    Args:
        graph: a trace; it is changed.
    """
    for node in list(graph.graph.nodes):
        if node.target is _ATEN.bmm.default:
            node.target = windows.PRODUCT
        elif node.target is _ATEN.sum.dim_IntList:
            _sum(graph.graph, node)
        elif node.target is _ATEN.clone.default:
            pooled = (user.target is _UNPOOL for user in node.users)
            if node.users and all(pooled):  # the kernel lays them out itself
                node.replace_all_uses_with(node.args[0])
    graph.graph.eliminate_dead_code()
    graph.recompile()


def _sum(graph: Any, node: Any) -> None:
    """A sum over all axes but the first and some others, as a product with ones."""
    x, axes = node.args[:2]
    seen, found = x.meta["val"], node.meta["val"]
    over = sorted({axis % max(1, seen.dim()) for axis in axes})
    if not over or 0 in over or node.kwargs or seen.numel() == 0:
        return
    if seen.dtype not in kernels.NARROW:
        return
    order = [axis for axis in range(seen.dim()) if axis not in over]
    n, terms = seen.shape[0], math.prod(seen.shape[axis] for axis in over)
    with graph.inserting_before(node):
        turned = graph.call_function(_ATEN.permute.default, (x, [0, *over, *order[1:]]))
        rows = graph.call_function(_ATEN.reshape.default, (turned, [n, terms, -1]))
        one = graph.call_function(_ATEN.new_ones.default, (x, [1, 1, 1]))
        ones = graph.call_function(_ATEN.expand.default, (one, [n, 1, terms]))
        total = graph.call_function(windows.PRODUCT, (ones, rows, True))
        shaped = (total, list(found.shape))
        total = graph.call_function(_ATEN.view.default, shaped)
    total.meta["val"] = found
    node.replace_all_uses_with(total)
