"""Agnostic federated learning: weights that are adversarial to the shared model.

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

    Stochastic-AFL (Section 4): the step is Σ λ_k·u_k. Then λ becomes the point of the
    simplex nearest to λ + lr·F(w). The weights start equal and are remembered by client
    id. With all clients in every round this is the paper's algorithm. If only some
    clients take part in a round:

    - The simplex has one weight per client seen so far, K in all. A new client gets the
      weight 1/K, and the others shrink in proportion. So all weights are equal at
      first.
    - The step is divided by the sum of λ over the clients present. If all these λ are
      0, the clients weigh the same.
    - The loss of an absent client counts as the mean of those present. A constant added
      to all losses does not change λ, so absence neither raises nor lowers a weight.

    Guarantee: for convex losses and small steps, the average of w over the rounds
    approaches the minimax value (Section 4). The last w may circle around it.

    No robustness: λ follows the losses that clients send. A client that always sends a
    large loss ends with λ = 1, and its update is the step whenever it is present.

    Departs: an update results from several local steps instead of one gradient. The
    three rules above are added. w is not projected. A NaN loss counts as the mean of
    the others, and an infinite loss as the largest number.

    Args:
        messages: One update per client.
        loss: [n] losses of w on each client's training data, as the clients send them.
        memory: [K, 2] float64: id (below 2^53) and λ of every client seen so far; empty
            at first.
        note: Callback that receives the weights of the clients.
        lr: Learning rate of the weights λ. 0 keeps all weights equal, which gives the
            mean. Weights are about 1/K for K clients. If losses differ by about 1, a
            learning rate above 1/K leaves few clients any weight.

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
    """Return the ids of all clients seen, ascending, and their λ; add new clients."""
    here: Tensor = torch.unique(client)
    old, lam = memory.unbind(dim=1)
    new = here[~torch.isin(here, old)]
    ids, order = torch.cat([old, new]).sort()
    share = torch.full_like(new, 1 / len(ids))
    return ids, torch.cat([lam * (len(old) / len(ids)), share])[order]


def _shares(lam: Tensor) -> Tensor:
    """Scale the λ of the clients present to sum to 1; equal weights if all are 0."""
    most = lam.max()
    some = torch.where(most > 0, lam / torch.where(most > 0, most, 1.0), 1.0)
    return some / some.sum()  # relative to the largest, as λ may be extremely small


def _rise(loss: Tensor, row: Tensor, known: int, lr: float) -> Tensor:
    """Return lr·(loss − largest loss) per known client; absent clients get the mean."""
    below = (loss - loss.max()).clamp(min=-torch.finfo(torch.float64).max)
    rise = (
        lr * below
    )  # clamped: values 1 or more below the largest get weight 0, as λ ≤ 1
    absent = rise.mean().clamp(min=-2).expand(known)
    return absent.scatter(0, row, rise.clamp(min=-2))
