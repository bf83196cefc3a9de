"""What one client minimises: the loss of a network on a batch, and its precision."""

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from troth import seeding
from troth.data import labels
from troth.networks.batchnorm import BatchNorm, Dropout, adapt
from troth.networks.flat import call, ties
from troth.networks.losses._suited import suited
from troth.types import Batch, Refusal

Loss = Callable[[Tensor, Tensor], Tensor]
"""Outputs [b, k] and y [b, …] → the loss of each example, [b]."""


class Objective(nn.Module):
    """Σ weight·loss(net(x), y) + penalty: what one client minimises.

    The loss of an example is the one given, else the model's own `loss(outputs, y)`
    where the network or a module in it defines one, else what suits y (`losses/auto`).
    A `penalty()` defined in the same way is added.

    Args:
        net: the network, normalisation included; its batch normalisations and dropouts
            are replaced by ours (`batchnorm`), which keep names and tensors.
        classes: how many; 0 is regression.
        loss: of outputs and labels, one value per example; None chooses.
        padded: whether batches may hold rows of weight 0; without any, batch
            normalisation is torch's own, which is faster.
    """

    def __init__(
        self,
        net: nn.Module,
        classes: int,
        loss: Loss | None = None,
        padded: bool = True,
    ) -> None:
        super().__init__()
        self.net = adapt(net)
        self.classes, self.loss, self.padded = classes, loss, padded
        self.losing = _defines(net, "loss")  # names, lest a module be held twice
        self.penalising = _defines(net, "penalty")
        self.parts = list(self.net.modules())  # in lists, lest they be registered
        self.norms = [m for m in self.parts if isinstance(m, BatchNorm)]
        self.drops = [m for m in self.parts if isinstance(m, Dropout) and m.p > 0]

    def mode(self, training: bool) -> None:
        """Training or prediction, for every layer, which others may have set."""
        if any(part.training != training for part in self.parts):
            self.net.train(training)

    def forward(self, batch: Batch) -> Tensor:
        """The scalar; weight [b] sums to 1 or is all 0."""
        losses = self.per_example(self.net(batch.x), batch.y)
        if losses.shape != batch.weight.shape:
            raise Refusal(
                f"the loss of this model has shape {list(losses.shape)} for "
                f"{batch.weight.shape[0]} examples; it must return one value an example"
            )
        total = (losses * batch.weight).sum()
        if self.penalising is not None:
            total = total + cast(Any, self.net.get_submodule(self.penalising)).penalty()
        return total

    def per_example(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The loss of each example, [b], without the penalty."""
        if self.loss is not None:
            return self.loss(outputs, y)
        if self.losing is not None:
            if labels.soft(y):
                raise Refusal(
                    "this model has a loss of its own, which takes labels, and some "
                    "client's are soft (shares of the classes); set train.loss = "
                    "'cross_entropy', or poison with plain labels"
                )
            model = cast(Any, self.net.get_submodule(self.losing))
            return cast(Tensor, model.loss(outputs, y))
        return suited(outputs, y)

    def check(self, batch: Batch) -> None:
        """Refuse data that the loss or the network has no use for, before training."""
        self.mode(training=False)
        with torch.no_grad():
            expect_outputs(self.net(batch.x), batch.y, self.classes)
            self(batch)

    def tell(self, batch: Batch) -> None:
        """Say to the layers that ask which rows are there and what to draw from."""
        for norm in self.norms:
            norm.present, norm.moved = batch.weight if self.padded else None, None
        if self.drops:
            key = seeding.fold(batch.key, batch.t)
            for drop in self.drops:
                drop.key, drop.calls = key, 0

    def told(self) -> list[Tensor | None]:
        """What the running statistics became, in the order of the tail.

        None for a layer that did not run. The batch is forgotten.
        """
        moved = [m.moved or (None, None) for m in self.norms if not m.frozen_statistics]
        for norm in self.norms:
            norm.present = norm.moved = None
        for drop in self.drops:
            drop.key = None
        return [pair[i] for i in (0, 1) for pair in moved]


def expect_outputs(outputs: Tensor, y: Tensor, classes: int) -> None:
    """Refuse a model whose number of outputs does not fit the data.

    Args:
        outputs: [b, k] of the model.
        y: [b] labels or targets, [b, classes] shares, or [b, labels] of 0 and 1.
        classes: how many; 0 is regression.
    """
    allowed = {0: (1,), 2: (1, 2)}.get(classes, (classes,))
    what = f"{classes} classes" if classes else "regression"
    if y.dim() == 2 and not labels.soft(y):
        allowed, what = (classes,), f"{classes} labels an example"
    if outputs.dim() == 2 and outputs.shape[1] in allowed:
        return
    k = outputs.shape[1:].numel()
    raise Refusal(
        f"a model with {k} output{'s' if k != 1 else ''} does not fit {what}; "
        f"it must have {' or '.join(map(str, allowed))}"
    )


def _defines(net: nn.Module, method: str) -> str | None:
    """The name of the first module in `net` whose class has this method."""
    for name, module in net.named_modules():
        if callable(getattr(type(module), method, None)):
            return str(name)
    return None


class _Lowered(nn.Module):
    """A network computed in bfloat16 whose parameters stay as they are.

    Batch normalisation keeps its own precision and takes inputs of the lower one.
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
    """The objective in a precision; bfloat16 is the network's alone.

    Raises:
        Refusal: a precision there is not.
    """
    if precision == "bfloat16":
        lowered = _Lowered(objective.net)
        return Objective(lowered, objective.classes, objective.loss, objective.padded)
    if precision in ("float32", "tf32", "float64"):
        return objective
    raise Refusal(
        f"precision = {precision!r} is not one of 'float32', 'tf32', 'float64', "
        "'bfloat16'"
    )
