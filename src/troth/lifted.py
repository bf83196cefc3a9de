"""The only vmap and the only torch.compile: one-client functions over many clients.

A function of one client is lifted over the rows of a chunk by `torch.func.vmap`, and
what that comes to is traced once for each shape into plain tensor operations, which
are then replayed: without the costs of vmap and autograd, and without a compiler. The
trace can be compiled, and on CUDA it is captured as a graph.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap
from torch.fx.experimental.proxy_tensor import make_fx

from troth import trees

_TRACING = threading.Lock()  # a thread at a time


class Lifted:
    """A one-client function over a chunk, replayed from a trace a shape."""

    def __init__(
        self,
        function: Callable[..., Any],
        dims: tuple[Any, ...],
        how: str,
        in_place: bool = False,
    ) -> None:
        """Nothing is traced yet.

        Args:
            function: of one client.
            dims: which axis of each argument is the clients', as vmap wants it.
            how: `compiled`, or anything else for the plain trace.
            in_place: the caller gives its arguments up: they may be written over.
        """
        self._function, self._how = vmap(function, dims), how
        self._in_place = in_place
        self._traces: dict[Any, tuple[Callable[..., Any], Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Call it; tensors of a new shape are traced first."""
        flat = [t.contiguous() for t in trees.leaves(arguments)]
        key = tuple([t.shape for t in flat])
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
        if self._in_place:
            _update_in_place(graph, in_pieces=not compiled)
        if compiled:
            graph = torch._inductor.compile(graph, list[Any](flat))
        if cuda:
            graph = _captured(graph, flat)
        return graph, example


def _update_in_place(graph: Any, in_pieces: bool) -> None:
    """Let v ← v − lr·g happen in v's own memory: no gathered g, no copy of v.

    Only where the update is the last use of v.

    Args:
        graph: a trace; it is changed.
        in_pieces: update parameter by parameter, which saves gathering g; a compiler
            fuses the gathering and does better with the whole.
    """
    outputs = graph.graph.output_node().args[0]
    aten, order = torch.ops.aten, {n: i for i, n in enumerate(graph.graph.nodes)}
    for node in [n for n in outputs if n.target is aten.addcmul.default]:
        v, g, rate = node.args
        if v.op != "placeholder" or outputs.count(node) > 1:
            continue
        if any(order[user] > order[node] for user in v.users):
            continue
        gathered = g.target is aten.cat.default and g.args[1:] == (1,)
        apart = in_pieces and gathered and len(g.users) == 1
        pieces = g.args[0] if apart else [g]
        with graph.graph.inserting_before(node):
            first = 0
            for piece in pieces:
                last = first + piece.meta["val"].shape[1]
                part = graph.graph.call_function(aten.slice.Tensor, (v, 1, first, last))
                graph.graph.call_function(aten.addcmul_.default, (part, piece, rate))
                first = last
        node.replace_all_uses_with(v)
        graph.graph.erase_node(node)
        if apart:
            graph.graph.erase_node(g)
    graph.recompile()


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
    seen: list[Any] = [None] * len(held)  # what each input was copied from
    recorder: Any = record or _cuda_graph
    out, again = recorder(graph, held)
    for tensor in out:
        tensor.is_reused = True

    def replay(*tensors: Tensor) -> Any:
        for i, given in enumerate(tensors):
            if given is seen[i] or given.data_ptr() == held[i].data_ptr():
                continue
            held[i].copy_(given)  # the same object may hold other numbers next time
            seen[i] = None if hasattr(given, "is_reused") else given
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
