"""Private or experimental interfaces of torch; no other module uses these.

If a version of torch changes one of them, only this module and its test must change.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm as BatchNormBase
from torch.nn.modules.batchnorm import _NormBase as NormBase
from torch.nn.modules.dropout import _DropoutNd as DropoutBase
from torch.utils._pytree import tree_flatten, tree_unflatten

__all__ = [
    "BatchNormBase",
    "DropoutBase",
    "NormBase",
    "compile_graph",
    "compile_options",
    "is_lifted",
    "is_wrapped",
    "layers_of",
    "quiet_fallback",
    "traced",
    "tree_flatten",
    "tree_unflatten",
]

_functorch: Any = torch._C._functorch


def is_wrapped(x: Tensor) -> bool:
    """Return whether vmap or grad wraps a tensor."""
    return bool(_functorch.is_functorch_wrapped_tensor(x))


def layers_of(x: Tensor) -> Iterator[Tensor]:
    """Yield a tensor, then the tensors inside its vmap and grad wrappers."""
    yield x
    while is_wrapped(x):
        x = _functorch.get_unwrapped(x)
        yield x


def is_lifted(x: Tensor) -> bool:
    """Return whether vmap wraps a tensor, at any level of nesting."""
    return any(_functorch.is_batchedtensor(one) for one in layers_of(x))


@contextmanager
def quiet_fallback() -> Iterator[None]:
    """Within the block, suppress vmap's warning about operations computed in a loop."""
    _functorch._set_vmap_fallback_warning_enabled(False)
    try:
        yield
    finally:
        _functorch._set_vmap_fallback_warning_enabled(True)


def traced(function: Callable[..., Any]) -> Callable[..., torch.fx.GraphModule]:
    """Return a function that records the operations of `function` as a graph.

    Args:
        function: Function of tensors. The returned function has the same arguments.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(function)


def compile_graph(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Any:
    """Compile a traced graph for inputs of these shapes."""
    return torch._inductor.compile(graph, list[Any](inputs))


def compile_options() -> dict[str, Any]:
    """Return options of the compiler that forbid choosing kernels by measurement.

    Otherwise another process could choose another kernel, with sums in another order.
    Versions of torch without this option do not measure kernels.
    """
    known = hasattr(torch._inductor.config, "deterministic")
    return {"deterministic": True} if known else {}
