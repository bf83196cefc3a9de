"""Compute the bias, the ReLU and the pooling of images in one pass, in a trace.

torch makes one or two passes over memory for each of them, and as many for their
gradients. With convolutions by matrix products, these passes took a third of a step.
"""

import operator
from typing import Any

import torch

from troth.engine import trace
from troth.networks import fused, kernels

_ATEN = torch.ops.aten
_UNPOOL = _ATEN.max_pool2d_with_indices_backward.default
_POOL = _ATEN.max_pool2d_with_indices.default
_SLOPE = _ATEN.threshold_backward.default


def pool_at_once(graph: Any) -> None:
    """Compute the bias, the ReLU and the pooling of images in one pass, and back.

    Only pooling without overlaps, of images channels-last, is changed. If the ReLU or
    the bias has other uses, it stays as it is. A ReLU after a bias without pooling is
    computed like pooling with windows of 1 × 1.
    """
    for node in list(graph.graph.nodes):
        if node.target is _POOL and _windows(node):
            _pool_once(graph.graph, node)
    for node in list(graph.graph.nodes):
        if node.target is _ATEN.relu.default and _channels_last(node):
            _relu_once(graph.graph, node)
    graph.graph.eliminate_dead_code()
    graph.recompile()


def _windows(node: Any) -> bool:
    """Return whether windows do not overlap, and their places serve only gradients."""
    x, size = node.args[:2]
    image, rest = x.meta["val"], list[Any](node.args[2:])
    rest += [[], 0, 1, False][len(rest) :]
    step, around, gap, ceil = rest
    plain = {*_pair(around)} == {0} and {*_pair(gap)} == {1} and not ceil
    plain = plain and _pair(step or size) == _pair(size) and not node.kwargs
    outputs = {user.args[1]: user for user in node.users}
    back = _users(outputs[1]) if 1 in outputs else []
    kept = all(user.target is _UNPOOL and user.args[1] is x for user in back)
    if not (plain and kept and image.dim() == 4 and image.dtype in kernels.NARROW):
        return False
    return bool(image.is_contiguous(memory_format=torch.channels_last))


def _pair(value: Any) -> tuple[int, int]:
    pair = [value] if isinstance(value, int) else value
    return pair[0], pair[-1]


def _pool_once(graph: Any, node: Any) -> None:
    x, (p, q) = node.args[0], _pair(node.args[1])
    outputs = {user.args[1]: user for user in node.users}
    back = _users(outputs[1]) if 1 in outputs else []
    relu, slopes = _relu_before(x, [node, *back])
    source, bias = relu.args[0] if relu else x, None
    if relu:
        source, bias = _bias_of(source, relu)
    call, shape = graph.call_function, list(x.meta["val"].shape)
    with graph.inserting_before(node):
        flat = call(_ATEN.view.default, (source, shape))
        if bias is not None:
            rows = [len(bias.meta["val"]), shape[1]]
            bias = call(_ATEN.reshape.default, (bias, rows))
        found = call(fused.POOL, (flat, bias, relu is not None, p, q))
        value, places = (call(operator.getitem, (found, k)) for k in (0, 1))
    value.meta["val"] = outputs[0].meta["val"]
    outputs[0].replace_all_uses_with(value)
    for one in back:
        after = slopes[one] if relu else one
        with graph.inserting_before(after):
            g = call(fused.UNPOOL, (one.args[0], places, p, q, *shape[2:]))
            if relu:
                g = call(_ATEN.view.default, (g, list(after.meta["val"].shape)))
        g.meta["val"] = after.meta["val"]
        after.replace_all_uses_with(g)


def _relu_once(graph: Any, node: Any) -> None:
    source, bias = _bias_of(node.args[0], node)
    if bias is None:
        return
    call, shape = graph.call_function, list(node.meta["val"].shape)
    flat = [shape[0] * shape[1], *shape[2:]]
    with graph.inserting_before(node):
        rows = call(_ATEN.reshape.default, (bias, [shape[0], shape[2]]))
        images = call(_ATEN.view.default, (source, flat))
        found = call(fused.POOL, (images, rows, True, 1, 1))
        value, places = (call(operator.getitem, (found, k)) for k in (0, 1))
        value = call(_ATEN.view.default, (value, shape))
    value.meta["val"] = node.meta["val"]
    for slope in [user for user in node.users if user.target is _SLOPE]:
        if slope.args[1] is node and slope.args[2] == 0:
            with graph.inserting_before(slope):
                g = call(_ATEN.reshape.default, (slope.args[0], flat))
                g = call(fused.UNPOOL, (g, places, 1, 1, *shape[3:]))
                g = call(_ATEN.view.default, (g, shape))
            g.meta["val"] = slope.meta["val"]
            slope.replace_all_uses_with(g)
    node.replace_all_uses_with(value)


def _channels_last(node: Any) -> bool:
    """Return whether a node holds images of many clients, channels-last."""
    images = node.meta.get("val")
    if images is None or images.dim() != 5 or images.dtype not in kernels.NARROW:
        return False
    return bool(images.permute(0, 1, 3, 4, 2).is_contiguous())


def _users(node: Any) -> list[Any]:
    """Return the operations that use a node, or the same numbers in another shape."""
    found = []
    for user in node.users:
        found += _users(user) if user.target in trace.SAME else [user]
    return found


def _relu_before(x: Any, pools: list[Any]) -> tuple[Any, dict[Any, Any]]:
    """Return the ReLU that makes x, and the gradient in it of each gradient of pooling.

    Return None and {} if there is no such ReLU, or if it has other uses.
    """
    node = _made_of(x)
    users = _users(node)
    slopes = [user for user in users if user.target is _SLOPE]
    if node.target is not _ATEN.relu.default or {*users} != {*pools, *slopes}:
        return None, {}
    if any(slope.args[1] is not node or slope.args[2] != 0 for slope in slopes):
        return None, {}
    found = {}
    for back in pools[1:]:
        after = [user for user in slopes if _made_of(user.args[0]) is back]
        if len(after) != 1 or _users(back) != after:
            return None, {}
        found[back] = after[0]
    return (node, found) if len(found) == len(slopes) else (None, {})


def _made_of(node: Any) -> Any:
    """Follow views that keep images back to the node that makes them."""
    while _keeps_images(node):
        node = node.args[0]
    return node


def _keeps_images(node: Any) -> bool:
    """Return whether a node is a view with the same images in the same order."""
    if node.target is _ATEN.permute.default:
        order = node.args[1]
        return list(order) == list(range(len(order)))
    if node.target is not _ATEN.view.default:
        return False
    before, after = (one.meta.get("val") for one in (node.args[0], node))
    known = before is not None and after is not None
    return known and before.shape[-3:] == after.shape[-3:]


def _bias_of(node: Any, relu: Any) -> tuple[Any, Any]:
    """Split a sum of images and a bias of each client's channels.

    Return the node and None if it has another form or other uses.
    """
    if node.target is not _ATEN.add.Tensor or node.kwargs or [*node.users] != [relu]:
        return node, None
    images, bias = node.args
    if not (hasattr(images, "meta") and hasattr(bias, "meta")):
        return node, None
    seen, shift = images.meta["val"], bias.meta["val"]
    n, *_, c, _, _ = seen.shape
    fits = shift.shape == (n, 1, c, 1, 1) and seen.dtype == shift.dtype
    return (images, bias) if seen.dim() == 5 and fits else (node, None)
