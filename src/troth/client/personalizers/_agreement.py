"""Distance of predicted probabilities from those of another model (Eq. 2)."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from troth.data import labels
from troth.types import Batch


def disagreement(of_w: Tensor, batch: Batch) -> Callable[[Tensor], Tensor]:
    """Return −Σ_i [z_i·log p_i + (1 − z_i)·log(1 − p_i)], averaged over the batch.

    z are the fixed probabilities of the outputs `of_w` [b, k], p those of its argument.
    They are over the classes; a model with one output (a margin) has two of them, and
    where an example may have several labels, each has a probability of its own. It is
    least, though not 0, where p = z.
    """
    single = batch.y.dim() == 1 or labels.soft(batch.y)
    z = _logs(of_w.detach(), single)[0].exp()

    def between(outputs: Tensor) -> Tensor:
        yes, no = _logs(outputs, single)
        each = -(z * yes + (1 - z) * no).sum(dim=1)
        return (each * batch.weight).sum()

    return between


def _logs(outputs: Tensor, single: bool) -> tuple[Tensor, Tensor]:
    """Return log p and log(1 − p), [b, K], both to full precision."""
    if not single:
        return logsigmoid(outputs), logsigmoid(-outputs)
    if outputs.shape[1] == 1:
        outputs = torch.cat([torch.zeros_like(outputs), outputs], dim=1)
    yes = outputs.log_softmax(dim=1)
    # The likeliest class may round to p = 1; of the others, p ≤ 1/2.
    at = outputs.detach().argmax(dim=1, keepdim=True)
    top = torch.arange(outputs.shape[1], device=outputs.device) == at
    others = outputs.masked_fill(top, -torch.inf).logsumexp(dim=1, keepdim=True)
    rest = others - outputs.logsumexp(dim=1, keepdim=True)
    small = yes.masked_fill(top, -torch.inf).exp()
    return yes, torch.where(top, rest, torch.log1p(-small))
