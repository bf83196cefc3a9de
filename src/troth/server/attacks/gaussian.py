"""Noise of a given size.

References: blanchard2017machine.
"""

import torch
from torch import Tensor

from troth.server.attacks import _crowd, _noise
from troth.types import Messages


def gaussian(
    messages: Messages,
    hostile: Tensor,
    key: Tensor,
    *,
    mean: float = 0.0,
    std: float = 1.0,
) -> Messages:
    """Hostile updates become normal draws: u_i ~ N(mean, std² I).

    Every client draws its own vector, by its id and the round.

    Threat model: knows nothing; controls its own message.

    Departs: the paper's experiments take std = 200 for gradients; the default here is
    1, that of the byzfl package, which however sends one draw from all hostile clients.

    Args:
        messages: of the round.
        hostile: which rows the adversary controls.
        key: of the round.
        mean: of every number.
        std: of every number; 0 sends `mean` everywhere.
    """
    _crowd.finite("gaussian", "mean", mean)
    _crowd.finite("gaussian", "std", std, 0, "0 sends the mean everywhere")
    rows = hostile.nonzero().flatten()
    if len(rows) == 0:
        return messages
    each = torch.full((len(rows),), std, dtype=torch.float64, device=rows.device)
    return _noise.noise(messages, rows, key, mean, each)
