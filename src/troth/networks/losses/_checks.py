"""Checks that several losses share."""

from torch import Tensor

from troth.types import Refusal


def expect(name: str, good: bool, outputs: Tensor, y: Tensor, needs: str) -> None:
    """Raise Refusal unless `good`; `needs` says which outputs and labels are needed."""
    if good:
        return
    kind = "targets" if y.is_floating_point() and y.dim() == 1 else "labels"
    raise Refusal(
        f"train.loss = '{name}' needs {needs}, and here are outputs of shape "
        f"{list(outputs.shape)} and {kind} of shape {list(y.shape)}; "
        "leave train.loss out for the loss that suits the data"
    )


def targets(name: str, outputs: Tensor, y: Tensor) -> Tensor:
    """Return the outputs of a regression, [b]; raise Refusal for another shape."""
    good = y.is_floating_point() and y.dim() == 1 and outputs.numel() == y.numel()
    expect(name, good, outputs, y, "one output and one target (a number) per example")
    return outputs.reshape(y.shape)
