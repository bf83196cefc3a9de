"""Gaussian noise with a given mean and standard deviation.

References: blanchard2017machine.
"""

import torch
from torch import Tensor

from troth.server.attacks import _crowd
from troth.types import Messages


def gaussian(
    messages: Messages,
    hostile: Tensor,
    key: Tensor,
    *,
    mean: float = 0.0,
    std: float = 1.0,
) -> Messages:
    """Replace malicious updates by normal noise: u_i ~ N(mean, std² I).

    u_i is the update of client i. Its noise depends on its id and the round, so
    malicious clients send different noise.

    Threat model: knows nothing; controls its own message.

    Departs: the paper's experiments have std = 200 for gradients. The default here is
    1, as in the package byzfl. In byzfl, all malicious clients send the same vector.

    Args:
        messages: Messages of n clients, with one update each.
        hostile: [n] mask of malicious clients.
        key: Random key of the round.
        mean: Mean of every entry of the update.
        std: Standard deviation of every entry of the update; 0 sends `mean` everywhere.

    Returns:
        The messages, with the malicious updates replaced.

    Example:
        >>> from troth.server.rules import messages
        >>> sent = messages([[1.0], [3.0]])
        >>> key, hostile = torch.tensor(0), sent.client == 1
        >>> gaussian(sent, hostile, key, mean=7.0, std=0.0).update.tolist()
        [[1.0], [7.0]]
    """
    _crowd.finite("gaussian", "mean", mean)
    _crowd.finite("gaussian", "std", std, 0, "0 sends the mean everywhere")
    rows = hostile.nonzero().flatten()
    each = torch.full((len(rows),), std, dtype=torch.float64, device=rows.device)
    return _crowd.noise(messages, rows, key, mean, each)
