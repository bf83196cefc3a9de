"""q-FedAvg: clients are weighted by a power of their losses.

References: li2020fair.
"""

import math

import torch
from torch import Tensor

from troth import numerics
from troth.config.checks import expect
from troth.server.aggregators._losses import numbers
from troth.server.aggregators.mean import mean
from troth.server.rules import Note, silent
from troth.types import Messages

LEAST = 1e-10  # smallest loss, because F^(q−1) is infinite at 0


def qffl(
    messages: Messages,
    loss: Tensor,
    note: Note = silent,
    *,
    q: float = 1.0,
    lr: float = 1.0,
) -> Tensor:
    """Average with weights loss^q, and shorten the step as q-FedAvg does (Algorithm 2).

    The objective is Σ_k F_k^(q+1)/(q+1), where F_k is the loss of client k. Let u_k be
    the updates and L = 1/lr. With Δw_k = −L·u_k, Δ_k = F_k^q·Δw_k and h_k =
    q·F_k^(q−1)·‖Δw_k‖² + L·F_k^q of Algorithm 2, the step is

        −Σ Δ_k / Σ h_k  =  Σ F_k^q·u_k / Σ F_k^q·(1 + q·‖u_k‖²/(lr·F_k)),

    a mean with weights F_k^q that is shortened because the power increases the
    curvature.

    No robustness: a client that sends a large loss dominates the step. For q = 1, a
    loss that is a thousand times as large has a thousand times the weight. One update
    with a very large norm shortens the step to almost 0. For q < 1, a loss near 0 does
    the same.

    Departs: losses below 1e-10, including negative ones, are replaced by 1e-10 (the
    authors add 1e-10 to every loss). NaN is replaced by the mean of the other losses,
    and an infinite loss by the largest finite number.

    Args:
        messages: Messages of n clients, with one update each.
        loss: [n] losses of the shared model on the training data of each client, as the
            clients send them.
        note: Function that records the weights F_k^q / Σ_j F_j^q.
        q: Exponent of the losses. 0 gives the mean. With q → ∞, only the client with
            the largest loss has a weight.
        lr: Learning rate of the clients (`train.lr`). Its inverse is the paper's
            estimate L of the curvature. With a larger value, the step is longer, at
            most the weighted mean. With a smaller value, it is shorter. If q = 0, there
            is no effect.

    Returns:
        The step of the shared model [d].

    Example:
        >>> import torch, troth
        >>> updates, loss = torch.tensor([[0.0], [1.0]]), torch.tensor([1.0, 3.0])
        >>> troth.aggregate("qffl", updates, loss=loss, q=1.0)
        tensor([0.6000])
    """
    must = "a finite number ≥ 0; q = 0 is the mean"
    expect(0 <= q < math.inf, "qffl's q", q, must)
    must = "a finite number > 0: the clients' learning rate (train.lr)"
    expect(0 < lr < math.inf, "qffl's lr", lr, must)
    known = numbers(loss)
    if q == 0:
        note(weight=torch.full_like(known, 1 / len(known)))
        return mean(messages)
    level = known.clamp(min=LEAST).log()
    power = q * (level - level.max())  # log F^q up to a constant, as F^q may overflow
    weight = torch.softmax(power, dim=0)
    note(weight=weight)
    length = numerics.norms(messages.update).cpu().double().log()
    bend = math.log(q) - math.log(lr) + 2 * length - level  # log q·‖u‖²/(lr·F)
    curved = power + torch.logaddexp(torch.zeros_like(bend), bend)
    shorter = (power.logsumexp(dim=0) - curved.logsumexp(dim=0)).exp()
    root = float(shorter.sqrt())  # `shorter` itself may be 0 in float32
    return numerics.combine(weight, messages.update) * root * root
