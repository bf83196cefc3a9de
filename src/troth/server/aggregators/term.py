"""TERM, tilted averaging: clients are weighted by exponentials of their losses.

References: li2021tilted.
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


def term(
    messages: Messages, loss: Tensor, note: Note = silent, *, t: float = 1.0
) -> Tensor:
    """Average with the weights exp(t·loss_k) / Σ_j exp(t·loss_j): TERM's tilt.

    If updates were gradients of the losses, the result would be the gradient of
    (1/t)·log(mean of exp(t·loss_k)) (Lemma 1 of the paper). loss_k is the loss of the
    shared model on all training data of client k, as in the "fair" baseline in the code
    of Ditto's authors.

    No robustness: the client that sends the largest loss has the largest weight. Its
    weight is nearly 1 if its t·loss exceeds those of the others by a few units. With t
    < 0, the same holds for the smallest loss. The updates do not affect the weights.

    Departs: the weights depend only on the messages of one round. TERM's stochastic
    solver keeps a running average of exp(t·loss) instead. NaN is replaced by the mean
    of the other losses, and an infinite loss by the largest finite number.

    Args:
        messages: Messages of n clients, with one update each.
        loss: [n] losses of the shared model on the training data of each client, as the
            clients send them.
        note: Function that records the weights of the updates.
        t: Tilt. 0 gives the mean. Positive values favor clients with large losses; with
            t → ∞, only the client with the largest loss has a weight. Negative values
            favor clients with small losses.

    Returns:
        The step of the shared model [d].

    Example:
        >>> import torch, troth
        >>> updates, loss = torch.tensor([[0.0], [1.0]]), torch.tensor([1.0, 3.0])
        >>> troth.aggregate("term", updates, loss=loss, t=1.0)
        tensor([0.8808])
    """
    must = "a finite number; t = 0 is the mean, t = 100 nearly the largest loss alone"
    expect(math.isfinite(t), "term's t", t, must)
    known = numbers(loss)
    if t == 0:
        note(weight=torch.full_like(known, 1 / len(known)))
        return mean(messages)
    weight = torch.softmax(t * (known - (known.max() if t > 0 else known.min())), dim=0)
    note(weight=weight)
    return numerics.combine(weight, messages.update)
