"""A network as a problem on a flat vector: losses, gradients, predictions.

Two forms of the same functions. `functional` is pure and can be lifted over clients and
traced; `in_place` serves one client at a time without copying its parameters.
"""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from troth.convolution import Together
from troth.types import Batch, Refusal, Task


class Objective(nn.Module):
    """Σ weight·loss(net(x), y) + penalty: what one client minimises.

    The loss of an example is the model's own `loss(outputs, y)` where the network or a
    module in it defines one, else cross-entropy (classes ≥ 1) or ½(f − y)²
    (classes = 0). A `penalty()` defined in the same way is added.

    Args:
        net: the network, normalisation included.
        classes: how many; 0 is regression.
    """

    def __init__(self, net: nn.Module, classes: int) -> None:
        super().__init__()
        self.net = net
        self.classes = classes
        self.losing = _defines(net, "loss")  # names, lest a module be held twice
        self.penalising = _defines(net, "penalty")

    def forward(self, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        """The scalar; weight [b] sums to 1 or is all 0."""
        losses = self.per_example(self.net(x), y)
        if losses.shape != weight.shape:
            raise Refusal(
                f"the loss of this model has shape {list(losses.shape)} for "
                f"{weight.shape[0]} examples; it must return one value an example"
            )
        total = (losses * weight).sum()
        if self.penalising is not None:
            total = total + cast(Any, self.net.get_submodule(self.penalising)).penalty()
        return total

    def per_example(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The loss of each example, [b], without the penalty."""
        if self.losing is not None:
            model = cast(Any, self.net.get_submodule(self.losing))
            return cast(Tensor, model.loss(outputs, y))
        if self.classes:
            return cross_entropy(outputs, y, reduction="none")
        return 0.5 * (outputs.reshape(y.shape) - y).square()


def _defines(net: nn.Module, method: str) -> str | None:
    """The name of the first module in `net` whose class has this method."""
    for name, module in net.named_modules():
        if callable(getattr(type(module), method, None)):
            return str(name)
    return None


class _Lowered(nn.Module):
    """A network computed in bfloat16 whose parameters stay as they are."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        low = {
            name: t.to(torch.bfloat16) if t.is_floating_point() else t
            for name, t in (*self.net.named_parameters(), *self.net.named_buffers())
        }
        high = next(self.net.parameters()).dtype
        x = x.to(torch.bfloat16) if x.is_floating_point() else x
        return cast(Tensor, functional_call(self.net, low, (x,))).to(high)


def _at(objective: Objective, precision: str) -> Objective:
    if precision == "bfloat16":
        return Objective(_Lowered(objective.net), objective.classes)
    if precision in ("float32", "float64"):
        return objective
    raise Refusal(
        f"precision = {precision!r} is not one of 'float32', 'float64', 'bfloat16'"
    )


class Layout(NamedTuple):
    """Where each trainable parameter lies in the flat vector."""

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]
    sizes: tuple[int, ...]
    d: int


def _trainable(module: nn.Module) -> dict[str, nn.Parameter]:
    return {n: p for n, p in module.named_parameters() if p.requires_grad}


def layout(module: nn.Module) -> Layout:
    """The layout of a module, in the order of `named_parameters`.

    Raises:
        Refusal: it has no trainable parameter.
    """
    found = _trainable(module)
    if not found:
        raise Refusal(
            f"{type(module).__name__} has 0 trainable parameters; a model needs at "
            "least one with requires_grad = True"
        )
    sizes = tuple(p.numel() for p in found.values())
    shapes = tuple(p.shape for p in found.values())
    return Layout(tuple(found), shapes, sizes, sum(sizes))


def flatten(module: nn.Module) -> Tensor:
    """A copy of the trainable parameters as one vector [d]."""
    layout(module)
    return torch.cat([p.detach().reshape(-1) for p in _trainable(module).values()])


def unflatten(place: Layout, v: Tensor) -> dict[str, Tensor]:
    """The parameters in a vector [d], by name: views, by one split (one gradient)."""
    if v.shape != (place.d,):
        raise Refusal(
            f"a vector of shape {list(v.shape)} does not fit this model, which has "
            f"{place.d} parameters; give it the model it was trained with"
        )
    pieces = torch.split(v, list(place.sizes))
    parts = zip(place.names, place.shapes, pieces, strict=True)
    return {name: part.reshape(shape) for name, shape, part in parts}


def assign(module: nn.Module, v: Tensor) -> None:
    """Copy a vector [d] into the module's trainable parameters."""
    found = _trainable(module)
    with torch.no_grad():
        for name, value in unflatten(layout(module), v).items():
            found[name].copy_(value)


def functional(
    objective: Objective, precision: str = "float32", together: bool = False
) -> Task:
    """Pure functions of a flat vector, for vmap, compilation and tracing.

    While one of them runs, the objective's module holds its tensors: two threads must
    not share an objective.

    Args:
        objective: left untouched; where its buffers are of another floating type than
            the vector given, they are converted on the way.
        precision: bfloat16 computes the network in bfloat16 and everything else
            (outputs, loss, penalty, gradient) in the type of the vector; float32 and
            float64 compute all in the type of the vector.
        together: convolutions as matrix products, for clients lifted on a GPU.
    """
    convolving = Together if together else nullcontext
    whole = _at(objective, precision)
    net = whole.net
    place = layout(net)
    buffers = {n: b for n, b in net.named_buffers() if b.is_floating_point()}

    def tensors(v: Tensor) -> dict[str, Tensor]:
        return unflatten(place, v) | {n: b.to(v.dtype) for n, b in buffers.items()}

    def loss(v: Tensor, batch: Batch) -> Tensor:
        given = {f"net.{name}": value for name, value in tensors(v).items()}
        arguments = (batch.x, batch.y, batch.weight)
        with convolving():
            return cast(Tensor, functional_call(whole, given, arguments))

    def predict(v: Tensor, x: Tensor) -> Tensor:
        with convolving():
            return cast(Tensor, functional_call(net, tensors(v), (x,)))

    return Task(place.d, whole.classes, loss, torch.func.grad(loss), predict)


def in_place(objective: Objective, precision: str = "float32") -> Task:
    """The same functions for one client, with the parameters as views of its row.

    Parameters are not copied on the way in, and on a CPU images go through convolutions
    channels-last (a step of Ditto's Fashion CNN takes 19 ms instead of 26; gathering
    gradients into the buffer afterwards is 1.5 ms faster than accumulating them there).
    `grad` returns one buffer that its next call overwrites: use it at once. The
    functions cannot be traced, lifted or differentiated through; a thread needs a Task
    of its own, and then threads do not meet.

    Args:
        objective: copied; the original is left untouched.
        precision: as in `functional`.
    """
    own = _InPlace(copy.deepcopy(_at(objective, precision)))
    return Task(own.place.d, objective.classes, own.loss, own.grad, own.predict)


class _InPlace:
    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.place = layout(objective)
        self.parameters = list(_trainable(objective).values())
        self.flat = torch.empty(0)
        self.parts: list[Tensor] = []
        for module in objective.modules():
            if isinstance(module, nn.Conv2d):
                module.register_forward_pre_hook(_channels_last)

    def point(self, v: Tensor) -> None:
        """Make every parameter a view of v."""
        v = v.detach()
        if v.dtype != self.flat.dtype or v.device != self.flat.device or not self.parts:
            self.objective.to(device=v.device, dtype=v.dtype)
            self.flat = torch.empty_like(v)
            self.parts = list(unflatten(self.place, self.flat).values())
        views = unflatten(self.place, v).values()
        for parameter, view in zip(self.parameters, views, strict=True):
            parameter.data = view

    def grad(self, v: Tensor, batch: Batch) -> Tensor:
        self.point(v)
        with torch.enable_grad():
            loss = self.objective(batch.x, batch.y, batch.weight)
            found = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        for part, gradient in zip(self.parts, found, strict=True):
            part.zero_() if gradient is None else part.copy_(gradient)
        return self.flat

    def loss(self, v: Tensor, batch: Batch) -> Tensor:
        self.point(v)
        with torch.no_grad():
            return cast(Tensor, self.objective(batch.x, batch.y, batch.weight))

    def predict(self, v: Tensor, x: Tensor) -> Tensor:
        self.point(v)
        with torch.no_grad():
            return cast(Tensor, self.objective.net(x))


def _channels_last(module: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    x = given[0]
    if x.device.type != "cpu" or x.dim() != 4:
        return given
    return (x.to(memory_format=torch.channels_last), *given[1:])
