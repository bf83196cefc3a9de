"""What is done to a trace before it is replayed: less work for the same numbers."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import torch

_ATEN = torch.ops.aten


def compute_once(graph: Any) -> None:
    """Let what is computed twice from the same be computed once.

    Several models of a client, shared and personal, prepare the same batch. What goes
    into an output stays apart, for outputs may be written over one by one.

    Args:
        graph: a trace; it is changed, unless it writes into its tensors.
    """
    nodes = list(graph.graph.nodes)
    if any(_writes(node) for node in nodes):
        return
    outputs = {*graph.graph.output_node().args[0]}
    seen: dict[Any, Any] = {}
    for node in nodes:
        if node.op not in ("call_function", "get_attr") or _aliases(node) & outputs:
            continue
        key = node.target, repr((node.args, node.kwargs))  # nodes by name
        if key in seen:
            node.replace_all_uses_with(seen[key])
            graph.graph.erase_node(node)
        else:
            seen[key] = node
    graph.recompile()


def _writes(node: Any) -> bool:
    """Whether a node changes a tensor, or gives another result every time."""
    target = node.target
    schema, tags = getattr(target, "_schema", None), getattr(target, "tags", ())
    mutable = schema is not None and schema.is_mutable
    return mutable or torch.Tag.nondeterministic_seeded in tags


def update_in_place(graph: Any, in_pieces: bool) -> None:
    """Let v ← v − lr·g happen in v's own memory: no gathered g, no copy of v.

    Only where the update is the last use of v.

    Args:
        graph: a trace; it is changed.
        in_pieces: update parameter by parameter, which saves gathering g; a compiler
            fuses the gathering and does better with the whole.
    """
    outputs = graph.graph.output_node().args[0]
    for node in [n for n in outputs if n.target is _ATEN.addcmul.default]:
        if outputs.count(node) > 1 or not _last_use(graph, node):
            continue
        v, g, rate = node.args
        pull = _pull(graph, v, g) if in_pieces else None
        rest = pull.rest if pull else g
        gathered = rest.target is _ATEN.cat.default and rest.args[1:] == (1,)
        apart = in_pieces and gathered and len(rest.users) == 1
        pieces = rest.args[0] if apart else [rest]
        if {*pieces} & _aliases(v):
            continue
        with graph.graph.inserting_before(node):
            if pull:
                _towards(graph.graph, v, pull, rate)
            _add(graph.graph, v, pieces, rate)
        node.replace_all_uses_with(v)
        graph.graph.erase_node(node)
        for unused in (pull.whole, pull.away) if pull else ():
            graph.graph.erase_node(unused)
        if apart:
            graph.graph.erase_node(rest)
    graph.recompile()


def _add(graph: Any, v: Any, pieces: list[Any], rate: Any) -> None:
    """Add a gradient times the rate to v in v's own memory, piece by piece."""
    first = 0
    for piece in pieces:
        last = first + piece.meta["val"].shape[1]
        part = graph.call_function(_ATEN.slice.Tensor, (v, 1, first, last))
        graph.call_function(_ATEN.addcmul_.default, (part, piece, rate))
        first = last


class _Pull(NamedTuple):
    """A gradient that is rest + λ(v − w)."""

    whole: Any
    rest: Any
    away: Any  # v − w
    w: Any
    lam: float


def _pull(graph: Any, v: Any, g: Any) -> _Pull | None:
    """What a gradient of v with a pull towards some w is made of, if it is one.

    And if w is still the same where v is updated.
    """
    if g.target is not _ATEN.add.Tensor or len(g.users) != 1:
        return None
    rest, away = g.args
    if getattr(away, "target", None) is not _ATEN.sub.Tensor or len(away.users) != 1:
        return None
    w = away.args[1]
    if away.kwargs or away.args[0] is not v or {w, rest} & _aliases(v):
        return None
    order = {n: i for i, n in enumerate(graph.graph.nodes)}
    users = (user for alias in _aliases(w) for user in alias.users)
    if any(_writes(user) and order[user] > order[away] for user in users):
        return None
    return _Pull(g, rest, away, w, g.kwargs.get("alpha", 1.0))


def _towards(graph: Any, v: Any, pull: _Pull, rate: Any) -> None:
    """Move v towards w in its own memory: v ← v + rate·λ(v − w), in one pass."""
    weight = graph.call_function(_ATEN.mul.Tensor, (rate, -pull.lam))
    graph.call_function(_ATEN.lerp_.Tensor, (v, pull.w, weight))


def _last_use(graph: Any, node: Any) -> bool:
    """Whether v + g·rate, with a row of v a client, is the last that is done with v."""
    if node.kwargs or len(node.args) != 3 or node.args[0].op != "placeholder":
        return False
    v, g, rate = (argument.meta["val"] for argument in node.args)
    if v.dim() != 2 or g.shape != v.shape or rate.numel() != 1:
        return False
    order = {n: i for i, n in enumerate(graph.graph.nodes)}
    users = (user for alias in _aliases(node.args[0]) for user in alias.users)
    return all(order[user] <= order[node] for user in users)


def _aliases(node: Any) -> set[Any]:
    """A node of a trace, and all views of it."""
    found, ahead = {node}, [node]
    while ahead:
        for user in ahead.pop().users:
            schema = getattr(user.target, "_schema", None)
            view = user.target is operator.getitem or (
                schema is not None and any(r.alias_info for r in schema.returns)
            )
            if view and user not in found:
                found.add(user)
                ahead.append(user)
    return found
