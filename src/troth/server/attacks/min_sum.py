"""The attack whose distances to the benign rows sum to no more than one of theirs.

References: shejwalkar2021manipulating.
"""

from torch import Tensor

from troth.server.attacks import _spread
from troth.types import Messages


def min_sum(
    messages: Messages, hostile: Tensor, *, direction: _spread.Direction = "std"
) -> Messages:
    """All hostile rows send the farthest vector that is no outlier by sum of squares.

    u = μ + γ·p (the paper's Min-Sum attack, which knows no aggregator), where μ is the
    mean of the k benign rows, p a direction, and γ ≥ 0 the largest with

        Σ_i ‖u − u_i‖² ≤ max_i Σ_j ‖u_i − u_j‖².

    A single benign row is sent as it is.

    Threat model: knows all benign updates of the round (in a round of adversaries alone
    it takes their own for these), not the defence; controls the messages of all hostile
    clients, which act as one.

    Departs: the paper halves its way to γ. With c_i = u_i − μ, whose sum
    is 0, the left side is k·γ²‖p‖² + Σ‖c_i‖² and the right one k·max‖c_i‖² + Σ‖c_i‖²,
    so γ‖p‖ = max_i ‖c_i‖: the hostile row is as far from the mean as the farthest
    benign one, whatever the direction.

    Args:
        messages: of the round.
        hostile: which rows the adversary controls.
        direction: p: "std" is −σ, "unit" −μ/‖μ‖, "sign" −sign(μ).
    """
    return _spread.farthest(messages, hostile, direction, _limit)


def _limit(products: Tensor, along: Tensor) -> Tensor:
    return products.diagonal().max().sqrt()
