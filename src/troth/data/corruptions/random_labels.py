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
    """Draw every training label uniformly from all classes (attack A1).

    If an example may have several labels, each is present with probability 1/2. The
    drawn label may be the true one, as in the authors' code. Test data stay clean.
    Threat model: a malicious client knows nothing of other clients. It controls its own
    training data and nothing else.
    """
    check_classes("random_labels", classes)
    random = seeding.bits(key, y.numel()).reshape(y.shape)
    of = torch.tensor(classes if y.dim() == 1 else 2)
    return x, seeding.below(random, of).to(y.dtype)
