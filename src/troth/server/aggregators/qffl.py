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

LEAST = 1e-10  # least loss, as in the authors' code, as F^(q−1) is infinite at 0


def qffl(
    messages: Messages,
    loss: Tensor,
    note: Note = silent,
    *,
    q: float = 1.0,
    lr: float = 1.0,
) -> Tensor:
    """Average with weights loss^q, and shorten the step as q-FedAvg does (Algorithm 2).

    The rule descends on Σ_k F_k^(q+1) / (q+1). Let u_k be the updates, F_k the losses
    of w, and L = 1/lr. With Algorithm 2's Δw_k = −L·u_k, Δ_k = F_k^q·Δw_k and h_k =
    q·F_k^(q−1)·‖Δw_k‖² + L·F_k^q, the step is

        −Σ Δ_k / Σ h_k  =  Σ F_k^q·u_k / Σ F_k^q·(1 + q·‖u_k‖²/(lr·F_k)),

    a mean with weights F_k^q, shortened because the power adds curvature.

    No robustness: a client that sends a large loss dominates the step. For q = 1, a
    loss that is a thousand times as large has a thousand times the weight. One very
    long update shortens the step to almost 0, so that w stands still. For q < 1, so
    does a loss near 0.

    Departs: losses below 1e-10, including negative ones, count as 1e-10 (the authors
    add 1e-10 to every loss). A NaN loss counts as the mean of the others, and an
    infinite loss as the largest number.

    Args:
        messages: One update per client.
        loss: [n] losses of w on each client's training data, as the clients send them.
        note: Callback that receives the weights F_k^q / Σ_j F_j^q.
        q: Exponent of the losses. 0 gives the mean. For q → ∞, only the client with the
            largest loss counts.
        lr: Learning rate of the clients (`train.lr`). Its inverse is the paper's
            estimate L of the curvature. A larger value lengthens the step, up to the
            weighted mean. A smaller value shortens the step, down to 0. No effect if q
            = 0.

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
