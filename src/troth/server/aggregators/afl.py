"""Agnostic federated learning: weights that play against the shared model.

References: mohri2019agnostic.
"""

import math

import torch
from torch import Tensor

from troth import numerics
from troth.server.aggregators._losses import numbers
from troth.server.rules import Note, silent
from troth.types import Messages, Refusal


def afl(
    messages: Messages,
    loss: Tensor,
    memory: Tensor,
    note: Note = silent,
    *,
    lr: float = 0.1,
) -> tuple[Tensor, Tensor]:
    """Descent in w, ascent in clients' weights: min over w of max over λ of Σ λ_k·F_k.

    The Stochastic-AFL algorithm of Section 4: the step is Σ λ_k·u_k, and then λ becomes
    the point of the simplex nearest to λ + lr·F(w). λ starts equal and is remembered by
    client id. With all clients in every round this is the paper's algorithm.

    With a part of them:
        * the simplex is that of the clients seen so far. Newcomers join with an equal
          share, 1/K each of then K, and the others make room in proportion; so until
          losses tell clients apart, all are equal.
        * the step divides by the sum of λ of those present: a mean of their updates
          (their plain mean, where all of them have λ = 0).
        * the loss of an absent client counts as the mean of those present. A constant
          on all losses does not move λ, so nobody gains or loses by being absent.

    Guarantee: for convex losses and small steps, the average of w over the rounds nears
    the minimax value (the convergence theorem of Section 4); the last w may circle
    around it.

    No robustness: λ follows what clients report, and one that always reports a large
    loss ends with λ = 1, its update being the step whenever it is there.

    Departs: several local steps for one gradient; the three rules above; w is not
    projected. A loss that is no number counts as the mean of the others, an infinite
    one as the largest number.

    Args:
        messages: what came.
        loss: [n] as reported, of w on the client's training data.
        memory: [K, 2] float64, a row a client seen: id (below 2^53) and λ; at first
            empty.
        note: is told the weights.
        lr: of λ. 0 keeps it equal: the mean. Weights are about 1/K, so with losses
            about 1 apart, lr above 1/K leaves few clients with any weight.
    """
    if not (math.isfinite(lr) and lr >= 0):
        raise Refusal(
            f"afl's lr = {lr} must be a finite number ≥ 0; at 0 all weigh the same"
        )
    client = messages.client.cpu().double()
    ids, lam = _joined(memory.cpu().double().reshape(-1, 2), client)
    row = torch.searchsorted(ids, client)
    weight = _shares(lam[row])
    note(weight=weight)
    step = numerics.combine(weight, messages.update)
    lam = numerics.capped_simplex(lam + _rise(numbers(loss), row, len(ids), lr), 0, 1)
    return step, torch.stack([ids, lam], dim=1)


def _joined(memory: Tensor, client: Tensor) -> tuple[Tensor, Tensor]:
    """Ids, ascending, and λ of all clients seen, those that are here now included."""
    here: Tensor = torch.unique(client)
    old, lam = memory.unbind(dim=1)
    new = here[~torch.isin(here, old)]
    ids, order = torch.cat([old, new]).sort()
    share = torch.full_like(new, 1 / len(ids))
    return ids, torch.cat([lam * (len(old) / len(ids)), share])[order]


def _shares(lam: Tensor) -> Tensor:
    """λ of those present, to sum to 1; equal where they have none."""
    most = lam.max()
    some = torch.where(most > 0, lam / torch.where(most > 0, most, 1.0), 1.0)
    return some / some.sum()  # of the largest: λ may be as small as numbers go


def _rise(loss: Tensor, row: Tensor, known: int, lr: float) -> Tensor:
    """[known] lr·loss less its largest, the mean for those absent.

    What is 1 below the largest point has no weight after projection, and λ ≤ 1: so
    nothing below −2 need be told apart, however large losses are.
    """
    below = (loss - loss.max()).clamp(min=-torch.finfo(torch.float64).max)
    rise = lr * below
    absent = rise.mean().clamp(min=-2).expand(known)
    return absent.scatter(0, row, rise.clamp(min=-2))
