"""Test whether vmap can lift a network over clients, and name the obstacles."""

import copy
import math
import re
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.dropout import _DropoutNd
from torch.utils._pytree import tree_flatten, tree_unflatten

from troth.networks import flat
from troth.networks.batchnorm import BatchNorm, adapt
from troth.types import Refusal

_CLIENTS = 2


_Call = tuple[tuple[Any, ...], dict[str, Any]]  # args and kwargs of a module's call


def check(module: nn.Module, x: Tensor) -> None:
    """Refuse a network that vmap(grad) cannot lift over clients.

    The network runs once to record the inputs of each layer. Then each layer is tried
    separately, innermost first, with the stacked parameters of two clients. One refusal
    lists every layer that fails, with its type and the reason. A module that contains
    layers is tried only if all of them pass. Batch normalization and dropout are tried
    in the form that the engine uses (`batchnorm`). The network itself is left
    unchanged.
    """
    if not any(p.requires_grad for p in module.parameters()):
        raise Refusal(
            f"the model ({type(module).__name__}) has 0 trainable parameters; it needs "
            "at least one with requires_grad = True"
        )
    own = adapt(_copy(module)).train()
    for part in own.modules():
        if isinstance(part, BatchNorm):  # `task` tries its running statistics
            part.frozen_statistics = True
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a slow batching rule is no obstacle
        calls, outputs = _run(own, x)
        offences = _offences(own, calls, _changed(module, own))
    if offences:
        raise Refusal(
            "this model cannot be trained for many clients at once: "
            + "; ".join(reversed(offences.values()))
        )
    _expect_rows(module, outputs, x)


def _copy(module: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(module)
    except Exception as error:  # whatever a network may raise
        raise Refusal(
            f"the model ({type(module).__name__}) cannot be copied, and every client "
            f"needs one: {_sentence(error)}"
        ) from None


def _run(module: nn.Module, x: Tensor) -> tuple[dict[nn.Module, _Call], Any]:
    """Run a module; return the first call of every module in it, and the outputs."""
    calls: dict[nn.Module, _Call] = {}

    def see(part: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        leaves, form = tree_flatten((args, kwargs))
        kept = [t.detach().clone() if isinstance(t, Tensor) else t for t in leaves]
        calls.setdefault(part, tree_unflatten(kept, form))

    parts = list(module.modules())
    hooks = [p.register_forward_pre_hook(see, with_kwargs=True) for p in parts]
    try:
        with torch.no_grad():
            return calls, module(x)
    except Exception as error:  # whatever a network may raise
        raise Refusal(
            f"the model ({type(module).__name__}) does not accept a batch of shape "
            f"{list(x.shape)} and type {_kind(x)}: {_sentence(error)}"
        ) from None
    finally:
        for hook in hooks:
            hook.remove()


def _expect_rows(module: nn.Module, outputs: Any, x: Tensor) -> None:
    got = type(outputs).__name__
    if isinstance(outputs, Tensor):
        if outputs.is_floating_point() and outputs.shape[:1] == x.shape[:1]:
            return
        got = f"shape {list(outputs.shape)} of {_kind(outputs)}"
    raise Refusal(
        f"the model ({type(module).__name__}) must return one tensor of floats with "
        f"one row per example, and for {x.shape[0]} examples it returned {got}"
    )


def _changed(before: nn.Module, after: nn.Module) -> set[str]:
    """Return the names of modules that wrote to their own buffers in a call."""
    old = dict(before.named_buffers())
    return {
        name.rpartition(".")[0]
        for name, new in after.named_buffers()
        if name not in old or not torch.equal(old[name], new)
    }


def _offences(
    module: nn.Module, calls: dict[nn.Module, _Call], changed: set[str]
) -> dict[str, str]:
    """Map names of modules to obstacles, children before parents.

    Modules that contain an obstacle are left out.
    """
    found: dict[str, str] = {}
    for name, part in reversed(list(module.named_modules())):
        if any(not name or other.startswith(f"{name}.") for other in found):
            continue
        why = _by_type(part)
        if why is None and name in changed:
            why = "changes its own buffers as it runs, make it stateless"
        if why is None and part in calls:
            why = _by_trial(part, calls[part])
        if why is not None:
            layer = f"layer '{name}'" if name else "the model itself"
            found[name] = f"{layer} ({type(part).__name__}) {why}"
    return found


def _by_type(part: nn.Module) -> str | None:
    if isinstance(part, _NormBase):
        return _by_statistics(part)
    if isinstance(part, _DropoutNd) and part.p > 0:
        return f"drops at random with p = {part.p:g}, use nn.Dropout or set p = 0"
    if isinstance(part, nn.RNNBase):
        return "is recurrent, which vmap does not support, use convolutions or cells"
    return None


def _by_statistics(part: _NormBase) -> str | None:
    """Return why a normalization with running statistics cannot be lifted, or None.

    Our batch normalization can be lifted; torch's cannot.
    """
    if isinstance(part, BatchNorm):  # refuse values that make variances invalid
        if not 0 <= (part.momentum or 0.0) <= 1:
            return f"has momentum = {part.momentum:g}, set one of 0 to 1, such as 0.1"
        if not 0 < part.eps < math.inf:
            return f"has eps = {part.eps:g}, set a positive one, such as 1e-5"
        return None
    batch = isinstance(part, _BatchNorm)
    if part.running_mean is None:
        mixes = "normalizes by the batch in tests too, which mixes clients, set "
        return mixes + "track_running_stats = True" if batch else None
    if batch and part.momentum is None:
        return "averages its statistics over all batches, set a momentum, such as 0.1"
    return "keeps running statistics in a way of its own, use BatchNorm or GroupNorm"


def _by_trial(part: nn.Module, call: _Call) -> str | None:
    """Try vmap(grad) with stacked parameters and inputs; return why it fails."""
    leaves, form = tree_flatten(call)
    given = {str(i): t for i, t in enumerate(leaves) if isinstance(t, Tensor)}
    real = {i: t for i, t in given.items() if t.is_floating_point()}
    whole = {i: t for i, t in given.items() if i not in real}

    def total(
        weights: dict[str, Tensor], real: dict[str, Tensor], whole: dict[str, Tensor]
    ) -> Tensor:
        values = leaves.copy()
        for i, value in {**real, **whole}.items():
            values[int(i)] = value.clone()  # a layer may work in place
        args, kwargs = tree_unflatten(values, form)
        outputs, _ = tree_flatten(flat.call(part, weights, args, kwargs))
        sums = [t.sum() for t in outputs if isinstance(t, Tensor)]
        return sum((s for s in sums if s.is_floating_point()), torch.zeros(()))

    weights = {n: p.detach() for n, p in part.named_parameters() if p.requires_grad}
    try:
        with torch.enable_grad():
            lifted = torch.func.vmap(torch.func.grad(total, argnums=(0, 1)))
            lifted(_stack(weights), _stack(real), _stack(whole))
    except Exception as error:  # whatever a network may raise
        own = any(part.children())
        return ("fails in its own forward: " if own else "") + _reason(error)
    return None


def _stack(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: torch.stack([t] * _CLIENTS) for name, t in tensors.items()}


def _reason(error: Exception) -> str:
    """Explain an error of vmap in terms of the user's code."""
    text = str(error)
    if "item()" in text or "data-dependent" in text:
        return (
            "decides in Python by a tensor's value (if, .item(), float()), "
            "use torch.where"
        )
    if "random" in text:
        return "draws random numbers, set its dropout to 0 or draw outside the model"
    if "data pointer" in text:
        return "leaves torch (numpy, tolist), stay with torch's functions"
    if "dynamic shape" in text or "nonzero" in text:
        return "makes a shape that depends on values (a mask), use torch.where"
    return f"cannot be lifted by torch ({_sentence(error)})"


def _sentence(error: Exception) -> str:
    """Return the first sentence of a message, on one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return re.split(r"(?<=[.;!?])\s", text)[0].rstrip(".;")[:200]


def _kind(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")
