"""Labels drawn at random: the label poisoning A1 of the Ditto paper.

References: li2021ditto.
"""

import torch
from torch import Tensor

from troth import seeding
from troth.data.corruptions._numbers import check_classes


def random_labels(
    x: Tensor, y: Tensor, classes: int, key: Tensor
) -> tuple[Tensor, Tensor]:
    """Every training label is drawn uniformly from all classes, once (attack A1).

    With several labels per example, each is present with probability 1/2.
    The true label may come up (as in the authors' code). Test data stay clean.
    Threat model: knows nothing of the others; controls its own training data and
    nothing else.
    """
    check_classes("random_labels", classes)
    random = seeding.bits(key, y.numel()).reshape(y.shape)
    of = torch.tensor(classes if y.dim() == 1 else 2)
    return x, seeding.below(random, of).to(y.dtype)
