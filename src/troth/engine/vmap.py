"""Vectorize functions of one client over many clients, by vmap and torch.compile.

`torch.func.vmap` lifts a function of one client over the clients of a chunk. The result
is traced once per shape into plain tensor operations. These are replayed without the
overhead of vmap and autograd. The trace can be compiled. On CUDA it is captured as a
CUDA graph, except if it has only a few operations.
"""

import threading
import types
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap

from troth import compat
from troth.engine import trace
from troth.networks import flat as trees

_TRACING = threading.Lock()  # only one thread traces at a time
_FEW = 8  # up to this number of operations, a CUDA graph is no faster


class Lifted:
    """A function of one client, vectorized over a chunk and replayed from traces."""

    def __init__(
        self,
        function: Callable[..., Any],
        dims: tuple[Any, ...],
        how: str,
        in_place: bool = False,
        alone: bool = False,
    ) -> None:
        """Set up the function; tracing is done in the first call.

        Args:
            function: Function of one client.
            dims: Client axis of each argument, in the form of vmap's `in_dims`.
            how: How clients are computed (see `Plan`).
            in_place: Whether the arguments may be overwritten.
            alone: Whether chunks have one client, so that vmap is not needed.
        """
        self._function = _one(function, dims) if alone else vmap(function, dims)
        self._how = how
        self._in_place = in_place
        self._traces: dict[Any, tuple[Callable[..., Any], Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Call the vectorized function; for new shapes, trace it first."""
        flat = [t.contiguous() for t in trees.leaves(arguments)]
        key = tuple([(t.shape, t.dtype) for t in flat])
        if key not in self._traces:
            with _TRACING:
                if key not in self._traces:
                    self._traces[key] = self._trace(arguments, flat)
        replay, example = self._traces[key]
        return trees.like(example, replay(*flat))

    def once(self, *arguments: Any) -> Any:
        """Call the lifted function without a trace, for shapes that rarely repeat."""
        with compat.quiet_fallback():
            return self._function(*arguments)

    def _trace(
        self, arguments: Any, flat: list[Tensor]
    ) -> tuple[Callable[..., Any], Any]:
        made: list[Any] = []

        def plain(*tensors: Tensor) -> list[Tensor]:
            out = self._function(*trees.like(arguments, tensors))
            made.append(out)
            return trees.leaves(out)

        seen = {id(t): i for i, t in reversed([*enumerate(flat)])}
        apart = (t if seen[id(t)] == i else t.detach() for i, t in enumerate(flat))
        with compat.quiet_fallback():
            # A tensor that is given twice is two inputs.
            graph: Any = compat.traced(plain)(*apart)
        empty = torch.empty(0)
        example = trees.like(made[0], [empty] * len(trees.leaves(made[0])))
        compiled = self._how == "compiled"
        trace.compute_once(graph)
        if captures(flat[0]) and not compiled:
            trace.by_kernels(graph)
        if self._in_place:
            trace.update_in_place(graph, in_pieces=not compiled)
        worth_it = self._in_place or len(graph.graph.nodes) > _FEW + len(flat)
        if compiled:
            graph = compat.compile_graph(graph, flat)
        if captures(flat[0]):
            graph = _captured(graph, flat) if worth_it else _marked(graph)
        return graph, example


def compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Compile a plain function of tensors, once per shape.

    Kernels are not chosen by measurement, because this could change the order of a sum.
    So results are the same in every process.
    """
    whole: Any = function
    # A copy of the code: torch compiles at most eight variants of the same code.
    code = whole.__code__.replace(co_name=f"{whole.__name__}_compiled")
    named = whole.__globals__, whole.__name__, whole.__defaults__, whole.__closure__
    own = types.FunctionType(code, *named)
    return torch.compile(own, dynamic=False, options=compat.compile_options())


def _one(function: Callable[..., Any], dims: tuple[Any, ...]) -> Callable[..., Any]:
    """Return a function that equals vmap for a chunk of one client, without vmap."""

    def picked(argument: Any, dim: Any) -> Any:
        if dim is None:
            return argument
        if isinstance(dim, tuple):
            pairs = zip(argument, dim, strict=True)
            return type(argument)(*(picked(a, d) for a, d in pairs))
        return trees.mapped(lambda leaf: leaf[0], argument)

    def lifted(*arguments: Any) -> Any:
        given = (picked(a, d) for a, d in zip(arguments, dims, strict=True))
        return trees.mapped(lambda leaf: leaf.unsqueeze(0), function(*given))

    return lifted


def captures(tensor: Tensor) -> bool:
    """Return whether work on this tensor's device is captured as CUDA graphs."""
    return tensor.is_cuda


def _marked(graph: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that replays a graph without a CUDA graph.

    If the memory of an output will be reused, the output is marked by an attribute
    `is_reused`.
    """

    def replay(*tensors: Tensor) -> Any:
        out = graph(*tensors)
        lent = [t for t in tensors if hasattr(t, "is_reused") or hasattr(t, "is_kept")]
        places = {t.untyped_storage().data_ptr() for t in lent}
        for tensor in out:
            if tensor.untyped_storage().data_ptr() in places:
                tensor.is_reused = True
        return out

    return replay


def _captured(
    graph: Callable[..., Any], flat: list[Tensor], record: Any = None
) -> Callable[..., Any]:
    """Return a function that replays a graph in one launch, with fixed memory.

    Outputs are in this memory, and are valid until the next call. Inputs are copied to
    it, except those with an attribute `is_kept`: the caller fills the same tensor again
    before each call. If such a tensor is also another input, that input is copied,
    because it may be overwritten. `record` is a function (graph, inputs) → (outputs,
    replay); the default records a CUDA graph.
    """
    kept = {id(t): i for i, t in reversed([*enumerate(flat)]) if hasattr(t, "is_kept")}
    held = [t if kept.get(id(t)) == i else t.clone() for i, t in enumerate(flat)]
    out, again = (record or _cuda_graph)(graph, held)
    for tensor in out:
        tensor.is_reused = True
    places = [t.data_ptr() for t in held]
    returned = {t.data_ptr() for t in out}
    fixed = [place not in returned for place in places]  # the graph does not change it
    seen: list[Any] = [None] * len(held)  # tensor from which an input was copied
    moving = {place for i, place in enumerate(places) if i not in kept.values()}

    def replay(*tensors: Tensor) -> Any:
        moves = []
        for i, given in enumerate(tensors):
            place = given.data_ptr()
            if place == places[i] or given is seen[i]:
                continue
            lasting = fixed[i] and not hasattr(given, "is_reused")
            seen[i] = given if lasting else None
            moves.append((i, given.clone() if place in moving else given))
        for i, given in moves:
            held[i].copy_(given)
        again()
        return out

    return replay


def _cuda_graph(
    graph: Callable[..., Any], held: list[Tensor]
) -> tuple[list[Any], Callable[[], None]]:
    """Record a CUDA graph after two warm-up calls; return (outputs, replay).

    If the current stream is not the default one, the graph is recorded on it. Graphs
    that were recorded on one stream share the working memory of cuBLAS, which would be
    overwritten if several streams replayed such graphs at the same time.
    """
    here = torch.cuda.current_stream()
    own = None if here == torch.cuda.default_stream() else here
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            graph(*held)
    torch.cuda.current_stream().wait_stream(stream)
    recorded = torch.cuda.CUDAGraph()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a graph may be empty
        with torch.cuda.graph(recorded, stream=own):
            out = graph(*held)
    return list(out), recorded.replay
