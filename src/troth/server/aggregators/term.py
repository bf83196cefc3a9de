"""Tilted averaging: clients weigh by the exponential of their losses.

References: li2021tilted.
"""

import math

import torch
from torch import Tensor

from troth import numerics
from troth.server.aggregators._losses import numbers
from troth.server.aggregators.mean import mean
from troth.server.rules import Note, silent
from troth.types import Messages, Refusal


def term(
    messages: Messages, loss: Tensor, note: Note = silent, *, t: float = 1.0
) -> Tensor:
    """The mean with weights exp(t·loss_k) / Σ_j exp(t·loss_j): TERM's tilt.

    By Lemma 1 this is the gradient of 1/t·log(mean of exp(t·loss_k)), each client a
    group that is not tilted within; here with updates for gradients, and the loss of w
    on all of a client's training data, as the Ditto authors' "fair" baseline has it.

    No robustness: whoever reports the largest loss has the largest weight, and nearly
    all of it once t·loss is a few above that of the others; with t < 0, whoever reports
    the smallest. The updates themselves are not looked at.

    Departs: the weights are those of the messages of one round, without the running
    average of exp(t·loss) that TERM's stochastic solver keeps. A loss that is no number
    counts as the mean of the others, an infinite one as the largest number.

    Args:
        messages: what came.
        loss: [n] as reported, of w on the client's training data.
        note: is told the weights.
        t: the tilt. 0 is the mean; positive favours large losses, towards the worst
            client alone; negative favours small ones.
    """
    if not math.isfinite(t):
        raise Refusal(
            f"term's t = {t} must be a finite number; t = 0 is the mean, t = 100 "
            "nearly the client with the largest loss, t = -100 that with the smallest"
        )
    known = numbers(loss)
    if t == 0:
        note(weight=torch.full_like(known, 1 / len(known)))
        return mean(messages)
    weight = torch.softmax(t * (known - (known.max() if t > 0 else known.min())), dim=0)
    note(weight=weight)
    return numerics.combine(weight, messages.update)
