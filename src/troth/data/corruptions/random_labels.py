"""Labels drawn at random: the label poisoning A1 of the Ditto paper.

References: li2021ditto.
"""

from __future__ import annotations

import torch
from torch import Tensor

from troth import seeding
from troth.types import Refusal


def random_labels(
    x: Tensor, y: Tensor, classes: int, key: Tensor
) -> tuple[Tensor, Tensor]:
    """Every training label is drawn uniformly from all classes, once (attack A1).

    Where an example may have several labels, it has each by the toss of a fair coin.
    The true label may come up (as in the authors' code). Test data stay clean.
    Threat model: knows nothing of the others; controls its own training data and
    nothing else.
    """
    if classes == 0:
        raise Refusal(
            "random_labels needs classes, and this data set is a regression; "
            "set corruption.name to another one, such as 'flip_labels', or to 'none'"
        )
    random = seeding.bits(key, y.numel()).reshape(y.shape)
    of = torch.tensor(classes if y.dim() == 1 else 2)
    return x, seeding.below(random, of).to(y.dtype)
