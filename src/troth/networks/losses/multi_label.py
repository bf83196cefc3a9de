"""Binary cross-entropy if examples may have several labels."""

from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from troth.networks.losses._checks import expect


def multi_label(outputs: Tensor, y: Tensor) -> Tensor:
    """Average the binary cross-entropy of every label, which is present or absent.

    Args:
        outputs: [b, labels] logits.
        y: [b, labels] of 0 and 1.

    Returns:
        One value per example, [b].
    """
    good = not y.is_floating_point() and y.dim() == 2 and y.shape == outputs.shape
    expect("multi_label", good, outputs, y, "a row of 0 and 1 for every row of outputs")
    each = binary_cross_entropy_with_logits(
        outputs, y.to(outputs.dtype), reduction="none"
    )
    return each.mean(dim=1)
