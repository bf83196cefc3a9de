"""Malicious clients that send honest updates of a model that never changes.

References: farhadkhani2022equivalence.
"""

import math
from typing import Literal

import torch
from torch import Tensor

from troth.config.checks import coupled, expect
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
    delta: float | Literal["auto"] = "auto",
) -> Messages:
    """Send the honest update of a personal model θ♠ that never changes (Section 2.2).

    In a federation with personalizer `coupled`, malicious clients send −λ∇_ρR(ρ, θ♠),
    where ρ is the shared model, R the regularizer, and λ its weight. For every attack
    that sends plausible updates and converges, there is a θ♠ with the same effect
    (Lemma 3 of the paper); `troth.poison.model_attack` computes it. No filter can
    distinguish such a client from an honest client with much data.

    Threat model: knows the shared model of the round; controls its own message.

    Args:
        messages: Messages of n clients, with one update each.
        hostile: [n] mask of malicious clients.
        broadcast: Server's message to the clients, with the shared model.
        target: File with θ♠ as one vector: .npy, or .npz with an array `target`.
        lam: Weight λ of the regularizer; 0 sends zeros. "auto" means λ of the
            personalizer `coupled`.
        regularizer: Regularizer R. "auto" means the experiment's regularizer.
        delta: Width δ > 0 of the smooth region of `smooth_l2`; other regularizers do
            not use it. "auto" means δ of the experiment's regularizer, or 1, as in the
            paper, if it has no δ.

    Returns:
        The messages, with the malicious updates replaced.

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
    delta = 1.0 if delta == "auto" else delta
    must = "a finite number above 0; for 0, set regularizer = 'l2'"
    expect(0 < delta < math.inf, "frozen_model's delta", delta, must)
    away = target_model.read(target, len(broadcast.w)).to(broadcast.w.device)
    away = away - broadcast.w.double()
    far = torch.linalg.vector_norm(away)
    if regularizer == "l2":
        away = away / torch.where(far > 0, far, 1.0)
    elif regularizer == "smooth_l2":
        away = away / torch.hypot(far, torch.full_like(far, delta))
    if not bool(hostile.any()) or not math.isfinite(float(far)):
        return messages
    return _crowd.sent(messages, hostile, lam * away)
