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
    """Average with weights λ that increase with the losses: min_w max_λ Σ λ_k·F_k.

    This is Stochastic-AFL (Section 4 of the paper). λ_k is the weight of client k, u_k
    its update, and F_k its loss. The step is Σ λ_k·u_k. Then λ becomes the point of the
    simplex nearest to λ + lr·F(w). The weights are equal at first and are stored by
    client id. If all clients take part in every round, this is the paper's algorithm.
    If only some clients take part in a round:

    - The simplex has one weight for each of the K clients that took part so far. A new
      client gets the weight 1/K, and the other weights are scaled down.
    - The step is divided by the sum of λ over the clients of the round. If all these λ
      are 0, the clients get equal weights.
    - The loss of an absent client is replaced by the mean over the clients of the
      round. A constant added to all losses does not change λ, so absence changes no
      weight.

    Guarantee: for convex losses and small steps, the average of w over the rounds
    approaches the minimax value (Section 4). The last w may oscillate around it.

    No robustness: λ depends on the losses that clients send. If a client always sends a
    large loss, its λ reaches 1. In rounds with this client, the result is then its
    update.

    Departs: an update results from several local steps instead of one gradient. The
    three rules above are not in the paper. w is not projected. NaN is replaced by the
    mean of the other losses, and an infinite loss by the largest finite number.

    Args:
        messages: Messages of n clients, with one update each.
        loss: [n] losses of the shared model on the training data of each client, as the
            clients send them.
        memory: [K, 2] float64: id (below 2^53) and λ of the K clients that took part so
            far; empty at first.
        note: Function that records the weights of the updates.
        lr: Learning rate of the weights λ. 0 keeps all weights equal, which gives the
            mean. The weights of K clients are about 1/K. If losses differ by about 1
            and lr is above 1/K, most weights become 0.

    Returns:
        The step of the shared model [d], and the new memory.

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
    """Return the sorted ids of all clients in the memory or the round, and their λ."""
    here: Tensor = torch.unique(client)
    old, lam = memory.unbind(dim=1)
    new = here[~torch.isin(here, old)]
    ids, order = torch.cat([old, new]).sort()
    share = torch.full_like(new, 1 / len(ids))
    return ids, torch.cat([lam * (len(old) / len(ids)), share])[order]


def _shares(lam: Tensor) -> Tensor:
    """Scale λ of the round's clients to the sum 1; equal weights if all are 0."""
    most = lam.max()
    some = torch.where(most > 0, lam / torch.where(most > 0, most, 1.0), 1.0)
    return some / some.sum()  # scaled first, as λ may be extremely small


def _rise(loss: Tensor, row: Tensor, known: int, lr: float) -> Tensor:
    """Return lr·(loss − largest loss) of every client; absent clients get the mean."""
    below = (loss - loss.max()).clamp(min=-torch.finfo(torch.float64).max)
    rise = lr * below
    # Clamping is harmless: as λ ≤ 1, clients below −1 get the weight 0 anyway.
    absent = rise.mean().clamp(min=-2).expand(known)
    return absent.scatter(0, row, rise.clamp(min=-2))
