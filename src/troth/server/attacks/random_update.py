"""Noise with the standard deviation of the client's update (A2 of the Ditto paper).

References: li2021ditto.
"""

import torch
from torch import Tensor

from troth import numerics
from troth.networks import kernels
from troth.server.attacks import _crowd
from troth.types import Messages


def random_update(
    messages: Messages,
    hostile: Tensor,
    key: Tensor,
    *,
    scale: float = 1.0,
    std: float = 0.0,
) -> Messages:
    """Replace malicious updates by noise of the same standard deviation (A2).

    As in Section 2 of the Ditto paper and its code, client i sends u_i ~ N(0, s_i² I).
    s_i is the population standard deviation (1/d, as in numpy) of the d entries of the
    update that the client computed. As in the authors' code, the client trains on
    corrupted data (random labels by default). A client's noise depends on its id and
    the round. If d = 1, the standard deviation is 0, and the client sends 0. If the
    computed update is not finite, it is sent unchanged, and the server drops it.

    Threat model: knows its computed update; controls its own message.

    Args:
        messages: Messages of n clients, with one update each.
        hostile: [n] mask of malicious clients.
        key: Random key of the round.
        scale: Factor of the standard deviation; 0 sends zeros.
        std: Fixed standard deviation of the noise. 0 means s_i. The authors' code for
            StackOverflow has 1.

    Returns:
        The messages, with the malicious updates replaced.

    Example:
        >>> from troth.server.rules import messages
        >>> sent = messages([[1.0, 1.0], [2.0, 4.0]])
        >>> attacked = random_update(sent, sent.client == 1, torch.tensor(0))
        >>> [[round(x, 2) for x in row] for row in attacked.update.tolist()]
        [[1.0, 1.0], [1.57, -0.04]]
    """
    _crowd.finite("random_update", "scale", scale, 0, "0 sends zeros")
    _crowd.finite("random_update", "std", std, 0, "0 means that of the own update")
    own = std == 0
    finite = numerics.finite(messages.update) if own else torch.ones_like(hostile)
    rows = (hostile & finite).nonzero().flatten()
    if len(rows) == 0:
        return messages
    fixed = torch.full(rows.shape, std, dtype=torch.float64, device=hostile.device)
    each = _spreads(messages.update, rows) if own else fixed
    return _crowd.noise(messages, rows, key, 0.0, each * scale)


def _spreads(update: Tensor, rows: Tensor) -> Tensor:
    """Return the standard deviations of the entries of some updates, in float64."""
    if kernels.ready(update) and update.shape[1]:
        from troth.networks.kernels import rows as by_rows

        if by_rows.fits(update):
            means = by_rows.sums(update, update[:, 0]) / update.shape[1]
            return (means[:, 1] - means[:, 0] ** 2).clamp(min=0).sqrt()[rows]
    return torch.stack([_spread(update[row]) for row in rows.tolist()])


def _spread(update: Tensor) -> Tensor:
    """Return the standard deviation of the entries of one update, in float64."""
    wide = update.double()
    unit = _crowd.power_of_two(wide.abs().max())
    return (wide / unit).std(correction=0) * unit
