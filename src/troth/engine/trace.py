"""Optimize a trace before it is replayed, without changing its results.

A trace is a graph of tensor operations (torch.fx), whose nodes are the operations.
"""

import math
import operator
from typing import Any

import torch

from troth.networks import convolution, fused, kernels

_ATEN = torch.ops.aten


def compute_once(graph: Any) -> None:
    """Merge operations that have the same inputs, so that they are computed once.

    For example, several models of a client prepare the same batch. Operations whose
    results are outputs are not merged, because each output may be overwritten
    separately. A trace that overwrites tensors is not changed.
    """
    nodes = list(graph.graph.nodes)
    if any(_writes(node) for node in nodes):
        return
    outputs = {*graph.graph.output_node().args[0]}
    seen: dict[Any, Any] = {}
    for node in nodes:
        if node.op not in ("call_function", "get_attr") or _aliases(node) & outputs:
            continue
        key = node.target, repr((node.args, node.kwargs))  # nodes are compared by name
        if key in seen:
            node.replace_all_uses_with(seen[key])
            graph.graph.erase_node(node)
        else:
            seen[key] = node
    graph.recompile()


def _writes(node: Any) -> bool:
    """Return whether a node overwrites a tensor or draws random numbers."""
    target = node.target
    schema, tags = getattr(target, "_schema", None), getattr(target, "tags", ())
    mutable = schema is not None and schema.is_mutable
    return mutable or torch.Tag.nondeterministic_seeded in tags


def update_in_place(graph: Any, in_pieces: bool, apart: bool = False) -> list[int]:
    """Compute updates v ← v − lr·g in the memory of v, without a copy of v.

    Several such updates in a row are rewritten too. An update is rewritten only if no
    later operation reads its old v. With `in_pieces`, v is updated parameter by
    parameter, so that the pieces of g need not be gathered into one tensor. If the
    trace is compiled, the compiler fuses the gathering and is faster without it.

    With `apart`, v is only read, and the result is written to a further input of the
    trace. So v may be one row that all clients share.

    Returns:
        The number of the input v of each further input; [] without `apart`.
    """
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    results: dict[Any, Any] = {}
    for node in _updates(graph):
        v, g, rate = node.args
        out = v
        if apart and v in inputs:
            last = [*results.values()][-1] if results else inputs[-1]
            with graph.graph.inserting_after(last):
                out = results[v] = graph.graph.placeholder(f"out_{len(results)}")
            out.meta["val"] = v.meta["val"]
        pull = _pull(graph, v, g) if in_pieces else None
        rest, w, lam = pull or (g, None, 0.0)
        share = _share(graph, v, rest) if in_pieces else None
        rest, factor = share or (rest, None)
        call = graph.graph.call_function
        with graph.graph.inserting_before(node):
            pieces = _pieces(graph, v, rest, in_pieces)
            own = call(_ATEN.mul.Tensor, (rate, factor)) if share else rate
            if pull:  # v ← v + rate·λ(v − w), in one pass
                weight = call(_ATEN.mul.Tensor, (rate, -lam))
                if out is v:
                    call(_ATEN.lerp_.Tensor, (v, w, weight))
                else:
                    call(_ATEN.lerp.Tensor_out, (v, w, weight), {"out": out})
                    v = out
            _add(graph.graph, out, v, pieces, own)
        node.replace_all_uses_with(out)
        graph.graph.eliminate_dead_code()  # the gathered gradient, if no longer used
    graph.recompile()
    return [inputs.index(v) for v in results]


def _updates(graph: Any) -> list[Any]:
    """Return the nodes of updates v + g·rate that lead to an output, in order.

    Of a chain of updates, either all nodes are returned or none.
    """
    outputs = graph.graph.output_node().args[0]
    order = {n: i for i, n in enumerate(graph.graph.nodes)}
    found: set[Any] = set()
    for node in outputs:
        chain, v = [], node
        while v.target is _ATEN.addcmul.default:
            chain.append(v)
            v = v.args[0]
        alone = outputs.count(node) == 1 and v.op == "placeholder"
        if alone and all(_last_use(graph, step) for step in chain):
            found.update(chain)
    return sorted(found, key=lambda step: order[step])


def _pieces(graph: Any, v: Any, g: Any, apart: bool) -> list[Any]:
    """Return the tensors that make up a gradient g of v, or [g]; none is a view of v.

    `apart` says whether g may be returned in pieces.
    """
    if apart and g.target is _ATEN.cat.default and g.args[1:] == (1,):
        pieces = list(g.args[0])
        if not ({*pieces} & _aliases(v) or _changed(graph, pieces, g)):
            return pieces
    if g in _aliases(v):
        g = graph.graph.call_function(_ATEN.clone.default, (g,))
        g.meta["val"] = v.meta["val"]
    return [g]


def _add(graph: Any, out: Any, v: Any, pieces: list[Any], rate: Any) -> None:
    """Write v plus a gradient times the rate to `out`, which may be v, by pieces."""
    first, call = 0, graph.call_function
    for piece in pieces:
        last = first + piece.meta["val"].shape[1]
        part = call(_ATEN.slice.Tensor, (out, 1, first, last))
        base = part if out is v else call(_ATEN.slice.Tensor, (v, 1, first, last))
        product = _product(piece)
        if product is not None:  # without storing the product first
            shape = list(product.meta["val"].shape)
            part = call(_ATEN.view.default, (part, shape))
            given = (part, *product.args[:2], rate)
            if out is not v:
                given = (*given, call(_ATEN.view.default, (base, shape)))
            call(convolution.ADD_PRODUCT, given)
        elif out is v:
            call(_ATEN.addcmul_.default, (part, piece, rate))
        else:
            call(_ATEN.addcmul.out, (base, piece, rate), {"out": part})
        first = last


SAME = (
    _ATEN.view.default,
    _ATEN._unsafe_view.default,
    _ATEN.transpose.int,
    _ATEN.permute.default,
    _ATEN.unsqueeze.default,
)
"""Operations that change only the shape of a tensor."""


def _product(piece: Any) -> Any:
    """Return the node of the matrix product that a whole piece of the gradient equals.

    Return None if the piece is no such product, or if the product is better stored
    first. A product is better stored if it has other uses, or if it sums over so many
    examples that its sum is computed in parallel pieces.
    """
    node = piece
    while (node.target in SAME or _widens(node)) and len(node.users) == 1:
        node = node.args[0]
    if node.target is not convolution.PRODUCT or len(node.users) != 1:
        return None
    values = [part.meta.get("val") for part in (node, piece, node.args[0])]
    if any(value is None for value in values):  # made by `_sum`, over examples
        return None
    product, whole, left = values
    same = product.is_contiguous() and whole.is_contiguous()
    same = same and (len(product), product.numel()) == (len(whole), whole.numel())
    computed = all(_root(factor).op != "placeholder" for factor in node.args[:2])
    return node if same and computed and left.shape[2] <= _EXAMPLES else None


_EXAMPLES = 512


def _widens(node: Any) -> bool:
    """Return whether a node converts to float32, in which products are summed."""
    given = node.kwargs
    wide = node.target is _CAST and given.get("dtype") is torch.float32
    return wide and given.get("memory_format") in (None, torch.preserve_format)


_CAST = _ATEN._to_copy.default


def _pull(graph: Any, v: Any, g: Any) -> tuple[Any, Any, float] | None:
    """Return (rest, w, λ) for a gradient of the form rest + λ(v − w).

    Return None if it has another form, or if w or rest is overwritten before the
    update.
    """
    if g.target is not _ATEN.add.Tensor or len(g.users) != 1:
        return None
    rest, away = g.args
    if getattr(away, "target", None) is not _ATEN.sub.Tensor or len(away.users) != 1:
        return None
    w = away.args[1]
    if away.kwargs or away.args[0] is not v or {w, rest} & _aliases(v):
        return None
    if _changed(graph, [w, rest], away):
        return None
    return rest, w, g.kwargs.get("alpha", 1.0)


def _share(graph: Any, v: Any, g: Any) -> tuple[Any, Any] | None:
    """Return (rest, factor) for a gradient factor·rest, with one factor per client.

    Return None if it has another form, or if `rest` or the factor is overwritten before
    the update.
    """
    if g.target is not _ATEN.mul.Tensor or len(g.users) != 1:
        return None
    clients, wide = v.meta["val"].shape
    for rest, factor in (g.args, g.args[::-1]):
        shape = factor.meta["val"].shape if hasattr(factor, "meta") else ()
        whole = hasattr(rest, "meta") and rest.meta["val"].shape == (clients, wide)
        if whole and shape in ((), (1,), (1, 1), (clients, 1)):
            parts = [part for part in g.args if hasattr(part, "meta")]
            return None if _changed(graph, parts, g) else (rest, factor)
    return None


def _last_use(graph: Any, node: Any) -> bool:
    """Return whether a node v + g·rate is the last use of v [clients, d]."""
    if node.kwargs or len(node.args) != 3:
        return False
    v, g, rate = (argument.meta["val"] for argument in node.args)
    if v.dim() != 2 or g.shape != v.shape or rate.numel() != 1:
        return False
    order = {n: i for i, n in enumerate(graph.graph.nodes)}
    users = (user for alias in _aliases(node.args[0]) for user in alias.users)
    return all(order[user] <= order[node] for user in users)


def _changed(graph: Any, tensors: list[Any], since: Any) -> bool:
    """Return whether the memory of any of the tensors is overwritten after a node."""
    order = {n: i for i, n in enumerate(graph.graph.nodes)}
    held = {alias for tensor in tensors for alias in _aliases(_root(tensor))}
    later = (user for alias in held for user in alias.users)
    return any(order[user] > order[since] and _over(user) & held for user in later)


def _over(node: Any) -> set[Any]:
    """Return the tensors that a node overwrites."""
    schema = getattr(node.target, "_schema", None)
    pairs = zip(node.args, schema.arguments if schema else (), strict=False)
    return {a for a, known in pairs if known.alias_info and known.alias_info.is_write}


def _root(node: Any) -> Any:
    """Return the node of which a node is a view, or the node itself."""
    while _is_view(node):
        node = node.args[0]
    return node


def _is_view(node: Any) -> bool:
    schema = getattr(node.target, "_schema", None)
    seen = schema is not None and any(r.alias_info for r in schema.returns)
    return node.target is operator.getitem or seen


def _aliases(node: Any) -> set[Any]:
    """Return a node and all views of it."""
    found, ahead = {node}, [node]
    while ahead:
        for user in ahead.pop().users:
            if _is_view(user) and user not in found:
                found.add(user)
                ahead.append(user)
    return found


def read_in_place(graph: Any) -> None:
    """Let products read parameters in float32, without a copy in another dtype.

    The kernels round parameters themselves. Other operations keep the copy.
    """
    for node in list(graph.graph.nodes):
        if node.target is convolution.PRODUCT:
            views: list[Any] = []
            cast = node.args[1]
            while _keeps_clients(cast):
                views, cast = [*views, cast], cast.args[0]
            if cast.target is not _CAST or not _of_rows(cast.args[0]):
                continue
            source = cast.args[0]
            with graph.graph.inserting_before(node):
                for view in reversed(views):
                    given = (source, *view.args[1:])
                    source = graph.graph.call_function(view.target, given)
            node.update_arg(1, source)
    graph.graph.eliminate_dead_code()
    graph.recompile()


def _of_rows(source: Any) -> bool:
    """Return whether a node is a part of the clients' parameters [n, d], in float32."""
    rows = _root(source)
    value = rows.meta.get("val") if rows.op == "placeholder" else None
    return value is not None and value.dim() == 2 and value.dtype is torch.float32


def _keeps_clients(view: Any) -> bool:
    """Return whether a view of [n, i, j] only transposes, or changes nothing."""
    if view.target in (_ATEN.transpose.int, _ATEN.permute.default):
        return True
    if view.target not in (*SAME, _ATEN.expand.default):
        return False
    before, after = (one.meta.get("val") for one in (view.args[0], view))
    return before is not None and after is not None and before.shape == after.shape


_UNPOOL = _ATEN.max_pool2d_with_indices_backward.default


def by_kernels(graph: Any) -> None:
    """Make the order of sums in a trace independent of the number of clients.

    Matrix products are replaced by those of `troth.networks.convolution`, and sums by
    products with ones. The gradient of pooling uses its indices without a copy.
    """
    for node in list(graph.graph.nodes):
        if node.target is _ATEN.bmm.default:
            node.target = convolution.PRODUCT
        elif node.target is _ATEN.sum.dim_IntList:
            _sum(graph.graph, node)
        elif node.target is _ATEN.clone.default:
            pooled = (user.target is _UNPOOL for user in node.users)
            if node.users and all(pooled):  # the kernel needs no copy of the indices
                node.replace_all_uses_with(node.args[0])
    graph.graph.eliminate_dead_code()
    graph.recompile()


def subtract_at_once(graph: Any) -> None:
    """Subtract a vector from all rows by a kernel, which reads memory faster."""
    for node in graph.graph.nodes:
        if node.target is _ATEN.sub.Tensor and _minus(node):
            node.target = fused.MINUS
    graph.recompile()


def _minus(node: Any) -> bool:
    """Return whether a node subtracts the same vector from all rows, in float32."""
    values = [part.meta["val"] for part in node.args if hasattr(part, "meta")]
    if len(values) != 2 or node.kwargs:
        return False
    rows, w = values
    same = rows.dim() == 2 and w.shape == rows.shape[1:]
    return same and rows.dtype is w.dtype is torch.float32


def _sum(graph: Any, node: Any) -> None:
    """Replace a sum over axes other than the first by a product with ones."""
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
        total = graph.call_function(convolution.PRODUCT, (ones, rows, True))
        shaped = (total, list(found.shape))
        total = graph.call_function(_ATEN.view.default, shaped)
    total.meta["val"] = found
    node.replace_all_uses_with(total)
