"""Cross-entropy of the softmax.

References: szegedy2016rethinking.
"""

from torch import Tensor
from torch.nn import functional

from troth.data import labels
from troth.networks.losses._checks import expect
from troth.types import Refusal


def cross_entropy(outputs: Tensor, y: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Compute −log of the softmax's share for the label.

    With shares p of the classes instead of a label, −Σ_c p_c·log of the softmax's.

    Args:
        outputs: [b, classes] logits; a single column is class 1's, with 0 for the
            other.
        y: [b] labels, or [b, classes] shares.
        smoothing: Share of the label's weight that is spread over all classes; 0: none.
            1 makes all classes alike (Szegedy et al., section 7).

    Returns:
        One value per example, [b].
    """
    if not 0 <= smoothing <= 1:
        raise Refusal(f"cross_entropy's smoothing = {smoothing} must lie in [0, 1]")
    plain = not y.is_floating_point() and y.dim() == 1
    good = (plain or labels.soft(y)) and outputs.dim() == 2
    expect("cross_entropy", good, outputs, y, "an output a class and one label each")
    if outputs.shape[1] == 1:
        outputs = functional.pad(outputs, (1, 0))
    share = functional.log_softmax(outputs, dim=1)
    if not plain:
        return _soft(share, y, smoothing)
    # Plainer than torch's own, which may leave labels out: a third fewer steps.
    loss = -share.gather(1, y[:, None])[:, 0]
    if smoothing:
        loss = (1 - smoothing) * loss - smoothing * share.mean(dim=1)
    return loss


def _soft(share: Tensor, y: Tensor, smoothing: float) -> Tensor:
    """Compute it for shares of the classes, whatever they sum to."""
    expect("cross_entropy", y.shape == share.shape, share, y, "a share of each class")
    if smoothing:
        y = (1 - smoothing) * y + smoothing * y.mean(dim=1, keepdim=True)
    return -(y * share).sum(dim=1)
