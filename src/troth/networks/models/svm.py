"""The linear support vector machine, as Ditto trains it on Vehicle.

References: li2021ditto.
"""

import math

import torch
from torch import Tensor, nn

from troth.types import Refusal


class SVM(nn.Module):
    """Linear model f(x) = W·x + b, with the hinge loss and an ℓ2 penalty."""

    def __init__(self, inputs: int, l2: float) -> None:
        super().__init__()
        self.l2 = l2
        self.plane = nn.Linear(inputs, 1)
        for parameter in self.plane.parameters():
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        """Compute f, [b, 1]; positive means class 1."""
        return torch.nn.functional.linear(
            x.flatten(1), self.plane.weight, self.plane.bias
        )

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Compute max(0, 1 − s·f) with s = 2y − 1, one value per example."""
        return torch.relu(1 - (2 * y - 1) * outputs.squeeze(-1))

    def penalty(self) -> Tensor:
        """Compute l2·‖W‖²; b is not penalized."""
        return self.l2 * self.plane.weight.square().sum()


def svm(shape: tuple[int, ...], classes: int, *, l2: float = 0.01) -> nn.Module:
    """Build a linear support vector machine for two classes.

    Training minimizes the mean of max(0, 1 − s·f(x)) plus l2·‖W‖², where f(x) = W·x + b
    and s = ±1 is the class, starting from W = 0 and b = 0. The model predicts the sign
    of its single output. Li et al. 2021 use it for Vehicle.

    Args:
        shape: Shape of one example; it is flattened.
        classes: Number of classes; must be 2.
        l2: Weight of the penalty, at least 0. With 0, the hinge loss has no unique
            minimum. With large values, W tends to 0.

    Returns:
        The network.
    """
    if classes != 2:
        what = f"{classes} classes" if classes else "numbers to regress on"
        raise Refusal(
            f"model 'svm' separates 2 classes, and this data has {what}; "
            "take another model, such as linear"
        )
    if not 0 <= l2 < math.inf:
        raise Refusal(f"model.l2 = {l2} must be a finite number of at least 0")
    return SVM(math.prod(shape), l2)
