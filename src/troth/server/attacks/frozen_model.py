"""A model that never learns: its client reports honestly how far it is away.

References: farhadkhani2022equivalence.
"""

import math
from typing import Literal

import torch
from torch import Tensor

from troth.config.checks import coupled
from troth.networks import target_model
from troth.server.attacks import _crowd
from troth.types import Broadcast, Messages

Distance = Literal["l2sq", "l2", "smooth_l2"]


def frozen_model(
    messages: Messages,
    hostile: Tensor,
    broadcast: Broadcast,
    *,
    target: str,
    lam: float | Literal["auto"] = "auto",
    regularizer: Distance | Literal["auto"] = "auto",
) -> Messages:
    """Keep the model θ♠ in every round, and follow the protocol (Section 2.2).

    Malicious clients of a federation of personalizer `coupled` reply −λ∇_ρR(ρ, θ♠). Any
    plausible gradient attack that converges has such a θ♠ (Lemma 3):
    `troth.poison.model_attack`. No filter can tell it from a client that has much data.

    Threat model: knows the shared model of the round; controls its own message.

    Args:
        messages: One update per client.
        hostile: [n] mask of malicious clients.
        broadcast: Broadcast of the server to the clients.
        target: File with θ♠ as one vector: .npy, or .npz with an array `target`.
        lam: Weight λ of the coupling; "auto": from `coupled`.
        regularizer: Regularizer R; "auto": the experiment's.

    Returns:
        The messages, with attacked updates.

    Example:
        >>> import numpy, tempfile
        >>> from troth.server.rules import broadcast, messages
        >>> numpy.save(file := tempfile.mkstemp(".npy")[1], [5.0])
        >>> sent = messages([[1.0], [3.0]])
        >>> given = sent, sent.client == 1, broadcast([1.0])
        >>> frozen_model(*given, target=file, lam=2.0).update.tolist()
        [[1.0], [8.0]]
    """
    lam = coupled("frozen_model's lam", lam)
    _crowd.finite("frozen_model", "lam", lam, 0, "0 sends zeros")
    away = target_model.read(target, len(broadcast.w)).to(broadcast.w.device)
    away = away - broadcast.w.double()
    far = torch.linalg.vector_norm(away)
    if regularizer == "l2":
        away = away / torch.where(far > 0, far, 1.0)
    elif regularizer == "smooth_l2":
        away = away / torch.hypot(far, torch.ones_like(far))
    if not bool(hostile.any()) or not math.isfinite(float(far)):
        return messages
    return _crowd.sent(messages, hostile, lam * away)
