"""What a loss needs of outputs and labels; the refusals that losses share."""

from torch import Tensor

from troth.types import Refusal


def expect(name: str, good: bool, outputs: Tensor, y: Tensor, needs: str) -> None:
    """Refuse labels that a loss has no use for; `needs` says what it needs."""
    if good:
        return
    kind = "targets" if y.is_floating_point() and y.dim() == 1 else "labels"
    raise Refusal(
        f"train.loss = '{name}' needs {needs}, and here are outputs of shape "
        f"{list(outputs.shape)} and {kind} of shape {list(y.shape)}; "
        "leave train.loss out to have the one that suits the data"
    )


def targets(name: str, outputs: Tensor, y: Tensor) -> Tensor:
    """The outputs of a regression, [b], or a refusal."""
    good = y.is_floating_point() and y.dim() == 1 and outputs.numel() == y.numel()
    expect(name, good, outputs, y, "one output and one target (a number) an example")
    return outputs.reshape(y.shape)
