"""The only vmap and the only torch.compile: one-client functions over many clients.

A function of one client is lifted over the rows of a chunk by `torch.func.vmap`, and
what that comes to is traced once for each shape into plain tensor operations, which
are then replayed: without the costs of vmap and autograd, and without a compiler. The
trace can be compiled, and on CUDA it is captured as a graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap
from torch.fx.experimental.proxy_tensor import make_fx

from troth import trees


class Lifted:
    """A one-client function over a chunk, replayed from a trace a shape."""

    def __init__(
        self, function: Callable[..., Any], dims: tuple[Any, ...], how: str
    ) -> None:
        self._function, self._how = vmap(function, dims), how
        self._traces: dict[Any, tuple[Callable[..., Any], Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Call it; tensors of a new shape are traced first."""
        flat = trees.leaves(arguments)
        key = tuple((t.shape, t.dtype) for t in flat)
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

        graph: Callable[..., Any] = make_fx(plain)(*flat)
        empty = torch.empty(0)
        example = trees.like(made[0], [empty] * len(trees.leaves(made[0])))
        if self._how == "compiled":
            graph = torch.compile(graph, dynamic=False)
        if flat[0].is_cuda:
            graph = _captured(graph, flat)
        return graph, example


def _captured(graph: Callable[..., Any], flat: list[Tensor]) -> Callable[..., Any]:
    """The graph as one CUDA launch; what it returns is valid until the next call."""
    held = [t.clone() for t in flat]
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            graph(*held)
    torch.cuda.current_stream().wait_stream(stream)
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        out = graph(*held)

    def replay(*tensors: Tensor) -> Any:
        for ours, given in zip(held, tensors, strict=True):
            ours.copy_(given)
        recorded.replay()
        return out

    return replay
