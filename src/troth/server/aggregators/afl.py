"""Agnostic federated learning: weights that play against the shared model.

References: mohri2019agnostic.
"""

import math

import torch
from torch import Tensor

from troth import numerics
from troth.config.checks import expect
from troth.server.aggregators._losses import numbers
from troth.server.rules import Note, silent
from troth.types import Messages


def afl(
    messages: Messages,
    loss: Tensor,
    memory: Tensor,
    note: Note = silent,
    *,
    lr: float = 0.1,
) -> tuple[Tensor, Tensor]:
    """Average with weights λ that rise with the losses: min_w max_λ Σ λ_k·F_k.

    Stochastic-AFL (Section 4): the step is Σ λ_k·u_k, and then λ becomes the point of
    the simplex nearest to λ + lr·F(w). λ starts equal and is remembered by client id.
    With all clients in every round this is the paper's algorithm. With a part of them:

    - The simplex is that of the clients seen so far. A new client gets the share 1/K of
      then K, and the others shrink in proportion: all stay equal at first.
    - The step divides by the sum of λ of those present (equal if all are 0).
    - The loss of an absent client counts as the mean of those present. A constant on
      all losses does not move λ, so absence neither helps nor harms.

    Guarantee: for convex losses and small steps, the average of w over the rounds nears
    the minimax value (Section 4); the last w may circle around it.

    No robustness: λ follows reported losses. A client that always reports a large one
    ends with λ = 1, and its update is the step whenever it is present.

    Departs: several local steps for one gradient; the three rules above; w is not
    projected. A NaN loss counts as the mean of the others, infinity as the largest
    number.

    Args:
        messages: One update per client.
        loss: [n] reported loss of w on each client's training data.
        memory: [K, 2] float64: id (below 2^53) and λ of every client seen; empty at
            first.
        note: Receives the weights.
        lr: Learning rate of λ; 0 keeps λ equal, the mean. Weights are about 1/K: if
            losses differ by about 1, lr above 1/K leaves few clients any weight.

    Returns:
        The step of the shared model [d], and the memory.

    Example:
        >>> import torch, troth
        >>> updates = torch.tensor([[1.0], [3.0]])
        >>> troth.aggregate("afl", updates, loss=torch.tensor([0.5, 2.0]))
        tensor([2.])
    """
    must = "a finite number ≥ 0; at 0 all weigh the same"
    expect(0 <= lr < math.inf, "afl's lr", lr, must)
    client = messages.client.cpu().double()
    ids, lam = _joined(memory.cpu().double().reshape(-1, 2), client)
    row = torch.searchsorted(ids, client)
    weight = _shares(lam[row])
    note(weight=weight)
    step = numerics.combine(weight, messages.update)
    lam = numerics.capped_simplex(lam + _rise(numbers(loss), row, len(ids), lr), 0, 1)
    return step, torch.stack([ids, lam], dim=1)


def _joined(memory: Tensor, client: Tensor) -> tuple[Tensor, Tensor]:
    """Return ids, ascending, and λ of all clients seen, the present ones included."""
    here: Tensor = torch.unique(client)
    old, lam = memory.unbind(dim=1)
    new = here[~torch.isin(here, old)]
    ids, order = torch.cat([old, new]).sort()
    share = torch.full_like(new, 1 / len(ids))
    return ids, torch.cat([lam * (len(old) / len(ids)), share])[order]


def _shares(lam: Tensor) -> Tensor:
    """Scale λ of those present to sum to 1; equal if they have none."""
    most = lam.max()
    some = torch.where(most > 0, lam / torch.where(most > 0, most, 1.0), 1.0)
    return some / some.sum()  # of the largest: λ may be as small as numbers go


def _rise(loss: Tensor, row: Tensor, known: int, lr: float) -> Tensor:
    """Return [known] lr·loss less its largest, the mean for those absent."""
    below = (loss - loss.max()).clamp(min=-torch.finfo(torch.float64).max)
    rise = lr * below  # 1 below the largest has no weight after projection, as λ ≤ 1
    absent = rise.mean().clamp(min=-2).expand(known)
    return absent.scatter(0, row, rise.clamp(min=-2))
