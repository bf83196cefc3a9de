"""The only vmap and the only torch.compile: one-client functions over many clients.

A function of one client is lifted over the rows of a chunk by `torch.func.vmap`, and
what that comes to is traced once for each shape into plain tensor operations, which
are then replayed: without the costs of vmap and autograd, and without a compiler. The
trace can be compiled, and on CUDA it is captured as a graph.
"""

from __future__ import annotations

import operator
import threading
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import vmap
from torch.fx.experimental.proxy_tensor import make_fx

from troth import trees

_ATEN = torch.ops.aten
_TRACING = threading.Lock()  # a thread at a time


class Lifted:
    """A one-client function over a chunk, replayed from a trace a shape."""

    def __init__(
        self,
        function: Callable[..., Any],
        dims: tuple[Any, ...],
        how: str,
        in_place: bool = False,
        alone: bool = False,
    ) -> None:
        """Nothing is traced yet.

        Args:
            function: of one client.
            dims: which axis of each argument is the clients', as vmap wants it.
            how: `compiled`, or anything else for the plain trace.
            in_place: the caller gives its arguments up: they may be written over.
            alone: the chunk is always of one client: no vmap, the plain operations.
        """
        self._function = _one(function, dims) if alone else vmap(function, dims)
        self._how = how
        self._in_place = in_place
        self._traces: dict[Any, tuple[Callable[..., Any], Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Call it; tensors of a new shape are traced first."""
        flat = [t.contiguous() for t in trees.leaves(arguments)]
        key = tuple([(t.shape, t.dtype) for t in flat])
        if key not in self._traces:
            with _TRACING:
                if key not in self._traces:
                    self._traces[key] = self._trace(arguments, flat)
        replay, example = self._traces[key]
        return trees.like(example, replay(*flat))

    def once(self, *arguments: Any) -> Any:
        """Call it without a trace, for shapes that hardly come twice."""
        return self._function(*arguments)

    def _trace(
        self, arguments: Any, flat: list[Tensor]
    ) -> tuple[Callable[..., Any], Any]:
        made: list[Any] = []

        def plain(*tensors: Tensor) -> list[Tensor]:
            out = self._function(*trees.like(arguments, tensors))
            made.append(out)
            return trees.leaves(out)

        graph: Any = make_fx(plain)(*flat)
        empty = torch.empty(0)
        example = trees.like(made[0], [empty] * len(trees.leaves(made[0])))
        compiled, cuda = self._how == "compiled", flat[0].is_cuda
        _compute_once(graph)
        if self._in_place:
            _update_in_place(graph, in_pieces=not compiled)
        if compiled:
            graph = torch._inductor.compile(graph, list[Any](flat))
        if cuda:
            graph = _captured(graph, flat)
        return graph, example


def _one(function: Callable[..., Any], dims: tuple[Any, ...]) -> Callable[..., Any]:
    """What vmap comes to for a single client, without it."""

    def picked(argument: Any, dim: Any) -> Any:
        if dim is None:
            return argument
        if isinstance(dim, tuple):
            pairs = zip(argument, dim, strict=True)
            return type(argument)(*(picked(a, d) for a, d in pairs))
        return trees.like(argument, [leaf[0] for leaf in trees.leaves(argument)])

    def lifted(*arguments: Any) -> Any:
        given = (picked(a, d) for a, d in zip(arguments, dims, strict=True))
        out = function(*given)
        return trees.like(out, [leaf.unsqueeze(0) for leaf in trees.leaves(out)])

    return lifted


def _compute_once(graph: Any) -> None:
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


def _update_in_place(graph: Any, in_pieces: bool) -> None:
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


def _captured(
    graph: Callable[..., Any], flat: list[Tensor], record: Any = None
) -> Callable[..., Any]:
    """The graph with memory of its own, so that it can be replayed in one launch.

    What it returns lies in that memory and is valid until the next call.

    Args:
        graph: the trace.
        flat: inputs of the shapes it takes.
        record: (graph, inputs) → (outputs, replay); by default a CUDA graph.
    """
    held = [t.clone() for t in flat]
    recorder: Any = record or _cuda_graph
    out, again = recorder(graph, held)
    for tensor in out:
        tensor.is_reused = True
    places = [t.data_ptr() for t in held]
    returned = {t.data_ptr() for t in out}
    fixed = [place not in returned for place in places]  # the graph only reads it
    seen: list[Any] = [None] * len(held)  # what an input was copied from

    def replay(*tensors: Tensor) -> Any:
        moves = []
        for i, given in enumerate(tensors):
            place = given.data_ptr()
            if place == places[i] or given is seen[i]:
                continue
            lasting = fixed[i] and not hasattr(given, "is_reused")
            seen[i] = given if lasting else None
            moves.append((i, given.clone() if place in places else given))
        for i, given in moves:
            held[i].copy_(given)
        again()
        return out

    return replay


def _cuda_graph(
    graph: Callable[..., Any], held: list[Tensor]
) -> tuple[list[Any], Callable[[], None]]:
    """Record the graph on a stream of its own, after two runs to warm up."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            graph(*held)
    torch.cuda.current_stream().wait_stream(stream)
    recorded = torch.cuda.CUDAGraph()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # begin and end may have nothing to do
        with torch.cuda.graph(recorded):
            out = graph(*held)
    return list(out), recorded.replay
