"""A network with its loss, as functions of a flat parameter vector.

`Objective` computes the loss of a batch. A `Task` has the loss, gradients and
predictions as functions of a flat vector. `functional` makes a Task of pure functions,
which vmap can vectorize over clients and which can be traced, unless `validate` found
obstacles. With obstacles, the functions use plain autograd, for one client at a time.
`in_place` makes a Task for one client at a time, which does not copy parameters.

`grad` and `bend` are for training: dropout is active, and batch normalization uses the
statistics of the batch. The tail of the vector has the running statistics. There,
`grad` returns the old minus the new statistics, so that subtracting the result gives
the new ones. All other functions use the running statistics, without dropout.
"""

import copy
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor, nn

from troth import lookup, numerics, seeding
from troth.data import labels
from troth.networks.batchnorm import BatchNorm, Dropout, Replacing, adapt
from troth.networks.convolution import Apart, Together
from troth.networks.flat import (
    Layout,
    assign,
    call,
    flatten,
    layout,
    mapped,
    tensors,
    ties,
    unflatten,
)
from troth.networks.validate import Obstacle, remaining
from troth.types import Batch, Refusal, Task

Loss = Callable[[Tensor, Tensor], Tensor]
"""Outputs [b, k] and y [b, …] → the loss of each example, [b]."""


class Objective(nn.Module):
    """Σ weight·loss(net(x), y) + penalty: the objective of one client.

    The loss of an example is computed by `loss`, or if it is None, by the method
    `loss(outputs, y)` of the network or of a module in it. If there is no such method,
    the loss follows from y (`losses/auto`). If the network or a module in it has a
    method `penalty()`, its result is added.

    Layers for batch normalization and dropout are replaced by those of `batchnorm`,
    with the same names and tensors. If `padded`, batches may contain examples of weight
    0; if not, batch normalization is computed by torch, which is faster. `obstacles`
    are reasons why vmap cannot compute the network (`validate.check`).
    """

    def __init__(
        self,
        net: nn.Module,
        classes: int,
        loss: Loss | None = None,
        padded: bool = True,
        obstacles: tuple[Obstacle, ...] = (),
    ) -> None:
        super().__init__()
        self.net = adapt(net)
        self.classes, self.loss, self.padded = classes, loss, padded
        self.obstacles = obstacles
        self.suited: Loss = lookup.find("loss", "auto")
        self.losing = _defines(net, "loss")  # name of a module
        self.penalizing = _defines(net, "penalty")
        self.parts = list(self.net.modules())  # lists are not registered as modules
        self.norms = [m for m in self.parts if isinstance(m, BatchNorm)]
        self.drops = [m for m in self.parts if isinstance(m, Dropout) and m.p > 0]

    def mode(self, training: bool) -> None:
        """Set the training mode of all layers, which other code may have changed."""
        if any(part.training != training for part in self.parts):
            self.net.train(training)

    def forward(self, batch: Batch) -> Tensor:
        """Return the scalar objective; the batch's weights sum to 1, or are all 0."""
        losses = self.per_example(self.net(batch.x), batch.y)
        if losses.shape != batch.weight.shape:
            raise Refusal(
                f"the loss of this model has shape {list(losses.shape)} for "
                f"{batch.weight.shape[0]} examples; it must return one value per "
                "example"
            )
        total = (losses * batch.weight).sum()
        if self.penalizing is not None:
            total = total + cast(Any, self.net.get_submodule(self.penalizing)).penalty()
        return total

    def per_example(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the loss of each example, [b], without the penalty."""
        if self.loss is not None:
            return self.loss(outputs, y)
        if self.losing is not None:
            if labels.soft(y):
                raise Refusal(
                    "this model has a loss of its own, which takes labels, and some "
                    "client has soft labels (shares of the classes); set train.loss = "
                    "'cross_entropy', or poison with plain labels"
                )
            model = cast(Any, self.net.get_submodule(self.losing))
            return cast(Tensor, model.loss(outputs, y))
        return self.suited(outputs, y)

    def check(self, batch: Batch) -> None:
        """Raise Refusal if the batch does not suit the network or the loss."""
        self.mode(training=False)
        with torch.no_grad():
            expect_outputs(self.net(batch.x), batch.y, self.classes)
            self(batch)

    def set_batch(self, batch: Batch) -> Tensor:
        """Pass the batch's weights and random key to the layers that need them.

        Return the key of this client and step.
        """
        for norm in self.norms:
            norm.present, norm.moved = batch.weight if self.padded else None, None
        key = seeding.fold(batch.key, batch.t)
        for drop in self.drops:
            drop.key, drop.calls = key, 0
        return key

    def take_statistics(self) -> list[Tensor | None]:
        """Return new running statistics in the order of the tail; clear the batch.

        The entries of a layer that was not used are None.
        """
        moved = [m.moved or (None, None) for m in self.norms if not m.frozen_statistics]
        for norm in self.norms:
            norm.present = norm.moved = None
        for drop in self.drops:
            drop.key = None
        return [pair[i] for i in (0, 1) for pair in moved]


def expect_outputs(outputs: Tensor, y: Tensor, classes: int) -> None:
    """Raise Refusal if the number k of outputs [b, k] does not fit the data.

    y is [b] labels or targets, [b, classes] soft labels, or [b, labels] of 0 and 1.
    """
    allowed = {0: (1,), 2: (1, 2)}.get(classes, (classes,))
    what = f"{classes} classes" if classes else "regression"
    if y.dim() == 2 and not labels.soft(y):
        allowed, what = (classes,), f"{classes} labels per example"
    if outputs.dim() == 2 and outputs.shape[1] in allowed:
        return
    k = outputs.shape[1:].numel()
    raise Refusal(
        f"a model with {k} output{'s' if k != 1 else ''} does not fit {what}; "
        f"it must have {' or '.join(map(str, allowed))}"
    )


def _defines(net: nn.Module, method: str) -> str | None:
    """Return the name of the first module in `net` whose class has this method."""
    for name, module in net.named_modules():
        if callable(getattr(type(module), method, None)):
            return str(name)
    return None


class _Lowered(nn.Module):
    """A network that is computed in bfloat16, while its parameters keep their dtype.

    Batch normalization is computed in the dtype of its parameters.
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.tied = ties(net)
        self.high = {
            f"{name}.{own}".lstrip(".")
            for name, module in net.named_modules()
            if isinstance(module, BatchNorm)
            for own in ("weight", "bias", "running_mean", "running_var")
        }

    def forward(self, x: Tensor) -> Tensor:
        low = {
            name: t.to(torch.bfloat16)
            if t.is_floating_point() and name not in self.high
            else t
            for name, t in (*self.net.named_parameters(), *self.net.named_buffers())
        }
        high = next(self.net.parameters()).dtype
        x = x.to(torch.bfloat16) if x.is_floating_point() else x
        return cast(Tensor, call(self.net, low, (x,), tied=self.tied)).to(high)


def at(objective: Objective, precision: str) -> Objective:
    """Return the objective, computed with the given precision.

    "bfloat16" applies only to the network. "float32", "tf32" and "float64" return the
    objective unchanged; other names raise Refusal.
    """
    if precision == "bfloat16":
        lowered = _Lowered(objective.net)
        known = objective.classes, objective.loss, objective.padded
        return Objective(lowered, *known, objective.obstacles)
    if precision in ("float32", "tf32", "float64"):
        return objective
    raise Refusal(
        f"precision = {precision!r} is not one of 'float32', 'tf32', 'float64', "
        "'bfloat16'"
    )


__all__ = ["assign", "flatten", "layout", "unflatten"]  # from `flat`


def functional(
    objective: Objective, precision: str = "float32", together: bool = False
) -> Task:
    """Return a Task of pure functions, for vmap, compilation and tracing.

    If vmap cannot compute the network, the functions are for one client at a time. Then
    padding is removed from batches, gradients are computed by plain autograd, and the
    client's key seeds torch's random generator in every call.

    While one of the functions runs, the objective's module contains its tensors, so two
    threads must not use the same objective. Floating-point buffers are converted to the
    dtype of the vector.

    Args:
        objective: Objective of the task; it is not changed.
        precision: "bfloat16" computes the network in bfloat16, and outputs, loss,
            penalty and gradient in the dtype of the vector. The other precisions
            compute everything in the dtype of the vector (`kernels.precision` explains
            "tf32").
        together: Whether to compute convolutions as matrix products, which is faster
            for many clients on a GPU.
    """
    convolving = Together if together else Apart
    whole = at(objective, precision)
    lifts = "vmap" in remaining(objective.obstacles)
    differentiate = torch.func.grad if lifts else _grad
    drawing = (lambda key: nullcontext()) if lifts else seeding.seeded
    net, place = whole.net, layout(whole.net)
    head = place.d - place.tail
    tied, tied_inside = ties(net), ties(whole)
    buffers = {
        n: b
        for n, b in net.named_buffers()
        if b.is_floating_point() and n not in place.names
    }

    def given(v: Tensor) -> dict[str, Tensor]:
        return unflatten(place, v) | {n: b.to(v.dtype) for n, b in buffers.items()}

    def total(v: Tensor, batch: Batch, key: Tensor | None = None) -> Tensor:
        inside = {f"net.{name}": value for name, value in given(v).items()}
        with convolving(key), drawing(key):
            return cast(Tensor, call(whole, inside, (batch,), tied=tied_inside))

    def loss(v: Tensor, batch: Batch) -> Tensor:
        whole.mode(training=False)
        return total(v, batch if lifts else _present(batch))

    def training(v: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        whole.mode(training=True)
        batch = batch if lifts else _present(batch)
        key = whole.set_batch(batch)
        value, moved = total(v, batch, key), whole.take_statistics()
        return value, _after(moved, v, place) if place.tail else v.new_zeros(0)

    def grad(v: Tensor, batch: Batch) -> Tensor:
        g, after = differentiate(training, has_aux=True)(v, batch)
        return torch.cat([g[:head], v[head:] - after]) if place.tail else g

    def predict(v: Tensor, x: Tensor) -> Tensor:
        whole.mode(training=False)
        with convolving(), drawing(None):
            return cast(Tensor, call(net, given(v), (x,), tied=tied))

    def slope(v: Tensor, x: Tensor, of: Callable[[Tensor], Tensor]) -> Tensor:
        found = differentiate(lambda at: of(predict(at, x)))(v)
        return numerics.off_tail(found, place.tail)

    def bend(v: Tensor, batch: Batch, along: Tensor) -> Tensor:
        def value(at: Tensor) -> Tensor:
            inside = {f"net.{name}": one for name, one in given(at).items()}
            whole.mode(training=True)
            # torch's convolutions: those of `convolution` have no second derivatives
            with Replacing(key := whole.set_batch(batch)), drawing(key):
                out = cast(Tensor, call(whole, inside, (batch,), tied=tied_inside))
            whole.take_statistics()
            return out

        batch = batch if lifts else _present(batch)
        bent = _bent if lifts else _bent_plainly
        found = bent(value, v, numerics.off_tail(along, place.tail))
        return numerics.off_tail(found, place.tail)

    functions = loss, grad, predict
    climb = _climbing(predict, whole.per_example, differentiate)
    return Task(place.d, whole.classes, *functions, place.tail, slope, climb, bend)


def _grad(function: Callable[..., Any], has_aux: bool = False) -> Callable[..., Any]:
    """Return the gradient of a function like `torch.func.grad`, but by plain autograd.

    Plain autograd can also differentiate functions that torch.func cannot, such as
    custom autograd functions of the older form.
    """

    def gradient(at: Tensor, *rest: Any) -> Any:
        with torch.enable_grad():
            leaf = at.detach().requires_grad_()
            out = function(leaf, *rest)
            value, aux = out if has_aux else (out, ())
            g = torch.zeros_like(at)
            if value.requires_grad:
                (g,) = torch.autograd.grad(value, leaf, materialize_grads=True)
        return (g, mapped(Tensor.detach, aux)) if has_aux else g

    return gradient


def _bent(function: Callable[[Tensor], Tensor], at: Tensor, along: Tensor) -> Tensor:
    """Return the product of the Hessian of a function with a vector.

    Because the Hessian is symmetric, two backward passes compute the product. (torch's
    forward mode would need torch.jit, which does not work with Python 3.14.)
    """
    (found,) = torch.func.vjp(torch.func.grad(function), at)[1](along)
    return cast(Tensor, found)


def _bent_plainly(
    function: Callable[[Tensor], Tensor], at: Tensor, along: Tensor
) -> Tensor:
    """Return the product of the Hessian with a vector, by plain autograd."""
    with torch.enable_grad():
        leaf = at.detach().requires_grad_()
        (g,) = torch.autograd.grad(function(leaf), leaf, create_graph=True)
        (found,) = torch.autograd.grad(g, leaf, along, materialize_grads=True)
    return found


def _present(batch: Batch) -> Batch:
    """Remove padding (examples of weight 0) from a batch.

    If all examples are padding, one of them is kept.
    """
    there = batch.weight > 0
    there[0] |= ~there.any()
    x, y, weight = batch.x[there], batch.y[there], batch.weight[there]
    return batch._replace(x=x, y=y, weight=weight)


def _climbing(
    predict: Callable[[Tensor, Tensor], Tensor],
    per_example: Callable[[Tensor, Tensor], Tensor],
    differentiate: Callable[..., Any],
) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    """Return the function `climb` of a `Task`."""

    def climb(
        v: Tensor, x: Tensor, y: Tensor, still: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        def total(at: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            outputs = predict(v, at)
            losses = per_example(outputs, y)
            return losses.sum(), (outputs, losses)

        if still:
            return *total(x)[1], x[:0]
        g, (outputs, losses) = differentiate(total, has_aux=True)(x)
        return outputs, losses, g

    return climb


def _after(moved: list[Tensor | None], v: Tensor, place: Layout) -> Tensor:
    """Return the running statistics after a step, in the order of the tail.

    Layers that were not used keep their statistics.
    """
    names = place.names[-len(moved) :]
    before = unflatten(place, v.detach())
    pairs = zip(names, moved, strict=True)
    parts = [before[name] if new is None else new for name, new in pairs]
    return torch.cat([part.reshape(-1) for part in parts]).to(v.dtype)


def in_place(objective: Objective, precision: str = "float32") -> Task:
    """Return a Task for one client at a time, which does not copy parameters.

    The module's parameters are views of the vector. On a CPU, convolutions use the
    memory format channels_last (a step of Ditto's CNN for Fashion MNIST takes 19 ms
    instead of 26). The next call of `grad` overwrites its previous result. The
    functions cannot be traced, vectorized by vmap or differentiated, and every thread
    needs a separate Task. The objective is copied.
    """
    own = _InPlace(copy.deepcopy(at(objective, precision)))
    d, tail = own.place.d, own.place.tail
    functions = own.loss, own.grad, own.predict
    pure = cache(lambda: functional(copy.deepcopy(objective), precision))

    def bend(v: Tensor, batch: Batch, along: Tensor) -> Tensor:
        return pure().bend(v, batch, along)

    return Task(d, objective.classes, *functions, tail, own.slope, own.climb, bend)


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
        """Make every parameter and running statistic a view of v."""
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
        with torch.enable_grad(), Replacing(self.objective.set_batch(batch)):
            loss = self.objective(batch)
            found = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        moved = self.objective.take_statistics()
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
            if not value.requires_grad:
                return torch.zeros_like(v)
            found = torch.autograd.grad(value, self.parameters, materialize_grads=True)
        return torch.cat([*(g.flatten() for g in found), v.new_zeros(self.place.tail)])

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
