"""Cross-entropy of the softmax.

References: szegedy2016rethinking.
"""

from torch import Tensor
from torch.nn import functional

from troth.data import labels
from troth.networks.losses._checks import expect
from troth.types import Refusal


def cross_entropy(outputs: Tensor, y: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Compute −log p_y, where p is the softmax of the outputs and y the label.

    For soft labels y_c, with one number per class, compute −Σ_c y_c·log p_c.

    Args:
        outputs: [b, classes] logits. A single column is the logit of class 1, and class
            0 has the logit 0.
        y: [b] labels, or [b, classes] soft labels.
        smoothing: Label smoothing: fraction of a label's weight that is spread over all
            classes, from 0 to 1. 0 means none; 1 gives all classes the same weight
            (Szegedy et al. 2016, Section 7).

    Returns:
        One value per example, [b].
    """
    if not 0 <= smoothing <= 1:
        raise Refusal(f"cross_entropy's smoothing = {smoothing} must lie in [0, 1]")
    plain = not y.is_floating_point() and y.dim() == 1
    good = (plain or labels.soft(y)) and outputs.dim() == 2
    expect("cross_entropy", good, outputs, y, "one output per class and one label each")
    if outputs.shape[1] == 1:
        outputs = functional.pad(outputs, (1, 0))
    share = functional.log_softmax(outputs, dim=1)
    if not plain:
        return _soft(share, y, smoothing)
    # A third fewer operations than torch's function, which can ignore labels.
    loss = -share.gather(1, y[:, None])[:, 0]
    if smoothing:
        loss = (1 - smoothing) * loss - smoothing * share.mean(dim=1)
    return loss


def _soft(share: Tensor, y: Tensor, smoothing: float) -> Tensor:
    """Compute the cross-entropy for soft labels, whatever their sum is."""
    expect("cross_entropy", y.shape == share.shape, share, y, "a share of each class")
    if smoothing:
        y = (1 - smoothing) * y + smoothing * y.mean(dim=1, keepdim=True)
    return -(y * share).sum(dim=1)
