"""Find the layers because of which vmap cannot compute many clients at once.

These obstacles do not prevent training: clients are then trained one at a time. An
obstacle lists the possible plans, that is, the ways in which the engine can train
clients.
"""

import copy
import math
import re
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from troth.compat import BatchNormBase, tree_flatten, tree_unflatten
from troth.networks import flat
from troth.networks.batchnorm import BatchNorm, Replacing, adapt
from troth.types import Refusal

_CLIENTS = 2
_KEY = torch.zeros((), dtype=torch.long)  # random key of dropout functions in a trial


_Call = tuple[tuple[Any, ...], dict[str, Any]]  # args and kwargs of a module's call


_LIFTED = ("vmap", "compiled", "threads", "loop")
_APART = ("threads", "loop")
_LOOP = ("loop",)
"""Possible plans: if a layer is only slow with vmap; if it does not work with vmap; and
if it also uses state that all threads share, such as torch's random generator."""


class Obstacle(NamedTuple):
    """A layer that vmap cannot compute for many clients at once, or only slowly."""

    layer: str  # name in the model; "" is the model itself
    kind: str  # name of the layer's class
    why: str  # reason, the end of a sentence
    plans: tuple[str, ...] = _APART  # possible plans

    def __str__(self) -> str:
        return f"{_place(self.layer, self.kind)} {self.why}"


def remaining(obstacles: Iterable[Obstacle]) -> tuple[str, ...]:
    """Return the plans that are possible with all obstacles (`engine.local_training`).

    Example:
    >>> remaining([]), remaining([Obstacle("1", "LSTM", "is recurrent")])
    (('vmap', 'compiled', 'threads', 'loop'), ('threads', 'loop'))
    """
    every = list(obstacles)
    return tuple(p for p in _LIFTED if all(p in o.plans for o in every))


def sentence(obstacles: Iterable[Obstacle]) -> str:
    """Return a sentence with the obstacles and how clients are trained."""
    every = list(obstacles)
    barring = [o for o in every if "vmap" not in o.plans]
    listed = "; ".join(map(str, barring or every))
    if barring:
        return f"clients are trained one at a time, because {listed}"
    return f"clients are trained together, but slowly, because {listed}"


def check(module: nn.Module, x: Tensor) -> tuple[Obstacle, ...]:
    """Return the layers that vmap cannot compute for many clients, or only slowly.

    The network is called once to record the inputs of each layer. Then each layer is
    tried separately with the stacked parameters of two clients: its gradient in
    training, and its outputs in prediction. A module that contains other layers is
    tried only if all of these work. Layers for batch normalization and dropout are
    first replaced by those of `batchnorm`. The network itself is not changed.

    Args:
        module: Network. If it is a model behind its normalization, names of layers are
            those in the model.
        x: A few examples, [b, …].

    Raises:
        Refusal: If the network cannot be trained at all, for example because it cannot
            compute outputs for these examples.
    """
    bare = flat.bare(module)[1]
    kind = type(bare).__name__
    if not any(p.requires_grad for p in module.parameters()):
        raise Refusal(
            f"the model ({kind}) has 0 trainable parameters; it needs "
            "at least one with requires_grad = True"
        )
    own = adapt(_copy(module, kind)).train()
    model = flat.bare(own)[1]
    for name, part in model.named_modules():
        _refuse_norm(name, part)
        if isinstance(part, BatchNorm):  # `task` checks its running statistics
            part.frozen_statistics = True
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = torch.random.get_rng_state()
        calls, outputs = _run(own, x, kind)
        draws = not torch.equal(before, torch.random.get_rng_state())
        _refuse_state(model, _changed(bare, model))
        obstacles = _obstacles(model, calls)
    _expect_rows(outputs, x, kind)
    return tuple(o._replace(plans=_LOOP) if draws else o for o in obstacles)


def _copy(module: nn.Module, kind: str) -> nn.Module:
    try:
        return copy.deepcopy(module)
    except Exception as error:  # whatever a network may raise
        raise Refusal(
            f"the model ({kind}) cannot be copied, and every client "
            f"needs one: {_sentence(error)}"
        ) from None


def _run(module: nn.Module, x: Tensor, kind: str) -> tuple[dict[nn.Module, _Call], Any]:
    """Call a module; return the first call of every module in it, and the outputs."""
    calls: dict[nn.Module, _Call] = {}

    def see(part: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        leaves, form = tree_flatten((args, kwargs))
        kept = [t.detach().clone() if isinstance(t, Tensor) else t for t in leaves]
        calls.setdefault(part, tree_unflatten(kept, form))

    parts = list(module.modules())
    hooks = [p.register_forward_pre_hook(see, with_kwargs=True) for p in parts]
    try:
        with torch.enable_grad(), Replacing(_KEY):
            return calls, module(x)
    except Exception as error:  # whatever a network may raise
        why = _sentence(error)
        if "type" in why and "Long" in why and x.is_floating_point():
            why += "; inputs arrive as floats: write x.long() in its forward"
        raise Refusal(
            f"the model ({kind}) does not accept a batch of shape "
            f"{list(x.shape)} and type {_kind(x)}: {why}"
        ) from None
    finally:
        for hook in hooks:
            hook.remove()


def _expect_rows(outputs: Any, x: Tensor, kind: str) -> None:
    got = type(outputs).__name__
    if isinstance(outputs, Tensor):
        if outputs.is_floating_point() and outputs.shape[:1] == x.shape[:1]:
            if outputs.requires_grad:
                return
            raise Refusal(
                f"the outputs of the model ({kind}) have no gradient, "
                "so it cannot be trained; remove detach(), numpy() and torch.no_grad() "
                "from its forward"
            )
        got = f"shape {list(outputs.shape)} of {_kind(outputs)}"
    raise Refusal(
        f"the model ({kind}) must return one tensor of floats with "
        f"one row per example, and for {x.shape[0]} examples it returned {got}"
    )


def _changed(before: nn.Module, after: nn.Module) -> set[str]:
    """Return the names of modules whose buffers changed in a call."""
    old = dict(before.named_buffers())
    return {
        name.rpartition(".")[0]
        for name, new in after.named_buffers()
        if name not in old or not torch.equal(old[name], new)
    }


def _obstacles(
    module: nn.Module, calls: dict[nn.Module, _Call]
) -> tuple[Obstacle, ...]:
    """Return the innermost layers that are obstacles, in the network's order."""
    found: dict[str, Obstacle] = {}
    for name, part in reversed(list(module.named_modules())):
        if any(not name or other.startswith(f"{name}.") for other in found):
            continue
        kind = type(part).__name__
        if isinstance(part, nn.RNNBase):
            why = "is recurrent, which vmap does not support"
            found[name] = Obstacle(name, kind, why)
        elif part in calls and (trial := _tried(part, calls[part])):
            found[name] = Obstacle(name, kind, *trial)
    return tuple(reversed(found.values()))


def _refuse_norm(name: str, part: nn.Module) -> None:
    """Raise Refusal for batch normalization with bad settings or without statistics."""
    why = None
    if isinstance(part, BatchNorm):  # these would make variances invalid
        if not 0 <= (part.momentum or 0.0) <= 1:
            why = f"has momentum = {part.momentum:g}; set one of 0 to 1, such as 0.1"
        elif not 0 < part.eps < math.inf:
            why = f"has eps = {part.eps:g}; set a positive one, such as 1e-5"
    elif isinstance(part, BatchNormBase) and part.running_mean is None:
        why = (
            "normalizes by the batch in tests too, so that the prediction for an "
            "example depends on the other examples; set track_running_stats = True"
        )
    if why:
        raise Refusal(f"{_place(name, type(part).__name__)} {why}")


def _refuse_state(module: nn.Module, changed: set[str]) -> None:
    """Raise Refusal if layers change their buffers in a call."""
    named = module.named_modules()
    bad = [_place(n, type(m).__name__) for n, m in named if n in changed]
    if bad:
        raise Refusal(
            f"{', '.join(bad)} changes its own buffers as it runs, which no client "
            "sends; use BatchNorm or GroupNorm, or make it stateless"
        )


def _place(name: str, kind: str) -> str:
    return f"{f'layer {name!r}' if name else 'the model'} ({kind})"


def _tried(part: nn.Module, call: _Call) -> tuple[str, tuple[str, ...]] | None:
    """Try a module with vmap over two clients, in training and in prediction.

    If this fails or is slow, return the reason and the possible plans.
    """
    leaves, form = tree_flatten(call)
    given = {str(i): t for i, t in enumerate(leaves) if isinstance(t, Tensor)}
    real = {i: t for i, t in given.items() if t.is_floating_point()}
    whole = {i: t for i, t in given.items() if i not in real}

    def total(
        weights: dict[str, Tensor], real: dict[str, Tensor], whole: dict[str, Tensor]
    ) -> Tensor:
        values = leaves.copy()
        for i, value in {**real, **whole}.items():
            values[int(i)] = value.clone()  # a layer may change its input
        args, kwargs = tree_unflatten(values, form)
        outputs, _ = tree_flatten(flat.call(part, weights, args, kwargs))
        sums = [t.sum() for t in outputs if isinstance(t, Tensor)]
        return sum((s for s in sums if s.is_floating_point()), torch.zeros(()))

    weights = {n: p.detach() for n, p in part.named_parameters() if p.requires_grad}
    stacked = _stack(weights), _stack(real), _stack(whole)
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            with torch.enable_grad(), Replacing(_KEY):
                torch.func.vmap(torch.func.grad(total, argnums=(0, 1)))(*stacked)
            part.eval()
            with torch.no_grad():
                torch.func.vmap(total)(*stacked)
    except Exception as error:  # whatever a network may raise
        own = "fails in its own forward: " if any(part.children()) else ""
        return own + _reason(error), _APART
    finally:
        part.train()
    slow = [re.search(r"batching rule for (\S+?)\.", str(w.message)) for w in heard]
    names = sorted({found[1].removeprefix("aten::") for found in slow if found})
    if names and not any(part.children()):
        why = f"calls {', '.join(names)}, which torch computes client by client"
        return why, _LIFTED
    return None


def _stack(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: torch.stack([t] * _CLIENTS) for name, t in tensors.items()}


def _reason(error: Exception) -> str:
    """Explain an error of vmap in terms of the user's code."""
    text = str(error)
    if "item()" in text or "data-dependent" in text:
        return "decides in Python by a tensor's value (if, .item(), float())"
    if "random" in text:
        return "draws random numbers from torch's generator"
    if "data pointer" in text:
        return "leaves torch (numpy, tolist)"
    if "dynamic shape" in text or "nonzero" in text:
        return "makes a shape that depends on values (a mask)"
    if "setup_context" in text:
        return "has a custom gradient without setup_context"
    return f"cannot be lifted by torch ({_sentence(error)})"


def _sentence(error: Exception) -> str:
    """Return the first sentence of a message, on one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return re.split(r"(?<=[.;!?])\s", text)[0].rstrip(".;")[:200]


def _kind(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")
