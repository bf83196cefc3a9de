"""A network as a problem on a flat vector: losses, gradients, predictions.

Two forms of the same functions. `functional` is pure and can be lifted over clients and
traced; `in_place` serves one client at a time without copying its parameters.

`grad` trains: with dropout, and with batch normalisation by the batch. What it returns
for the tail of the vector is how far the running statistics move, the other way round,
so that a step of length 1 takes them there. The others use what was learnt.
"""

import copy
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from troth import numerics
from troth.networks.convolution import Apart, Together
from troth.networks.flat import (
    Layout,
    assign,
    call,
    flatten,
    layout,
    tensors,
    ties,
    unflatten,
)
from troth.networks.objective import Objective, at
from troth.types import Batch, Task

__all__ = [
    "Layout",
    "Objective",
    "assign",
    "flatten",
    "functional",
    "in_place",
    "layout",
    "unflatten",
]


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
            (outputs, loss, penalty, gradient) in the type of the vector; the others
            compute all in the type of the vector (`tf32`: see `kernels.precision`).
        together: convolutions as matrix products, for clients lifted on a GPU.
    """
    convolving = Together if together else Apart
    whole = at(objective, precision)
    net = whole.net
    place = layout(net)
    head = place.d - place.tail
    tied, tied_inside = ties(net), ties(whole)
    buffers = {
        n: b
        for n, b in net.named_buffers()
        if b.is_floating_point() and n not in place.names
    }

    def given(v: Tensor) -> dict[str, Tensor]:
        return unflatten(place, v) | {n: b.to(v.dtype) for n, b in buffers.items()}

    def total(v: Tensor, batch: Batch) -> Tensor:
        inside = {f"net.{name}": value for name, value in given(v).items()}
        with convolving():
            return cast(Tensor, call(whole, inside, (batch,), tied=tied_inside))

    def loss(v: Tensor, batch: Batch) -> Tensor:
        whole.mode(training=False)
        return total(v, batch)

    def training(v: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        whole.mode(training=True)
        whole.tell(batch)
        value, moved = total(v, batch), whole.told()
        return value, _after(moved, v, place) if place.tail else v.new_zeros(0)

    def grad(v: Tensor, batch: Batch) -> Tensor:
        g, after = torch.func.grad(training, has_aux=True)(v, batch)
        return torch.cat([g[:head], v[head:] - after]) if place.tail else g

    def predict(v: Tensor, x: Tensor) -> Tensor:
        whole.mode(training=False)
        with convolving():
            return cast(Tensor, call(net, given(v), (x,), tied=tied))

    def slope(v: Tensor, x: Tensor, of: Callable[[Tensor], Tensor]) -> Tensor:
        found = torch.func.grad(lambda at: of(predict(at, x)))(v)
        return numerics.off_tail(found, place.tail)

    functions = loss, grad, predict
    climb = _climbing(predict, whole.per_example)
    return Task(place.d, whole.classes, *functions, place.tail, slope, climb)


def _climbing(
    predict: Callable[[Tensor, Tensor], Tensor],
    per_example: Callable[[Tensor, Tensor], Tensor],
) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    """Losses of examples and their gradients in the inputs, of pure functions."""

    def climb(
        v: Tensor, x: Tensor, y: Tensor, still: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        def total(at: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            outputs = predict(v, at)
            losses = per_example(outputs, y)
            return losses.sum(), (outputs, losses)

        if still:
            return *total(x)[1], x[:0]
        g, (outputs, losses) = torch.func.grad(total, has_aux=True)(x)
        return outputs, losses, g

    return climb


def _after(moved: list[Tensor | None], v: Tensor, place: Layout) -> Tensor:
    """The tail after a step: layers that did not run keep what they had."""
    names = place.names[-len(moved) :]
    before = unflatten(place, v.detach())
    pairs = zip(names, moved, strict=True)
    parts = [before[name] if new is None else new for name, new in pairs]
    return torch.cat([part.reshape(-1) for part in parts]).to(v.dtype)


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
    own = _InPlace(copy.deepcopy(at(objective, precision)))
    d, tail = own.place.d, own.place.tail
    functions = own.loss, own.grad, own.predict
    return Task(d, objective.classes, *functions, tail, own.slope, own.climb)


class _InPlace:
    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.place = layout(objective)
        self.tensors = list(tensors(objective).values())
        self.parameters = [t for t in self.tensors if isinstance(t, nn.Parameter)]
        self.flat = torch.empty(0)
        self.parts: list[Tensor] = []
        for module in objective.modules():
            if isinstance(module, nn.Conv2d):
                module.register_forward_pre_hook(_channels_last)

    def point(self, v: Tensor, training: bool) -> None:
        """Make every parameter and statistic a view of v."""
        v = v.detach()
        self.objective.mode(training)
        if v.dtype != self.flat.dtype or v.device != self.flat.device or not self.parts:
            self.objective.to(device=v.device, dtype=v.dtype)
            self.tensors = list(tensors(self.objective).values())
            self.flat = torch.empty_like(v)
            self.parts = list(unflatten(self.place, self.flat).values())
        views = unflatten(self.place, v).values()
        for tensor, view in zip(self.tensors, views, strict=True):
            tensor.data = view

    def grad(self, v: Tensor, batch: Batch) -> Tensor:
        self.point(v, training=True)
        self.objective.tell(batch)
        with torch.enable_grad():
            loss = self.objective(batch)
            found = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        moved = self.objective.told()
        for part, gradient in zip(self.parts, found, strict=False):
            part.zero_() if gradient is None else part.copy_(gradient)
        if moved:
            head = self.place.d - self.place.tail
            self.flat[head:] = v[head:] - _after(moved, v, self.place)
        return self.flat

    def loss(self, v: Tensor, batch: Batch) -> Tensor:
        self.point(v, training=False)
        with torch.no_grad():
            return cast(Tensor, self.objective(batch))

    def predict(self, v: Tensor, x: Tensor) -> Tensor:
        self.point(v, training=False)
        with torch.no_grad():
            return cast(Tensor, self.objective.net(x))

    def slope(self, v: Tensor, x: Tensor, of: Callable[[Tensor], Tensor]) -> Tensor:
        self.point(v, training=False)
        with torch.enable_grad():
            value = of(self.objective.net(x))
            found = (
                torch.autograd.grad(value, self.parameters, allow_unused=True)
                if value.requires_grad
                else ()
            )
        result = torch.zeros_like(v)
        views = unflatten(self.place, result).values()
        for part, gradient in zip(views, found, strict=False):
            if gradient is not None:
                part.copy_(gradient)
        return result

    def climb(
        self, v: Tensor, x: Tensor, y: Tensor, still: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        self.point(v, training=False)
        with torch.set_grad_enabled(not still):
            at = x.detach().requires_grad_(not still)
            outputs = self.objective.net(at)
            losses = self.objective.per_example(outputs, y)
            g = x[:0] if still else torch.autograd.grad(losses.sum(), at)[0]
        return outputs.detach(), losses.detach(), g


def _channels_last(module: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    x = given[0]
    if x.device.type != "cpu" or x.dim() != 4:
        return given
    return (x.to(memory_format=torch.channels_last), *given[1:])
