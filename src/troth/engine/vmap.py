"""Vectorize functions of one client over many clients, by vmap and torch.compile.

`torch.func.vmap` lifts a function of one client over the clients of a chunk. The result
is traced once per shape into plain tensor operations. These are replayed without the
overhead of vmap and autograd. The trace can be compiled. On CUDA it is captured as a
CUDA graph, except if it has only a few operations.
"""

import copy
import functools
import threading
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import vmap

from troth import compat
from troth.engine import images, trace
from troth.networks import flat as trees
from troth.types import Batch

_ROWS = torch.contiguous_format
_TRACING = threading.Lock()  # only one thread traces at a time
_GRAPHS = 3  # graphs of all steps of a phase
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
        key = _shapes(flat)
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

    def captures(self, tensor: Tensor) -> bool:
        """Return whether calls with this tensor's device are captured, uncompiled."""
        return captures(tensor) and self._how != "compiled"

    def _trace(
        self, arguments: Any, flat: list[Tensor]
    ) -> tuple[Callable[..., Any], Any]:
        graph, example = self._graph(arguments, flat)
        compiled = self._how == "compiled"
        if self._in_place:
            trace.update_in_place(graph, in_pieces=not compiled)
        elif self.captures(flat[0]):
            trace.subtract_at_once(graph)
        worth_it = self._in_place or len(graph.graph.nodes) > _FEW + len(flat)
        if compiled:
            graph = compat.compile_graph(graph, flat)
        if captures(flat[0]):
            graph = _captured(graph, flat) if worth_it else _marked(graph)
        return graph, example

    def _graph(self, arguments: Any, flat: list[Tensor]) -> tuple[Any, Any]:
        """Trace the function; return the graph and the structure of its result."""
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
        trace.compute_once(graph)
        if self.captures(flat[0]):
            trace.by_kernels(graph)
            images.pool_at_once(graph)
            trace.read_in_place(graph)
        return graph, example

    def graphs(self, *arguments: Any) -> "Graphs":
        """Trace the function for these arguments, and do not capture the trace."""
        flat = [t.contiguous() for t in trees.leaves(arguments)]
        with _TRACING:
            graph, example = self._graph(arguments, flat)
        first = copy.deepcopy(graph)
        results = trace.update_in_place(first, in_pieces=True, apart=True)
        if self._in_place:
            trace.update_in_place(graph, in_pieces=True)
        return Graphs(graph, first, results, example)


class Graphs(NamedTuple):
    """The trace of a function, in two forms."""

    again: Callable[..., list[Tensor]]  # may overwrite its inputs
    first: Callable[..., list[Tensor]]  # writes to further inputs instead
    results: list[int]  # numbers of the inputs that these have the shape of
    example: Any  # structure of the result


class Whole:
    """The beginning and all steps of a phase, captured together as one CUDA graph.

    A step of few clients, or with a small network, takes the device less time than the
    host needs to start it. In the first step, the model that all clients begin with is
    read where it is; no client gets a copy of it.
    """

    def __init__(self, begin: Lifted, step: Lifted, record: Any = None) -> None:
        """Set up the phase; tracing is done in the first call.

        Args:
            begin: Lifted function of the phase that makes the carry.
            step: Lifted function of a step.
            record: See `_captured`.
        """
        self._begin, self._step, self._record = begin, step, record
        self._known: dict[Any, tuple[Callable[..., Any], Any]] = {}

    def __call__(
        self, index: Tensor, broadcast: Any, state: Any, batches: Batch, valid: Batch
    ) -> Any:
        """Return the carry after the steps.

        Args:
            index: [c] numbers of the rows.
            broadcast: What the server sends.
            state: States of the clients.
            batches: The batches of all steps, [steps, clients, batch, …].
            valid: Validation data of the clients.
        """
        given = index, broadcast, state, batches, valid
        flat = [t.contiguous() for t in trees.leaves(given)]
        key = _shapes(flat)
        if key not in self._known:
            self._known[key] = self._capture(given, flat)
        replay, example = self._known[key]
        return trees.like(example, replay(*flat))

    def takes(self, *given: Any) -> bool:
        """Return whether a call is captured already, or may be.

        Every shape and number of steps has its own graph, which takes time and memory.
        So there are only a few of them.
        """
        known = self._known
        return len(known) < _GRAPHS or _shapes(trees.leaves(given)) in known

    def _capture(self, given: Any, flat: list[Tensor]) -> tuple[Any, Any]:
        index, broadcast, state, batches, valid = given
        begin = self._begin.graphs(index, broadcast, state)
        carry = trees.like(begin.example, begin.again(*trees.leaves(given[:3])))
        step = self._step.graphs(broadcast, carry, batches.at(0), valid)

        def run(lean: bool, *tensors: Tensor) -> list[Tensor]:
            index, broadcast, state, batches, valid = trees.like(given, tensors)
            carry = begin.again(*trees.leaves((index, broadcast, state)))
            if not lean:
                carry = [t.contiguous() for t in carry]
            for k in range(len(batches.t)):
                seen = [*carry, *trees.leaves((batches.at(k), valid))]
                seen = [*trees.leaves(broadcast), *seen]
                if k == 0:
                    outs = [
                        torch.empty_like(seen[i], memory_format=_ROWS)
                        for i in step.results
                    ]
                    carry = step.first(*seen, *outs)
                    carry = _owned(carry, tensors)
                else:
                    carry = step.again(*seen)
            return carry

        try:
            replay = _captured(functools.partial(run, True), flat, self._record)
        except RuntimeError as error:  # an operation needs a copy for each client
            if "view size" not in str(error):
                raise
            replay = _captured(functools.partial(run, False), flat, self._record)
        return replay, step.example


def _owned(tensors: list[Tensor], given: Sequence[Tensor]) -> list[Tensor]:
    """Copy the tensors that share memory with given ones, or with themselves."""
    places = {t.untyped_storage().data_ptr() for t in given}
    found = []
    for tensor in tensors:
        shared = tensor.untyped_storage().data_ptr() in places
        found.append(tensor.clone() if shared else tensor)
        places.add(found[-1].untyped_storage().data_ptr())
    return [tensor.contiguous() for tensor in found]


def _shapes(flat: list[Tensor]) -> tuple[Any, ...]:
    return tuple([(t.shape, t.dtype) for t in flat])


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
