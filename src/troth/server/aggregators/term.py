"""Tilted averaging: clients weigh by the exponential of their losses.

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

    By Lemma 1 this is the gradient of 1/t·log(mean of exp(t·loss_k)), each client a
    group that is not tilted within; here with updates for gradients, and the loss of w
    on all of a client's training data, as the Ditto authors' "fair" baseline has it.

    No robustness: the client that reports the largest loss has the largest weight,
    nearly all once t·loss is a few above that of the others; with t < 0, the smallest
    loss. The updates themselves do not matter.

    Departs: the weights are those of one round's messages, without the running average
    of exp(t·loss) that TERM's stochastic solver keeps. A NaN loss counts as the mean of
    the others, infinity as the largest number.

    Args:
        messages: One update per client.
        loss: [n] reported loss of w on each client's training data.
        note: Receives the weights.
        t: Tilt t. 0 is the mean; positive favors large losses, towards the worst client
            alone; negative favors small ones.

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
