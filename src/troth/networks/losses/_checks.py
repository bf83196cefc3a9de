"""Checks that several losses share."""

from torch import Tensor

from troth.types import Refusal


def expect(name: str, good: bool, outputs: Tensor, y: Tensor, needs: str) -> None:
    """Refuse outputs and labels that do not suit a loss, which `needs` describes."""
    if good:
        return
    kind = "targets" if y.is_floating_point() and y.dim() == 1 else "labels"
    raise Refusal(
        f"train.loss = '{name}' needs {needs}, and here are outputs of shape "
        f"{list(outputs.shape)} and {kind} of shape {list(y.shape)}; "
        "leave train.loss out for the loss that suits the data"
    )


def targets(name: str, outputs: Tensor, y: Tensor) -> Tensor:
    """Return the outputs of a regression, [b]; refuse other outputs or targets."""
    good = y.is_floating_point() and y.dim() == 1 and outputs.numel() == y.numel()
    expect(name, good, outputs, y, "one output and one target (a number) per example")
    return outputs.reshape(y.shape)
